"""Which states of its inputs a transform reads: ready, of one cut, never older than those that it
read before.

    offers        the newest that each input has to offer, made by the desired code
                  an input has nothing                        -> not_ready
      | newest
    consistent    the newest states agree on every source     -> these
                  recent states of them do                    -> the newest such combination
                  none do                                     -> None: the transform waits

An input that is read `each` may be a partial root: its present partitions are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.model.event_times import EventTimes
from controlplane.core.model.states import CLOSED, KEYS, Cause, Consumed, PartialState, State
from controlplane.core.plan import event_watermarks, salts
from controlplane.core.plan.plan_values import RECENT, Decision, Item, Planning, in_words
from controlplane.core.plan.work_keys import Keys, lacking, listed, union
from dataplane.contract.identity import Content, schema_id
from dataplane.contract.schemas import Schema

BATCH_SEARCH = 4_000  # combinations of recent input states that are tried for an agreeing one
FURTHER = 1_000  # states of an input that are looked at where it is far ahead of another one
UNRELIABLE = ("failed", "blocked", "waiting")

# Shared sources; states by their roots
_JoinStep: TypeAlias = tuple[list[str], dict[tuple[bytes, ...], list[State]]]


@dataclass(frozen=True, slots=True)
class Input:
    """One slot with its present input, under the schema that it reads it with.

    `of` is half-built where the whole is still being built; `pending` are partitions of it that may
    still change.
    """

    slot: Slot
    of: State | PartialState
    schema: Schema
    consumed: Consumed
    pending: Keys | None = None
    # The trees of a `by` input, once it is known how far they are
    index: Mapping[str, Consumed] | None = None

    @property
    def is_parted(self) -> bool:
        """Output partition k reads a part of it."""
        return self.slot.mode != "all"

    @property
    def root(self) -> bytes:
        """The root of the tree whose keys are those of output partitions, and whose contents are
        those of the rows they read."""
        return self.index[self.tree_name].root if self.index else self.of.root

    @property
    def tree_name(self) -> str:
        """The name under which a state remembers that tree."""
        closed = self.slot.name + CLOSED
        if self.index is not None and closed in self.index:
            return closed
        return self.slot.name + KEYS if self.slot.mode == "by" else self.slot.name

    @property
    def remembered(self) -> Mapping[str, Consumed]:
        """What a state that is made of it remembers."""
        return self.index or {self.slot.name: self.consumed}

    @property
    def is_whole(self) -> bool:
        return isinstance(self.of, State)

    def content(self, planning: Planning) -> Content:
        """The content of the whole input."""
        return tree.totals(planning.nodes, self.of.root).content


def read(
    planning: Planning, node: Transform, offers: Sequence[State | PartialState]
) -> tuple[Input, ...]:
    return tuple(
        _input(planning, node, slot, of) for slot, of in zip(node.slots, offers, strict=True)
    )


def _input(planning: Planning, node: Transform, slot: Slot, of: State | PartialState) -> Input:
    assert of.schema is not None
    schema, digest = _read_schema(node, slot, of.schema)
    pending = None
    if isinstance(of, PartialState):
        above = planning.decisions.get(slot.dataset)
        pending = above.pending if above else None
    watermark_us = event_watermarks.watermark_us(planning.desired.nodes[slot.dataset], of)
    times = _times(of) if node.late is not None else None
    consumed = Consumed(slot.dataset, of.root, digest, times, watermark_us)
    return Input(slot, of, schema, consumed, pending)


def _times(of: State | PartialState) -> EventTimes | None:
    """The event times of a topic, with the number of its rows."""
    objects = of.inputs.get("objects")
    if not isinstance(of, State) or objects is None or objects.times is None:
        return None
    return replace(objects.times, rows=of.rows)


def _read_schema(node: Transform, slot: Slot, schema: Schema) -> tuple[Schema, bytes]:
    """The part of an input's schema that this logic can see, and its id."""
    fields = ((f["name"], str(f["type"])) for f in schema["fields"])
    reading = _kept_reading(node.logic, slot.columns, *fields)
    if not reading:
        read_schema = node.read_schema(slot, schema)
        reading.append((read_schema, schema_id(read_schema)))
    return reading[0]


@lru_cache(maxsize=50_000)
def _kept_reading(*_name: object) -> list[tuple[Schema, bytes]]:
    """Where the answer that is a function of these is kept; empty until it is known. The node
    itself is no argument: those of older revisions would be kept with it."""
    return []


# --- readiness ------------------------------------------------------------------------------------


