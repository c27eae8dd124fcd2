"""Results over rolled-up slices: how many keys are looked up for them, and when they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from controlplane.core.model.roll_ups import MOST, MemberSource, SliceUnion, span_key
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan import Decision, lookups, unions
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Planning, Snapshot
from controlplane.core.plan.unions import SPANS_A_TIME, SliceTasks
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.operations.planning.step_visitors import StepPreview
from dataplane.contract.results import FileEntry, MeasuredTimes
from tests.store.examples import fragment, task, trace

NO_PLANNING = cast("Planning", None)
SPANS = [span_key(f"{n:012}", f"{n + MOST - 1:012}") for n in range(1, 30_001, MOST)]
MISSING = {key: replace(task(1), key=key.encode()) for key in SPANS}


def members_of(spans: Sequence[str]) -> Deciding[dict[str, SliceTasks]]:
    yield from ()
    return {span: SliceTasks.of(slices_of(span), lambda part: part.source) for span in spans}


def slices_of(span: str) -> list[MemberSource]:
    first = int(span.partition("-")[0])
    return [MemberSource(f"{n:012}", f"{n}".encode()) for n in range(first, first + MOST)]


@dataclass
class Memory:
    """A world without results, which counts the keys of each look-up of traces."""

    queued: Mapping[bytes, Task]
    counts: list[int] = field(default_factory=list)

    def tasks(self, _: Sequence[bytes]) -> Mapping[bytes, Task]:
        return self.queued

    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]:
        self.counts.append(len(keys))
        return {}

    def fragments(self, _: Sequence[bytes]) -> Mapping[bytes, Fragment]:
        return {}


@dataclass
class Results(Memory):
    """A world with the results of some slices, which are the first ones."""

    parts: Sequence[Fragment] = ()

    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]:
        numbered = {f"{n}".encode(): part for n, part in enumerate(self.parts, 1)}
        return {key: replace(trace(1, 1), outputs={"": numbered[key].id}) for key in keys}

    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]:
        return {part.id: part for part in self.parts if part.id in ids}


def asked_traces(queued: Mapping[bytes, Task]) -> list[int]:
    memory = Memory(queued)
    deciding = unions.from_members(NO_PLANNING, "shop.orders", MISSING, members_of)
    assert lookups.decide(deciding, cast("Snapshot", memory)) == ({}, MISSING)
    return memory.counts


def test_a_span_without_results_costs_two_keys() -> None:
    assert len(SPANS) == 300
    assert asked_traces({}) == [2 * SPANS_A_TIME, 2 * (len(SPANS) - SPANS_A_TIME)]


def test_spans_whose_tasks_are_queued_are_not_looked_up_again() -> None:
    queued = {of.key: replace(of, state="queued") for of in MISSING.values()}
    assert asked_traces(queued) == []
    failed = {of.key: replace(of, state="failed") for of in MISSING.values()}
    assert sum(asked_traces(failed)) == 2 * len(SPANS)


def test_a_decision_with_unions_is_carried_out() -> None:
    """What is downstream requests tasks over them, though nothing else would change."""
    union = SliceUnion(fragment(1), (), trace(1, 1))
    decision = Decision("shop.orders", "stale", unions=(union,))
    facts = cast("StoreSnapshot", None)
    assert StepPreview(decision, {}, facts).would_change()
    parts = replace(decision, unions=(replace(union, trace=None),))
    assert not StepPreview(parts, {}, facts).would_change()


def test_unions_of_the_same_rows_with_other_event_times_are_two() -> None:
    """A fragment that is stored is never replaced, and its times say what is complete."""
    plain, early, late = (union_of_slices(listed_ms).fragment for listed_ms in (None, 1, 2))
    assert plain.content == early.content == late.content
    assert len({plain.id, early.id, late.id}) == 3
    assert early.id == union_of_slices(1).fragment.id


def union_of_slices(listed_ms: int | None) -> SliceUnion:
    """Of two slices that were listed then; None: their times were not measured."""
    parts = [fragment(1), fragment(2)]
    if listed_ms is not None:
        parts = [_measured(part, listed_ms) for part in parts]
    memory = Results({}, parts=parts)
    tasks = SliceTasks.of(slices_of(SPANS[0])[:2], lambda part: part.source)
    deciding = unions.united("shop.orders", {"span": (b"task", tasks)})
    return lookups.decide(deciding, cast("Snapshot", memory))["span"]


def _measured(part: Fragment, listed_ms: int) -> Fragment:
    times = MeasuredTimes(
        column="at",
        max_ahead_s=1.0,
        listed_ms=listed_ms,
        newest_us={},
        least_us={},
        behind_us={},
        ahead=0,
    )
    files = tuple(cast("FileEntry", {**file, "times": times}) for file in part.files)
    return replace(part, id=part.id + bytes([listed_ms]), files=files)
