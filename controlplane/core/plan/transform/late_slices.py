"""Late rows of a topic, which are taken out slice by slice.

A row is late if its time is more than the delay before that of an earlier offset of its partition.
So the late rows of a slice follow from its rows and the newest times of the slices before it. These
stand in the fragments of the topic's dataset: no task waits for another one.

    a row of the slice may be late       -> a task, whose key has the newest times before the slice
    no row, and nothing else to take out -> the fragment of the slice as it is
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.model.event_times import EventTime, EventTimes, SliceTimes
from controlplane.core.model.states import PartialState, State
from controlplane.core.model.tasks import Task, Trace
from controlplane.core.plan import lookups
from controlplane.core.plan.event_watermarks import CHUNK
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import user_error
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.windows import Hits
from dataplane.contract.claims import EarlierMessages
from dataplane.contract.encoding import digest
from dataplane.contract.identity import task_key
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import EVENT_TIME_TYPES, Schema, field_types

# With its times, and the newest times before it
_Slice: TypeAlias = tuple[tree.Entry, SliceTimes, Mapping[str, int]]


def added_from(case: Case, used: State | PartialState) -> Deciding[str | None]:
    """The first slice that was added since a state, if all slices were added behind those that it
    has. None where another one changed, too: newest times may differ in all slices after it."""
    [read] = case.inputs
    before = used.inputs.get(read.slot.name)
    if before is None:
        return None
    [changes] = yield from lookups.diffs([(before.root, read.root)])
    last = tree.last(case.nodes, before.root)
    if not changes or (last is not None and last.key >= changes[0].key):
        return None
    return changes[0].key


def column_error(rule: EventTime, messages: Schema) -> TaskError | None:
    """Why rows with these columns have no event times. The columns of a registry are known only by
    now."""
    if field_types(messages).get(rule.column) in EVENT_TIME_TYPES:
        return None
    message = f"event_time: {rule.column!r} is no column of type TIMESTAMP or TIMESTAMP_NTZ"
    return user_error("invalid-value", message)


@dataclass(slots=True)
class LateRows:
    """Walks along the slices of a topic. `newest`: the times of all slices before `start`."""

    case: Case
    rule: EventTime
    newest: EventTimes
    start: str = ""

    @staticmethod
    def of(case: Case) -> Deciding[LateRows | None]:
        """None where late rows are taken out of nothing."""
        rule, state = case.node.late, case.state
        if rule is None:
            return None
        rows = LateRows(case, rule, EventTimes(rule.column))
        if state is None or state.logic != case.node.logic:
            return rows
        first = yield from added_from(case, state)
        times = state.inputs[rows.read.slot.name].times
        if first is not None and times is not None:
            rows.newest, rows.start = times, first
        return rows

    @property
    def read(self) -> Input:
        [read] = self.case.inputs
        return read

    def elsewhere(self, tasks: Mapping[str, Task]) -> Deciding[tuple[Hits, dict[str, Task]]]:
        """The results of slices without late rows, and of tasks that memory has; and the tasks of
        the others. `tasks`: of slices, as if nothing came before; in order of calls."""
        hits: Hits = {}
        named: dict[str, Task] = {}
        can_pass = _can_pass(self.case)
        slices = yield from self._walk(tasks)
        for key, (part, times, before) in slices.items():
            task = _with_earlier(tasks[key], times, before)
            if can_pass and not times.may_be_late(before, self.rule.delay_us):
                outputs, contents = {"": part.fragment}, {"": part.content}
                hits[key] = task.key, Trace(task.key, outputs, contents=contents)
            else:
                named[key] = task
        traces = yield from lookups.traces([task.key for task in named.values()])
        for key, task in named.items():
            if task.key in traces:
                hits[key] = task.key, traces[task.key]
        return hits, {key: task for key, task in named.items() if key not in hits}

    def _walk(self, keys: Collection[str]) -> Deciding[dict[str, _Slice]]:
        """These slices, each with the newest times before it."""
        if min(keys) < self.start:
            self.newest, self.start = EventTimes(self.rule.column), ""
        stop = max(keys) + "\0"
        slices: dict[str, _Slice] = {}
        entries = tree.scan(self.case.nodes, self.read.root, self.start, stop)
        while chunk := list(islice(entries, CHUNK)):
            fragments = yield from lookups.fragments([part.fragment for part in chunk])
            for part in chunk:
                files = fragments[part.fragment].files
                if part.key in keys:
                    times = SliceTimes.of([file.get("times") for file in files])
                    slices[part.key] = part, times, self.newest.newest_us
                self.newest = self.newest.plus(f["times"] for f in files if "times" in f)
        self.start = stop
        return slices


def _can_pass(case: Case) -> bool:
    """Whether a slice without late rows is the result itself: nothing else changes it."""
    taking_out = [check for check in case.node.checks if check.is_drop]
    return len(taking_out) == 1 and not case.node.component.sort_by


def _with_earlier(task: Task, times: SliceTimes, before: Mapping[str, int]) -> Task:
    """The task of a slice, which depends on the newest times before it in the same partitions."""
    of_slice = times.least_us if times.is_known else before
    newest_us = {p: at_us for p, at_us in before.items() if p in of_slice}
    earlier: EarlierMessages = {"newest_us": newest_us, "listed_ms": times.listed_ms}
    key = task_key(task.key, {"earlier": digest("earlier/1", **earlier)})
    assert "slots" in task.spec
    return replace(task, key=key, spec={**task.spec, "earlier": earlier})