def offers(planning: Planning, node: Transform) -> tuple[State | PartialState, ...] | Decision:
    """The newest that each input has to offer, made by the desired code; or why there is none."""
    states: list[State | PartialState] = []
    for slot in node.slots:
        offer = _offer(planning, slot)
        if offer is None:
            return not_ready(planning, node, slot)
        # Keys that a partial root lacks would come in between the partitions of a fold.
        # What is late follows from all slices before.
        needs_all = node.fold is not None or node.late is not None
        if needs_all and isinstance(offer, PartialState):
            return not_ready(planning, node, slot)
        states.append(offer)
    return tuple(states)


def _offer(planning: Planning, slot: Slot) -> State | PartialState | None:
    desired = planning.desired.nodes[slot.dataset]
    if desired.is_copy:
        return None
    state = planning.state(slot.dataset)
    if state is not None and slot.dataset in planning.holds:
        return state  # of any code: the hold pins just these rows
    if state is not None and state.lineage == desired.lineage:
        return state
    # Only partition by partition can something be made of a part of the input.
    if slot.mode != "each":
        return None
    building = planning.building(slot.dataset)
    if building is None or building.lineage != desired.lineage:
        return None
    if building.schema is None or not salts.is_of(planning, desired, building):
        return None
    return building


def not_ready(planning: Planning, node: Transform, slot: Slot) -> Decision:
    """This input has nothing to read yet."""
    above = planning.decisions.get(slot.dataset)
    if above is not None and above.status in (*UNRELIABLE, "paused"):
        return blocked(node.dataset, slot.dataset, above)
    keys = bound(planning, node) or listed(("",))
    return _waits(planning, node, keys, f"waits for {slot.dataset}")


def _waits(planning: Planning, node: Transform, keys: Keys, reason: str) -> Decision:
    return Decision(
        node.dataset, "stale", items=(possible(planning, node, keys),), reason=reason, pending=keys
    )


def blocked(dataset: str, by: str, above: Decision) -> Decision:
    return Decision(dataset, "blocked", blocked_by=by, reason=in_words(by, above.status))


def blocking(planning: Planning, node: Transform) -> str:
    """An input that failed, is blocked or waits; empty if there is none."""
    for slot in node.slots:
        above = planning.decisions.get(slot.dataset)
        if above is not None and above.status in UNRELIABLE:
            return slot.dataset
    return ""


def bound(planning: Planning, node: Transform) -> Keys | None:
    """What of this dataset may still change because of inputs that are not settled; None: they all
    are."""
    touched = list(_pending_inputs(planning, node))
    if not touched:
        return None
    each = [slot for slot in node.slots if slot.mode == "each"]
    if not each:
        return _whole_or_present(planning, node)
    keys = [pending for slot, pending in touched if slot.mode == "each"]
    # An `all` input concerns every partition, and one of a fold all partitions after it.
    if len(keys) < len(touched) or node.fold is not None:
        keys += [everything(planning, slot.dataset) for slot in each]
    return union(keys)


def _pending_inputs(planning: Planning, node: Transform) -> Iterator[tuple[Slot, Keys]]:
    """The inputs that may still change, each with those of its partitions that may."""
    for slot in node.slots:
        above = planning.decisions.get(slot.dataset)
        if above is not None and above.pending is not None:
            yield slot, above.pending


def _whole_or_present(planning: Planning, node: Transform) -> Keys:
    """The partitions that an output by key has. Any other output is one partition."""
    if node.key:
        present = everything(planning, node.dataset)
        if present.count:
            return present
    return listed(("",))


def everything(planning: Planning, dataset: str) -> Keys:
    """All partitions that a dataset has now."""
    state = planning.state(dataset)
    if state is None:
        return Keys()
    return lacking(planning.nodes, state.root)


def possible(planning: Planning, node: Transform, keys: Keys) -> Item:
    """Work that follows from inputs that are at work, at most on these partitions."""
    cause, reason = _possible_because(planning, node)
    return Item(
        node.dataset, "compute", cause, certain=False, tasks=keys.count, keys=keys, reason=reason
    )


def _possible_because(planning: Planning, node: Transform) -> tuple[Cause, str]:
    """Why there may be work, and what decides whether there is."""
    state = planning.state(node.dataset)
    inputs = " or ".join(_inputs_at_work(planning, node))
    if state is None:
        return "missing", f"once rows of {inputs} are known"
    if not node.has_made(state.logic):
        return "logic", f"once rows of {inputs} are known"
    return "input", f"if rows of {inputs} differ"


def _inputs_at_work(planning: Planning, node: Transform) -> list[str]:
    """The inputs that may still change; where none is known to, all of them."""
    at_work = [slot.dataset for slot, _ in _pending_inputs(planning, node)]
    return list(dict.fromkeys(at_work or [slot.dataset for slot in node.slots]))


def after(planning: Planning, node: Transform, decision: Decision) -> Decision:
    """Add the work that may follow from inputs that are still at work, and the block by an
    unreliable input."""
    if decision.status != "up_to_date" or decision.items:
        return decision
    keys = bound(planning, node)
    unreliable = blocking(planning, node)
    if unreliable:
        decision = blocked(node.dataset, unreliable, planning.decisions[unreliable])
        return replace(decision, pending=keys)
    if keys is None:
        return decision
    return _waits(planning, node, keys, "an input is being computed")


