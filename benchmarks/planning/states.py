"""States as computing a graph would have left them, with pins, memos and build traces.

Does not belong here: trees; which graph, and what was edited in it (seed).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.planning import contents, ours, sources
from benchmarks.planning.graph import COLUMNS
from benchmarks.planning.sources import AT
from benchmarks.planning.trees import Wanted
from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Desired, Source, Transform, settings_id
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import Publication
from controlplane.core.model.states import Consumed, PartialState, State
from controlplane.core.plan.source.source_decision import build_basis
from controlplane.core.schema.ddl_schemas import struct
from controlplane.core.tree import Entry
from controlplane.ports.store import Store, Tx
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Json, Schema

OUTPUT = struct((name, "long") for name in COLUMNS)
TOTAL = struct([("v", "long")])


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree that was wanted, and its root."""

    wanted: Wanted
    root: bytes


@dataclass(frozen=True, slots=True)
class Settled:
    """A state, with what else is stored when it is committed."""

    state: State
    build: bytes | None
    pin: Pin | None = None
    memo: tuple[bytes, Json] | None = None


def lineage(nodes: Desired, dataset: str) -> bytes:
    node = nodes.nodes[dataset]
    assert isinstance(node, Source | Transform)
    return node.lineage


def is_partitioned(nodes: Desired, dataset: str) -> bool:
    """Whether it has the partitions of its inputs, and not only one."""
    node = nodes.nodes[dataset]
    return not isinstance(node, Transform) or any(slot.mode == "each" for slot in node.slots)


def settle(
    nodes: Desired,
    listings: Mapping[str, bytes],
    trees: Mapping[str, Tree],
    known: Mapping[str, State],
) -> Iterator[Settled]:
    """The state of each dataset that has a tree here, inputs first; the others are `known`."""
    states = dict(known)
    for dataset in nodes.order:
        if dataset not in trees:
            continue
        found = _settled(nodes, dataset, listings, trees[dataset].root, states)
        count = trees[dataset].wanted.size
        state = replace(found.state, partitions=count, rows=count * contents.ROWS)
        states[dataset] = state
        yield replace(found, state=state)


def _settled(
    nodes: Desired,
    dataset: str,
    listings: Mapping[str, bytes],
    root: bytes,
    states: Mapping[str, State],
) -> Settled:
    match nodes.nodes[dataset]:
        case Source() as node:
            return _read(node, listings[dataset], root)
        case Transform() as node:
            return _transformed(node, states, root)
    raise TypeError(f"{dataset} is no dataset")


def _read(node: Source, listing: bytes, root: bytes) -> Settled:
    assert node.declared is not None
    state = _state(
        node, {"objects": Consumed("", listing, b"")}, root, node.declared, {node.dataset: listing}
    )
    build = ids.build_key(node.logic, build_basis(listing, None))
    return Settled(state, build, pin=Pin(settings_id(node), node.declared))


def _transformed(node: Transform, states: Mapping[str, State], root: bytes) -> Settled:
    inputs, read = {}, read_schemas(node, {s.dataset: states[s.dataset].schema for s in node.slots})
    for slot in node.slots:
        inputs[slot.name] = Consumed(
            slot.dataset, states[slot.dataset].root, schema_id(read[slot.name])
        )
    cut = {source: at for s in node.slots for source, at in sorted(states[s.dataset].cut.items())}
    is_each = any(slot.mode == "each" for slot in node.slots)
    schema = OUTPUT if is_each else TOTAL
    basis = {
        s.name: {"mode": s.mode, "schema": inputs[s.name].schema, "data": inputs[s.name].root}
        for s in node.slots
    }
    return Settled(
        _state(node, inputs, root, schema, cut),
        ids.build_key(node.logic, basis) if is_each else None,
        memo=(ids.analysis_key(node.logic, read), {"schema": schema}),
    )


def half_built(
    nodes: Desired,
    listings: Mapping[str, bytes],
    trees: Mapping[str, Tree],
    known: Mapping[str, State],
) -> Iterator[tuple[PartialState, Settled]]:
    """As `settle`, for datasets that are not done: each has consumed what its inputs have so
    far."""
    for settled in settle(nodes, listings, trees, known):
        state = settled.state
        building = PartialState(
            state.branch,
            state.dataset,
            state.lineage,
            state.inputs,
            state.root,
            state.schema,
            state.cut,
        )
        yield building, settled


def build_on(store: Store, half: Iterable[tuple[PartialState, Settled]]) -> None:
    """Store half-built datasets, and what was found out about their schemas."""
    with store.begin() as tx:
        for building, settled in half:
            tx.states.put_building(building)
            if settled.memo is not None:
                tx.traces.put_memo(*settled.memo)


def read_schemas(node: Transform, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    return {slot.name: node.read_schema(slot, schemas[slot.dataset]) for slot in node.slots}


def _state(
    node: Source | Transform,
    inputs: Mapping[str, Consumed],
    root: bytes,
    schema: Schema,
    cut: Mapping[str, bytes],
) -> State:
    return State(
        branch=ours.MAIN,
        dataset=node.dataset,
        seq=1,
        generation=1,
        logic=node.logic,
        inputs=inputs,
        root=root,
        schema=schema,
        cut=cut,
        partitions=0,
        rows=0,
        cause="missing",
        revision=node.revision,
        at=AT,
        lineage=node.lineage,
    )


def commit(store: Store, settled: Sequence[Settled]) -> None:
    """Each as the next state of its dataset, published."""
    with store.begin() as tx:
        heads = tx.states.newest(ours.MAIN)
        for each in settled:
            before = heads.get(each.state.dataset)
            number = before.seq + 1 if before else 1
            _commit(tx, replace(each, state=replace(each.state, seq=number, generation=number)))


def _commit(tx: Tx, settled: Settled) -> None:
    state = settled.state
    tx.states.commit(state, state.seq - 1)
    if settled.build is not None:
        tx.traces.put_build(settled.build, state.root, state.schema)
    if settled.pin is not None:
        tx.states.pin_schema(state.branch, state.dataset, settled.pin)
    if settled.memo is not None:
        tx.traces.put_memo(*settled.memo)
    tx.projections.put_publication(
        Publication(
            state.branch,
            state.dataset,
            state.generation,
            state.root,
            schema_id(state.schema),
            state.generation - 1,
        )
    )


def analyse(store: Store, nodes: Desired, datasets: Iterable[str]) -> None:
    """Remember the output schemas of transforms whose code was edited, so that their tasks can be
    told."""
    with store.begin() as tx:
        schemas = {d: s.schema for d, s in tx.states.newest(ours.MAIN).items()}
        for dataset in datasets:
            node = nodes.nodes[dataset]
            assert isinstance(node, Transform)
            tx.traces.put_memo(
                ids.analysis_key(node.logic, read_schemas(node, schemas)), {"schema": OUTPUT}
            )


def advance(store: Store, nodes: Desired, dataset: str, entries: Mapping[str, Entry]) -> None:
    """A read component has followed its listing: these partitions were computed anew."""
    listing = sources.listing_id(nodes, dataset)
    with store.begin() as tx:
        state = tx.states.newest(ours.MAIN, [dataset])[dataset]
        objects = tx.listings.get([listing])[listing].root
        assert objects is not None
        moved = replace(
            state,
            seq=state.seq + 1,
            generation=state.generation + 1,
            inputs={"objects": Consumed("", objects, b"")},
            root=tree.edit(tx.nodes, state.root, sorted(entries.items())),
            cut={dataset: objects},
        )
        tx.states.commit(moved, state.seq)
