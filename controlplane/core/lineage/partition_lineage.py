"""From partition to partition, by how inputs are read; exact, for states name the roots that they
were made from.

each   the same key
by     the partitions of the input that hold the output's key, as the tree of pairs says
all    all of them
a fold reads its own partitions before, too
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, TypeAlias

from controlplane.core import tree
from controlplane.core.compile.nodes import Desired
from controlplane.core.model.states import PAIRS, State
from dataplane.contract.jobs import Mode
from dataplane.contract.keys import pair_key

OBJECTS: Final = "objects"  # under which the state of a read component has its listing
# Of one dataset that are followed one by one; of more, all of its partitions are named
MOST_KEYS: Final = 10_000
Way: TypeAlias = Mode | Literal["subject"]
Keys: TypeAlias = frozenset[str] | None  # None: all
# The state in which a dataset had this root, if it is kept
Kept: TypeAlias = Callable[[str, bytes], State | None]


@dataclass(frozen=True, slots=True)
class PartitionsAtRoot:
    """Partitions of a dataset at one root. `state`: None where it is no longer kept, or none is
    needed."""

    dataset: str
    mode: Way
    root: bytes
    keys: Keys
    state: State | None

    @property
    def is_whole(self) -> bool:
        return self.keys is None


@dataclass(frozen=True, slots=True)
class _Demand:
    mode: Way
    root: bytes
    keys: Keys


def upstream(
    desired: Desired, nodes: tree.NodeStore, state_of: Kept, state: State, partition: str | None
) -> Iterator[PartitionsAtRoot]:
    """What this state of a dataset, or one partition of it, was made from: nearest first, itself
    among them."""
    own: Keys = None if partition is None else frozenset((partition,))
    demands: dict[str, dict[bytes, _Demand]] = {
        state.dataset: {state.root: _Demand("subject", state.root, own)}
    }
    for name in reversed(desired.order):
        for want in demands.get(name, {}).values():
            of = state if name == state.dataset else state_of(name, want.root)
            yield PartitionsAtRoot(name, want.mode, want.root, want.keys, of)
            if of is not None:
                for above, demand in _inputs(desired, nodes, of, want.keys):
                    _add(demands.setdefault(above, {}), demand)


def _add(demands: dict[bytes, _Demand], demand: _Demand) -> None:
    """Two ways to one dataset together; the first says how."""
    before = demands.get(demand.root)
    if before is None:
        demands[demand.root] = demand
        return
    keys = (
        None if before.keys is None or demand.keys is None else _bounded(before.keys | demand.keys)
    )
    demands[demand.root] = _Demand(before.mode, demand.root, keys)


def inputs(
    desired: Desired, nodes: tree.NodeStore, state_of: Kept, state: State, partition: str
) -> Iterator[tuple[str, PartitionsAtRoot]]:
    """What one partition was made from directly, by the names of inputs."""
    for name, above, want in _by_slot(desired, nodes, state, frozenset((partition,))):
        yield (
            name,
            PartitionsAtRoot(above, want.mode, want.root, want.keys, state_of(above, want.root)),
        )


def _inputs(
    desired: Desired, nodes: tree.NodeStore, state: State, keys: Keys
) -> Iterator[tuple[str, _Demand]]:
    return ((dataset, want) for _, dataset, want in _by_slot(desired, nodes, state, keys))


def _by_slot(
    desired: Desired, nodes: tree.NodeStore, state: State, keys: Keys
) -> Iterator[tuple[str, str, _Demand]]:
    node = desired.nodes.get(state.dataset)
    if node is None or not node.is_transform:
        return
    read = keys if node.fold is None else _before(nodes, state.root, keys)
    for slot in node.slots:
        consumed = state.inputs.get(slot.name)
        if consumed is None:
            continue
        pairs = state.inputs.get(slot.name + PAIRS)
        if slot.mode == "each" and read is not None:
            there = tree.lookup(nodes, consumed.root, sorted(read))
            yield slot.name, slot.dataset, _Demand("each", consumed.root, frozenset(there))
        elif slot.mode == "by" and pairs is not None and read is not None:
            keys_read = {key for partition in read for key in node.keys_read(slot, partition)}
            partitions = {
                partition
                for key in sorted(keys_read)
                for partition in _paired(nodes, pairs.root, key)
            }
            yield slot.name, slot.dataset, _Demand("by", consumed.root, _bounded(partitions))
        else:
            yield slot.name, slot.dataset, _Demand(slot.mode, consumed.root, None)


def _before(nodes: tree.NodeStore, root: bytes, keys: Keys) -> Keys:
    """With all partitions before the last of them, in order."""
    if keys is None:
        return None
    last = max(keys, default="")
    before = (entry.key for entry in tree.scan(nodes, root, stop=last))
    return _bounded(keys | set(islice(before, MOST_KEYS + 1)))


def _paired(nodes: tree.NodeStore, pairs: bytes, key: str) -> Iterator[str]:
    """The partitions of an input in which rows with this key are."""
    prefix = pair_key(key, "")
    for entry in tree.scan(nodes, pairs, prefix=prefix):
        yield entry.key.removeprefix(prefix)


def _bounded(keys: Iterable[str]) -> Keys:
    bounded = frozenset(keys)
    return None if len(bounded) > MOST_KEYS else bounded


# --- down -----------------------------------------------------------------------------------------


def downstream(
    desired: Desired, nodes: tree.NodeStore, states: Mapping[str, State], dataset: str, keys: Keys
) -> Iterator[PartitionsAtRoot]:
    """The partitions of present states that rows of these partitions of a dataset have gone into,
    itself first. Components that have no state yet hold nothing."""
    below = desired.graph.downstream({dataset})
    held: dict[str, Keys] = {dataset: keys}
    if dataset in states:
        yield PartitionsAtRoot(dataset, "subject", states[dataset].root, keys, states[dataset])
    for name in desired.order:
        state = states.get(name)
        if name not in below or state is None:
            continue
        mode, holding = _holding(desired, nodes, state, held)
        if mode is None or holding == frozenset():
            continue
        held[name] = holding
        yield PartitionsAtRoot(name, mode, state.root, holding, state)


def readers(
    desired: Desired,
    nodes: tree.NodeStore,
    states: Mapping[str, State],
    dataset: str,
    entry: tree.Entry,
) -> Iterator[PartitionsAtRoot]:
    """The partitions of present states that were made directly from this partition, as it is in
    `entry`."""
    held: dict[str, Keys] = {dataset: frozenset((entry.key,))}
    for name, state in states.items():
        node = desired.nodes.get(name)
        slots = node.slots if node is not None else ()
        roots = {
            state.inputs[s.name].root
            for s in slots
            if s.dataset == dataset and s.name in state.inputs
        }
        if not any(tree.lookup(nodes, root, [entry.key]).get(entry.key) == entry for root in roots):
            continue  # it has not read it yet, or not any more
        mode, holding = _holding(desired, nodes, state, held)
        if mode is not None and holding != frozenset():
            yield PartitionsAtRoot(name, mode, state.root, holding, state)


def _holding(
    desired: Desired, nodes: tree.NodeStore, state: State, held: Mapping[str, Keys]
) -> tuple[Way | None, Keys]:
    node = desired.nodes[state.dataset]
    if not node.is_transform:
        return None, frozenset()
    made_keys: set[str] = set()
    first: Way | None = None
    for slot in node.slots:
        if slot.dataset not in held:
            continue
        first = first or slot.mode
        keys, pairs = held[slot.dataset], state.inputs.get(slot.name + PAIRS)
        if keys is None or slot.mode == "all" or (slot.mode == "by" and pairs is None):
            return slot.mode, None
        made = keys
        if pairs is not None:
            held_keys = _keys_in(nodes, pairs.root, keys)
            made = frozenset(k for key in held_keys for k in node.keys_reached(slot, key))
        made_keys |= set(tree.lookup(nodes, state.root, sorted(made)))
    if node.fold is not None and made_keys:  # and all that come after
        made_keys |= {
            entry.key
            for entry in islice(tree.scan(nodes, state.root, start=min(made_keys)), MOST_KEYS + 1)
        }
    return first, _bounded(made_keys)


def _keys_in(nodes: tree.NodeStore, pairs: bytes, partitions: frozenset[str]) -> set[str]:
    """The output's keys that have rows in these partitions: reads all pairs."""
    output_keys: set[str] = set()
    for entry in tree.scan(nodes, pairs):
        key, _, partition = entry.key.partition(" ")
        if partition in partitions:
            output_keys.add(key)
    return output_keys
