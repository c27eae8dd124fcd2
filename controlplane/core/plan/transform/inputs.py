"""Which states of its inputs a transform reads: ready, of one cut, never behind what it read before.

Does not belong here: what it does with them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from controlplane.core import tree
from controlplane.core.compile.nodes import Sink, Slot, Transform
from controlplane.core.model.states import Consumed, PartialState, State
from controlplane.core.plan import salts
from controlplane.core.plan.keys import Keys, lacking, listed, union
from controlplane.core.plan.transform.key_index import Index
from controlplane.core.plan.values import RECENT, Decision, Item, Planning
from dataplane.contract.identity import Content, schema_id
from dataplane.contract.schemas import Schema

BATCH_SEARCH = 4_000  # combinations of recent input states that are tried for an agreeing one
FURTHER = 1_000  # states of an input that are looked at where it is far ahead of another one
UNRELIABLE = ("failed", "blocked", "waiting")


@dataclass(frozen=True, slots=True)
class Input:
    """One slot with what it reads, under the schema that it reads it with.

    `of` is half-built where the whole is still being built; `pending` are partitions of it that may still change.
    """

    slot: Slot
    of: State | PartialState
    schema: Schema
    consumed: Consumed
    pending: Keys | None = None
    index: Index | None = None  # of a `by` input, once it is known how far it is

    @property
    def is_parted(self) -> bool:
        """Output partition k reads a part of it."""
        return self.slot.mode != "all"

    @property
    def root(self) -> bytes:
        """Of the tree whose keys are those of output partitions, and whose contents are what they read."""
        return self.index.keys if self.index else self.of.root

    @property
    def tree_name(self) -> str:
        """The name under which a state remembers that tree."""
        return f"{self.slot.name}/keys" if self.slot.mode == "by" else self.slot.name

    @property
    def remembered(self) -> dict[str, Consumed]:
        """What a state that is made of it remembers."""
        return self.index.consumed(self.slot.name, self.consumed) if self.index else {self.slot.name: self.consumed}

    @property
    def is_whole(self) -> bool:
        return isinstance(self.of, State)

    def content(self, planning: Planning) -> Content:
        """Of the whole input."""
        return tree.totals(planning.world.nodes, self.of.root).content


def read(planning: Planning, node: Transform, offers: Sequence[State | PartialState]) -> tuple[Input, ...]:
    return tuple(_input(planning, node, slot, of) for slot, of in zip(node.slots, offers, strict=True))


def _input(planning: Planning, node: Transform, slot: Slot, of: State | PartialState) -> Input:
    assert of.schema is not None
    schema, digest = _read_schema(node, slot, of.schema)
    pending = None
    if not isinstance(of, State):
        above = planning.decisions.get(slot.dataset)
        pending = above.pending if above else None
    return Input(slot, of, schema, Consumed(slot.dataset, of.root, digest), pending)


def _read_schema(node: Transform, slot: Slot, schema: Schema) -> tuple[Schema, bytes]:
    """The part of an input's schema that this logic can see, and its id."""
    fields = ((f["name"], str(f["type"])) for f in schema["fields"])
    found = _kept_reading(node.logic, slot.columns, *fields)
    if not found:
        seen = node.read_schema(slot, schema)
        found.append((seen, schema_id(seen)))
    return found[0]


@lru_cache(maxsize=50_000)
def _kept_reading(*_name: object) -> list[tuple[Schema, bytes]]:
    """Where the answer that is a function of these is kept; empty until it is known. The node itself is no argument:
    those of older revisions would be kept with it."""
    return []


# --- readiness ------------------------------------------------------------------------------------


def offers(planning: Planning, node: Transform) -> tuple[State | PartialState, ...] | Decision:
    """The newest that each input has to offer, made by the desired code; or why there is none."""
    found: list[State | PartialState] = []
    for slot in node.slots:
        offer = _offer(planning, slot)
        if offer is None or (node.fold and isinstance(offer, PartialState)):  # keys that it lacks would come in between
            return not_ready(planning, node, slot)
        found.append(offer)
    return tuple(found)


def _offer(planning: Planning, slot: Slot) -> State | PartialState | None:
    desired = planning.desired.nodes[slot.dataset]
    if isinstance(desired, Sink):
        return None
    state = planning.state(slot.dataset)
    if state is not None and state.lineage == desired.lineage:
        return state
    building = planning.building(slot.dataset)
    if slot.mode != "each" or building is None or building.lineage != desired.lineage or building.schema is None:
        return None
    if not salts.is_of(planning, desired, building):
        return None
    return building


def not_ready(planning: Planning, node: Transform, slot: Slot) -> Decision:
    above = planning.decisions.get(slot.dataset)
    if above is not None and above.status in (*UNRELIABLE, "paused"):
        return blocked(node.dataset, slot.dataset, above)
    keys = bound(planning, node) or listed(("",))
    return Decision(
        node.dataset, "stale", items=(possible(node, keys),), pending=keys, reason=f"waits for {slot.dataset}"
    )


def blocked(dataset: str, by: str, above: Decision) -> Decision:
    return Decision(dataset, "blocked", blocked_by=by, reason=f"{by} is {above.status}")