# --- consistency ----------------------------------------------------------------------------------


def consistent(
    planning: Planning, node: Transform, newest: tuple[State | PartialState, ...]
) -> tuple[State | PartialState, ...] | None:
    """The newest combination of recent input states, made by the desired code, that agree on shared
    sources."""
    if _agree(planning, node, newest):
        return newest
    for limit in (RECENT, FURTHER):
        chosen = _newest_agreeing(planning, node, newest, limit)
        if chosen is not None:
            return chosen
    return None


def _newest_agreeing(
    planning: Planning, node: Transform, newest: tuple[State | PartialState, ...], limit: int
) -> tuple[State, ...] | None:
    """Among so many states of each input."""
    candidates = [
        _candidates(planning, node, slot, of, limit)
        for slot, of in zip(node.slots, newest, strict=True)
    ]
    best: tuple[State, ...] | None = None
    for combination in itertools.islice(_joined(candidates), BATCH_SEARCH):
        if not _agree(planning, node, combination):
            continue
        if best is None or _age(combination) > _age(best):
            best = combination
    return best


def _candidates(
    planning: Planning, node: Transform, slot: Slot, of: State | PartialState, limit: int
) -> list[State]:
    """States of an input that may be read. Behind a hold only the newest one: others were rolled
    back. An input that is read together with it may have to go back as far as it did."""
    if slot.dataset in planning.behind_holds:
        return [of] if isinstance(of, State) else []
    states = [
        state for state in planning.history(slot.dataset, limit) if state.lineage == of.lineage
    ]
    if node.dataset in planning.behind_holds:
        return states
    used = _used_last(planning.state(node.dataset), slot, states)
    return [state for state in states if state.seq >= used]


def _age(states: Sequence[State]) -> int:
    """Greater for newer combinations."""
    return sum(state.seq for state in states)


def _used_last(current: State | None, slot: Slot, states: Sequence[State]) -> int:
    """The newest state that may be the one that was consumed last: a transform never goes back
    behind it."""
    used = current.inputs.get(slot.name) if current else None
    if current is None or used is None:
        return 0
    seqs = [state.seq for state in states if state.root == used.root and _is_in_cut(state, current)]
    return max(seqs, default=0)


def _is_in_cut(state: State, current: State) -> bool:
    """The present output reflects the same of every source of this state."""
    return all(current.cut.get(source) == root for source, root in state.cut.items())


def _joined(candidates: Sequence[Sequence[State]]) -> Iterator[tuple[State, ...]]:
    """Combinations that agree on every source that all states of two inputs have, the first inputs'
    newest first."""
    steps: list[_JoinStep] = []
    sources: set[str] = set()
    for states in candidates:
        own = _common_sources(states)
        steps.append(_join_step(states, sorted(sources & own)))
        sources |= own
    return _further(steps, (), {})


def _common_sources(states: Sequence[State]) -> set[str]:
    """The sources that all of these states reflect."""
    if not states:
        return set()
    return set(states[0].cut).intersection(*(state.cut for state in states))


def _join_step(states: Sequence[State], shared: list[str]) -> _JoinStep:
    by_roots: dict[tuple[bytes, ...], list[State]] = {}
    for state in states:
        roots = tuple(state.cut[source] for source in shared)
        by_roots.setdefault(roots, []).append(state)
    return shared, by_roots


def _further(
    steps: Sequence[_JoinStep], chosen: tuple[State, ...], cut: Mapping[str, bytes]
) -> Iterator[tuple[State, ...]]:
    """The chosen states of the first inputs, with all fitting states of the next inputs. `cut`: of
    those chosen."""
    if len(chosen) == len(steps):
        yield chosen
        return
    shared, by_roots = steps[len(chosen)]
    roots = tuple(cut[source] for source in shared)
    for state in by_roots.get(roots, ()):
        yield from _further(steps, (*chosen, state), {**cut, **state.cut})


def _agree(planning: Planning, node: Transform, states: Sequence[State | PartialState]) -> bool:
    """No two of them reflect different roots of one source, or different salts of one component."""
    inputs = [(slot.dataset, state) for slot, state in zip(node.slots, states, strict=True)]
    if not salts.agree(planning, inputs):
        return False
    roots: dict[str, bytes] = {}
    for state in states:
        for source, root in state.cut.items():
            if roots.setdefault(source, root) != root:
                return False
    return True


def merged_cut(chosen: Sequence[Input]) -> dict[str, bytes]:
    cut: dict[str, bytes] = {}
    for i in chosen:
        cut.update(sorted(i.of.cut.items()))
    return cut
