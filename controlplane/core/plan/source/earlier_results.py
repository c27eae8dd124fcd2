"""Results of versions that read files of any types under the dataset's types.

Such a result has the task key that the task had then. It is adopted once a worker has read the
footers of its files, and found that Spark has read them right: nothing is computed. Otherwise the
task runs again. A result with unread footers is no result, in no branch.

    task has a trace            -> it is used, as ever
    its earlier key has none    -> the task is requested, as ever
    its earlier key has one     -> footers looked at?   no: a `footers` task   right: the trace   misread: the task

Slices of a topic are read in two ways that give the same rows: with `late: keep` event times are sure
to be measured. A result of the other way is adopted if they were, or need not be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from controlplane.core.compile import connector_identity, ids
from controlplane.core.model.memos import misread_in
from controlplane.core.model.sources import SourcePartition
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.source.read_extent import ReadCase
from controlplane.core.plan.windows import Hits, Window
from dataplane.contract.identity import task_key
from dataplane.contract.jobs import FootersJob
from dataplane.contract.results import measured_by

UNCHECKED = "types not checked"


class EarlierResults:
    """Earlier results of one read component: the keys that its tasks had before."""

    def __init__(self, case: ReadCase) -> None:
        self._read = case.node.read
        self.job = _job(case)
        self._job_id = ids.job_id(self.job)
        self._keys: dict[str, bytes] = {}  # by partition

    def note(
        self,
        logic: bytes,
        parts: Mapping[str, tuple[SourcePartition, Mapping[str, bytes]]],
        salt_of: salts.SaltOf,
    ) -> None:
        """Set the keys of these partitions' tasks under earlier logic, in place of those before.
        `parts`: with the slots that they have besides their objects."""
        self._keys = {
            key: task_key(logic, {"objects": part.source, **slots}, salt_of(part.key))
            for key, (part, slots) in parts.items()
        }

    def elsewhere(self, missing: Mapping[str, Task]) -> Deciding[tuple[Hits, dict[str, Task]]]:
        """Earlier results that are right, and the tasks to request: parse tasks, or footers tasks
        in their place."""
        traces = yield from lookups.traces([self._keys[p] for p in missing])
        if self._read.is_growing:
            return (yield from self._slices(missing, traces))
        footers_tasks = {
            p: self._look(task) for p, task in missing.items() if self._keys[p] in traces
        }
        if not footers_tasks:
            return {}, dict(missing)
        keys = [look.key for look in footers_tasks.values()]
        memos = yield from lookups.memos(keys)
        queued = yield from lookups.tasks([key for key in keys if key not in memos])
        # Parsing will say why
        failed = {key for key, task in queued.items() if task.state == "failed"}
        hits: Hits = {}
        rest = dict(missing)
        for partition, look in footers_tasks.items():
            if look.key in memos and not misread_in(memos[look.key]):
                hits[partition] = self._keys[partition], traces[self._keys[partition]]
                del rest[partition]
            elif look.key not in memos and look.key not in failed:
                rest[partition] = look
        return hits, rest

    def _slices(
        self, missing: Mapping[str, Task], traces: Mapping[bytes, Trace]
    ) -> Deciding[tuple[Hits, dict[str, Task]]]:
        ids = [trace.outputs[""] for trace in traces.values()]
        fragments = yield from lookups.fragments(ids)
        hits: Hits = {}
        for partition in missing:
            trace = traces.get(self._keys[partition])
            if trace is not None and self._is_measured(fragments.get(trace.outputs[""])):
                hits[partition] = trace.task, trace
        return hits, {p: task for p, task in missing.items() if p not in hits}

    def _is_measured(self, fragment: Fragment | None) -> bool:
        """Whether the times of a slice were measured by this rule, if they have to be."""
        rule = self._read.event_time
        if fragment is None or rule is None:
            return False
        if not self._read.keeps_late_rows:
            return True
        measures = [measured_by([file]) for file in fragment.files]
        return all(
            measure is not None
            and (measure.column, measure.max_ahead_us) == (rule.column, rule.max_ahead_us)
            for measure in measures
        )

    def unchecked(self, window: Window) -> Window | None:
        """The part of a window whose footers are checked first; None where there is none."""
        footers_tasks = {p: task for p, task in window.missing.items() if task.kind == "footers"}
        return (
            replace(window, missing=footers_tasks, queued=_of(window, footers_tasks))
            if footers_tasks
            else None
        )

    def _look(self, task: Task) -> Task:
        key = ids.footers_key(task.key)
        # None: the placement of footers, not the one that the task to parse has.
        return replace(
            task,
            key=key,
            kind="footers",
            placement=None,
            job=self._job_id,
            size_bytes=0,
            size="standard",
        )


def _of(window: Window, tasks: Mapping[str, Task]) -> dict[bytes, Task]:
    keys = {task.key for task in tasks.values()}
    return {key: task for key, task in window.queued.items() if key in keys}


def _job(case: ReadCase) -> FootersJob:
    node = case.node
    reached = connector_identity.reading_job(node.read, node.location)
    return {
        "format": node.read.format,
        "options": dict(node.read.options),
        "timezone": node.timezone,
        **reached,
    }