def blocking(planning: Planning, node: Transform) -> str:
    """An input that failed, is blocked or waits; empty if there is none."""
    for slot in node.slots:
        above = planning.decisions.get(slot.dataset)
        if above is not None and above.status in UNRELIABLE:
            return slot.dataset
    return ""


def bound(planning: Planning, node: Transform) -> Keys | None:
    """What of this dataset may still change because of inputs that are not settled."""
    touched = [(s, d.pending) for s in node.slots if (d := planning.decisions.get(s.dataset)) and d.pending]
    if not touched:
        return None
    if not any(s.mode == "each" for s in node.slots):
        present = everything(planning, node.dataset) if node.key else Keys()
        return present if present.count else listed(("",))
    each = [keys for slot, keys in touched if slot.mode == "each"]
    if len(each) < len(touched) or node.fold:  # an `all` input concerns every partition, one of a fold all after it
        each += [everything(planning, s.dataset) for s in node.slots if s.mode == "each"]
    return union(each)


def everything(planning: Planning, dataset: str) -> Keys:
    """All partitions that a dataset has now."""
    state = planning.state(dataset)
    return lacking(planning.world.nodes, state.root) if state else Keys()


def possible(node: Transform, keys: Keys) -> Item:
    return Item(node.dataset, "compute", "input", False, keys.count, keys)


def after(planning: Planning, node: Transform, decision: Decision) -> Decision:
    """Add what may follow from inputs that are still at work, and that an input cannot be relied on."""
    if decision.status != "up_to_date" or decision.items:
        return decision
    keys, above = bound(planning, node), blocking(planning, node)
    if above:
        return replace(blocked(node.dataset, above, planning.decisions[above]), pending=keys)
    if keys is None:
        return decision
    return Decision(
        node.dataset, "stale", items=(possible(node, keys),), pending=keys, reason="an input is being computed"
    )


# --- consistency ----------------------------------------------------------------------------------


def consistent(
    planning: Planning, node: Transform, newest: tuple[State | PartialState, ...]
) -> tuple[State | PartialState, ...] | None:
    """The newest combination of recent input states, made by the desired code, that agree on shared sources."""
    if _agree(planning, node, newest):
        return newest
    found = (_newest_agreeing(planning, node, newest, limit) for limit in (RECENT, FURTHER))
    return next((chosen for chosen in found if chosen is not None), None)


def _newest_agreeing(
    planning: Planning, node: Transform, newest: tuple[State | PartialState, ...], limit: int
) -> tuple[State, ...] | None:
    """Among so many states of each input."""
    candidates = [
        [s for s in planning.history(slot.dataset, limit) if s.lineage == of.lineage]
        for slot, of in zip(node.slots, newest, strict=True)
    ]
    floor = _floor(node, planning.state(node.dataset), candidates)
    above = [[s for s in states if s.seq >= least] for states, least in zip(candidates, floor, strict=True)]
    agreeing = (c for c in itertools.islice(_joined(above), BATCH_SEARCH) if _agree(planning, node, c))
    return max(agreeing, key=lambda c: sum(s.seq for s in c), default=None)


def _joined(candidates: Sequence[Sequence[State]]) -> Iterator[tuple[State, ...]]:
    """Combinations that have the same of every source that all states of two inputs tell, the first inputs' newest
    first."""
    sources = [
        set[str]().union(*(s.cut for s in states[:1])).intersection(*(s.cut for s in states)) for states in candidates
    ]
    known: set[str] = set()
    steps: list[tuple[list[str], dict[tuple[bytes, ...], list[State]]]] = []
    for states, own in zip(candidates, sources, strict=True):
        shared = sorted(known & own)
        by_cut: dict[tuple[bytes, ...], list[State]] = {}
        for state in states:
            by_cut.setdefault(tuple(state.cut[s] for s in shared), []).append(state)
        steps.append((shared, by_cut))
        known |= own

    def further(chosen: tuple[State, ...], cut: Mapping[str, bytes]) -> Iterator[tuple[State, ...]]:
        if len(chosen) == len(steps):
            yield chosen
            return
        shared, by_cut = steps[len(chosen)]
        for state in by_cut.get(tuple(cut[s] for s in shared), ()):
            yield from further((*chosen, state), {**cut, **state.cut})

    return further((), {})


def _floor(node: Transform, current: State | None, candidates: Sequence[Sequence[State]]) -> list[int]:
    """Never go back behind the states that were consumed last."""
    floor = []
    for slot, states in zip(node.slots, candidates, strict=True):
        used = current.inputs.get(slot.name) if current else None
        floor.append(
            max((s.seq for s in states if used and s.root == used.root and s.cut == _cut(current, s)), default=0)
        )
    return floor


def _cut(current: State | None, state: State) -> Mapping[str, bytes]:
    return {k: v for k, v in current.cut.items() if k in state.cut} if current else {}


def _agree(planning: Planning, node: Transform, states: Sequence[State | PartialState]) -> bool:
    seen: dict[str, bytes] = {}
    inputs = list(zip((s.dataset for s in node.slots), states, strict=True))
    return salts.agree(planning, inputs) and all(
        seen.setdefault(source, root) == root for s in states for source, root in s.cut.items()
    )


def merged_cut(chosen: Sequence[Input]) -> dict[str, bytes]:
    return {source: root for i in chosen for source, root in sorted(i.of.cut.items())}
