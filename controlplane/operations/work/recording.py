"""What the results of one attempt change in the database: traces, memos, listings, targets, tasks
that go back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import assert_never, cast

from controlplane.core.compile.compiled_checks import dropped_key
from controlplane.core.model.events import Event, by_branch, claimed
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.past_attempts import COMPUTING, Outcome, PastAttempt
from controlplane.core.model.tasks import (
    Attempt,
    By,
    Fragment,
    RaisedSize,
    Task,
    Trace,
    next_larger,
)
from controlplane.core.plan.sink import voided
from controlplane.core.plan.source.lane import SLICE, is_checked
from controlplane.operations.projections import compaction
from controlplane.operations.work import accounts, following_results, listings, slices, targets
from controlplane.operations.work.listing_diff import Found
from controlplane.ports.store import Tx
from dataplane.contract.encoding import Encoded
from dataplane.contract.identity import fragment_id
from dataplane.contract.jobs import ListJob
from dataplane.contract.kinds import KINDS
from dataplane.contract.profiles import of_text
from dataplane.contract.results import (
    OUT_OF_MEMORY,
    TARGET_GONE,
    Measures,
    Metrics,
    Output,
    TaskError,
    TaskResult,
    infrastructure_error,
    measured_by,
    output_results,
    partition_result,
)
from dataplane.contract.schemas import encoded

BUDGET = 4  # infrastructure failures that a task may have


BACKOFF_S = (1.0, 5.0, 20.0, 60.0)


class Recording:
    """The transaction that takes in one attempt."""

    def __init__(
        self,
        tx: Tx,
        attempt: Attempt,
        by: By,
        listing_changes: Mapping[str, Found] = MappingProxyType({}),
        job: StoredJob | None = None,
    ) -> None:
        """`job`: the attempt's, if it was read already."""
        self.tx, self.attempt, self.by, self.listing_changes = tx, attempt, by, listing_changes
        self._read_job = job
        self._events: list[Event] = []
        # Whether there may be more to do, for the loop or for a claim
        self.is_news = attempt.kind != "list"
        self.is_due = False  # a continuous source is to be listed again
        self._outcomes: dict[bytes, Outcome] = {}
        self._accepted: list[TaskResult] = []
        self.fragments: list[Fragment] = []
        # Of tasks of followers: whose rows they make
        self._homes: dict[bytes, str] = {}
        self._error: str | None = None  # the condition of the first task that did not succeed

    @property
    def events(self) -> list[Event]:
        """Events to write. The beginning of a listing is written with its outcome, if there is
        one."""
        if self.attempt.kind != "list" or not self._events:
            return self._events
        attempt = self.attempt
        return [
            *claimed(attempt.id, attempt.driver, attempt.dataset, attempt.tasks, self._branches),
            *self._events,
        ]

    @cached_property
    def _job(self) -> StoredJob | None:
        return self._read_job or self.tx.queue.jobs([self.attempt.job]).get(self.attempt.job)

    @cached_property
    def _branches(self) -> dict[bytes, tuple[str, ...]]:
        """Who demanded the tasks. To be read before anything that is recorded ends a demand."""
        return dict(self.tx.queue.branches_of(self.attempt.tasks))

    @cached_property
    def tasks(self) -> Mapping[bytes, Task]:
        """The attempt's tasks with their specs, which finished tasks of fragments do not need."""
        return self.tx.queue.tasks(self.attempt.tasks)

    @property
    def _list_job(self) -> ListJob:
        return cast("ListJob", self._job)

    def _request(self, key: bytes) -> int:
        """The number of the request that a task of a listing serves."""
        spec = self.tasks[key].spec
        assert "request" in spec
        return spec["request"]

    def _listing(self, key: bytes) -> bytes:
        """The listing whose objects a task reads."""
        spec = self.tasks[key].spec
        assert "objects" in spec
        return bytes.fromhex(spec["listing"])

    def is_own(self, result: TaskResult) -> bool:
        return self.attempt.tasks.get(bytes.fromhex(result["task"])) == result["epoch"]

    def record(self, results: list[TaskResult]) -> None:
        by_state: dict[str, list[TaskResult]] = {"done": [], "failed": [], "void": []}
        for result in results:
            by_state[result["state"]].append(result)
        self._done(self._agreed(by_state["done"]))
        for result in by_state["failed"]:
            self._failed(bytes.fromhex(result["task"]), result["error"])
        self._note_types(
            [r for r in by_state["failed"] if self.attempt.kind == "parse" and r.get("result")]
        )
        self._void(by_state["void"])
        silent = set(self.attempt.tasks) - {bytes.fromhex(r["task"]) for r in results}
        if silent := {key for key in silent if self._is_open(key)}:
            error = infrastructure_error(
                "no-result", "the attempt ended without a result for this task"
            )
            self.release(sorted(silent), error)

    def _agreed(self, results: list[TaskResult]) -> list[TaskResult]:
        """Without slices that a driver is to read as well, or has read as other rows."""
        if self.attempt.kind == SLICE:
            checked = [r for r in results if is_checked(bytes.fromhex(r["task"]))]
            if not checked:
                return results
            tasks = [self.tasks[key] for key in _keys(checked)]
            slices.put_aside(self.tx, self.attempt, tasks, checked)
            self._came_to("retried", _keys(checked))
            return [r for r in results if r not in checked]
        if self.attempt.kind != "parse":
            return results
        disputes = slices.disputes(self.tx, results)
        for key, error in disputes.items():
            self._give_up(key, error)
        return [r for r in results if bytes.fromhex(r["task"]) not in disputes]

    def _is_open(self, key: bytes) -> bool:
        """False for a task that was known already when the others were claimed."""
        task = self.tasks.get(key)
        return task is not None and task.state != "done"

    def _done(self, results: list[TaskResult]) -> None:
        then = self._proven(results)
        keys = self.tx.queue.finish(self.attempt.id, [bytes.fromhex(r["task"]) for r in results])
        accepted = [r for r in results if bytes.fromhex(r["task"]) in keys]
        if then:
            accepted += self._taken_in(
                {head: of for head, of in then.items() if bytes.fromhex(head) in keys}
            )
        self._accepted = accepted
        self._came_to("done", _keys(accepted))
        match KINDS[self.attempt.kind].remembered_as:
            case "trace":
                self._traces(accepted)
            case "memo":
                self._memos(accepted)
            case "pack":
                self._count("task.other", compaction.take_in(self.tx, self.attempt, accepted))
            case "listing":
                self._listed(accepted)
            case "target":
                self._synced([bytes.fromhex(r["task"]) for r in accepted])
            case other:
                assert_never(other)

    def _proven(self, results: list[TaskResult]) -> Mapping[str, following_results.Run]:
        """What the driver went on to after these results, by their tasks (hex)."""
        if not any(r.get("then") for r in results):
            return {}
        tasks = self.tasks if "fold" in (self._job or {}) else {}
        return following_results.proven(self._job, tasks, results)

    def _taken_in(self, runs: Mapping[str, following_results.Run]) -> following_results.Run:
        """What a driver went on to is demanded where its first task is."""
        is_fold = self._job is not None and "fold" in self._job
        for head, run in runs.items():
            branches = self._branches.get(bytes.fromhex(head))
            if branches is not None:
                self._branches = dict.fromkeys(_keys(run), branches) | self._branches
            if not is_fold:
                self._homes.update((bytes.fromhex(r["task"]), r["dataset"]) for r in run)
        if is_fold:
            following_results.remember(self.tx, runs)
        return following_results.new_results(self.tx, runs)

    def _memos(self, results: list[TaskResult]) -> None:
        self.tx.traces.put_memos({bytes.fromhex(r["task"]): r["result"] for r in results})
        if KINDS[self.attempt.kind].has_manifest:  # users see it among the work on their data
            self._count_computed(results)
        else:
            self._count("task.other", _keys(results))

    def _listed(self, results: list[TaskResult]) -> None:
        for result in results:
            request = self._request(bytes.fromhex(result["task"]))
            outcome = listings.take_in(
                self.tx, self._list_job, request, self.listing_changes[result["task"]]
            )
            if outcome.event is not None:
                self._report_listing(outcome.event)
                self._count("task.other", _keys([result]))
            self.is_news |= outcome.is_news
            self.is_due |= "within_s" in self._list_job
        self.is_news |= len(results) < len(self.attempt.tasks)

    def _report_listing(self, event: Event) -> None:
        """Under the name of the source that was listed; others may share its location."""
        self._events.append(replace(event, dataset=self.attempt.dataset))

    def _traces(self, results: list[TaskResult]) -> None:
        each = [
            (bytes.fromhex(r["task"]), name, output_result)
            for r in results
            for name, output_result in output_results(r).items()
        ]
        self.fragments = fragments = list(self._fragments(each))
        outputs: dict[bytes, dict[str, bytes]] = {bytes.fromhex(r["task"]): {} for r in results}
        for (task, name, _), fragment in zip(each, fragments, strict=True):
            outputs[task][name] = fragment.id
        traces = [
            Trace(task, output, by=self.by, home=self._home(task))
            for task, output in outputs.items()
        ]
        self.tx.traces.put(traces, fragments)
        self.tx.traces.put_profiles(
            dict(_profiles(fragments, [output_result for *_, output_result in each]))
        )
        self._count_computed(results)
        metrics = {bytes.fromhex(r["task"]): r.get("metrics") or {} for r in results}
        self._dropped(
            {
                task: task_metrics
                for task, task_metrics in metrics.items()
                if task_metrics.get("dropped_rows")
            }
        )

    def _fragments(
        self, results: Iterable[tuple[bytes, str, TaskResult | Output]]
    ) -> Iterator[Fragment]:
        """`results`: of each output its task and its name as well."""
        attempt, schema, encoding = self.attempt.id, None, Encoded()
        for task, _, result in results:
            output_schema, content, files = partition_result(result)
            if schema != output_schema:  # one object, which is then stored and encoded once
                schema, encoding = output_schema, encoded(output_schema)
            id, home = fragment_id(encoding, content, measured_by(files)), self._home(task)
            yield Fragment(id, schema, content, tuple(files), home, attempt)

    def _dropped(self, metrics: Mapping[bytes, Metrics]) -> None:
        """Note how many rows each task left out, and for which of the dataset's expectations."""
        self.tx.traces.put_memos(
            {
                dropped_key(task): task_metrics["dropped"]
                for task, task_metrics in metrics.items()
                if "dropped" in task_metrics
            }
        )
        for branch, dataset, tasks in self._shares(metrics):
            rows = sum(metrics[task]["dropped_rows"] for task in tasks)
            by_check: Counter[str] = Counter()
            for task in tasks:
                by_check.update(metrics[task].get("dropped", {}))
            self._add_event(branch, "rows.dropped", rows, {"checks": dict(by_check)}, dataset)

    def _synced(self, keys: list[bytes]) -> None:
        """Move the target's root to the output of these tasks."""
        if not keys:
            return
        tasks = [self.tasks[key] for key in keys]
        for branch, name in self.tx.queue.demanding(keys[0]):
            target = self.tx.projections.targets(branch).get(name)
            if target is not None and name == tasks[0].dataset:
                self.tx.projections.put_target(targets.synced(self.tx, target, tasks))
        for branch, theirs in by_branch(keys, self._branches).items():
            self._add_event(
                branch, "partitions.written", targets.written([self.tasks[key] for key in theirs])
            )

    def _failed(self, key: bytes, error: TaskError) -> None:
        if self.attempt.kind == "write" and error["condition"] == TARGET_GONE:
            self._request_whole_target(key, error)
        elif self.attempt.kind == SLICE:
            self._leave_to_drivers([key], error)
        elif self.attempt.kind != "list" and error["kind"] == "infrastructure":
            self.release([key], error)
        else:
            self._give_up(key, error)

    def _note_types(self, results: list[TaskResult]) -> None:
        """The types that a driver found in files that it could not read."""
        if results:
            self.tx.traces.put_memos({bytes.fromhex(r["task"]): r["result"] for r in results})

    def _give_up(self, key: bytes, error: TaskError) -> None:
        self._came_to("failed", [key], error)
        if self.attempt.kind == "list":
            is_live = self.tx.queue.finish(self.attempt.id, [key])
            event = (
                listings.fail(self.tx, self._list_job, self._request(key), error)
                if is_live
                else None
            )
            if event is not None:
                self._report_listing(event)
        elif self.tx.queue.fail(self.attempt.id, key, self._here(error)):
            body = {"message": error["message"], "partition": self.tasks[key].partition}
            self._count("task.failed", [key], body)

    def _leave_to_drivers(self, keys: Sequence[bytes], error: TaskError) -> None:
        """A worker did not read these slices, for any reason: from now on drivers do. It is no
        retry, and no failure of the task."""
        _ = self._branches  # before a demand ends
        self.tx.queue.hand_over(self.attempt.id, [self.tasks[key] for key in keys], "parse")
        self._came_to("retried", keys, error)

    def _void(self, results: list[TaskResult]) -> None:
        """Source objects changed under the reader: request a new listing. The tasks end without a
        trace, so that datasets that still want them demand them again, with the objects as they are
        by then."""
        keys = self.tx.queue.finish(self.attempt.id, [bytes.fromhex(r["task"]) for r in results])
        self._came_to("retried", keys)
        self._count("source.changed", keys)
        self._count("task.retried", keys, {"message": "a source object changed while it was read"})
        for id in {self._listing(key) for key in keys}:
            listings.ask(self.tx, id)

    def _request_whole_target(self, key: bytes, error: TaskError) -> None:
        """The task ends without a result, and copies that still want it want all of the target: the
        output of other running tasks may have been written before."""
        _ = self._branches  # before their demand ends
        for branch, name in self.tx.queue.demanding(key):
            if (target := self.tx.projections.targets(branch).get(name)) is not None:
                self.tx.projections.put_target(voided(self.tx.nodes, target))
            self.tx.queue.drop_demands(branch, name)
        self.tx.queue.finish(self.attempt.id, [key])
        self._came_to("retried", [key], error)
        self._count("task.retried", [key], {"message": error["message"]})

    def release(self, keys: list[bytes], error: TaskError, *, burn: bool = True) -> None:
        if self.attempt.kind == SLICE:
            self._leave_to_drivers(keys, error)
            return
        raised = self._raised_size(keys, error)
        for key in keys:
            task = self.tasks[key]
            if burn and task.failures + 1 >= BUDGET and raised is None:
                self._give_up(key, error)
            else:
                self._came_to("retried", [key], error)
                disrupted = _disrupted(task)
                later = (
                    self.tx.now() + BACKOFF_S[min(task.failures + disrupted, len(BACKOFF_S) - 1)]
                )
                shown_error = self._here(error)
                if disrupted or not burn:
                    shown_error["disrupted"] = disrupted + (not burn)
                self.tx.queue.release(
                    [key], attempt=self.attempt.id, not_before=later, error=shown_error, burn=burn
                )
                self._count("task.retried", [key], {"message": error["message"]})
        if raised is not None:
            self.tx.queue.put_raised_size(raised, self.attempt.kind)

    def _raised_size(self, keys: Sequence[bytes], error: TaskError) -> RaisedSize | None:
        """The size that tasks of the dataset have from now on, also those of later passes: one of
        these ran out of memory, and did so before. Once is no proof: its driver had other work
        too."""
        if error["condition"] != OUT_OF_MEMORY or self.attempt.kind not in COMPUTING:
            return None
        sizes = {self.tasks[key].size for key in keys if _ran_out_of_memory(self.tasks[key])}
        size = next_larger(sizes.pop()) if sizes else None  # tasks of an attempt are of one size
        return None if size is None else RaisedSize(self.attempt.dataset, size, self.tx.now())

    def _came_to(
        self, outcome: Outcome, keys: Iterable[bytes], error: TaskError | None = None
    ) -> None:
        self._outcomes.update(dict.fromkeys(keys, outcome))
        if error is not None and self._error is None:
            self._error = error["condition"] or error["kind"]

    def accounts(self, measures: Measures) -> list[PastAttempt]:
        """The records of the attempt, for each branch that demanded its tasks; none for a listing
        that found nothing new: there are thousands of them in a day."""
        if not self.is_news:
            return []
        came_to = accounts.CameTo(self.by, self._outcomes, self._accepted, self._error)
        branches = {branch for theirs in self._branches.values() for branch in theirs}
        return accounts.of(self.attempt, came_to, measures, branches, self.tx.now())

    def _here(self, error: TaskError) -> TaskError:
        """The error with the id of its attempt, whose driver's log may have more."""
        return {**error, "attempt": self.attempt.id}

    def _count_computed(self, results: Iterable[TaskResult]) -> None:
        self._count("task.executed" if self.by == "executed" else "task.recovered", _keys(results))

    def _count(
        self, kind: str, keys: Iterable[bytes], body: Mapping[str, object] | None = None
    ) -> None:
        """Record for each branch how many of these tasks it demands."""
        for branch, dataset, theirs in self._shares(keys):
            self._add_event(branch, kind, len(theirs), body, dataset)

    def _home(self, task: bytes) -> str:
        """The dataset whose rows a task makes."""
        return self._homes.get(task, self.attempt.dataset)

    def _shares(self, keys: Iterable[bytes]) -> Iterator[tuple[str, str, list[bytes]]]:
        """The tasks by branch and by dataset."""
        for branch, theirs in by_branch(keys, self._branches).items():
            tasks_of: dict[str, list[bytes]] = {}
            for task in theirs:
                tasks_of.setdefault(self._home(task), []).append(task)
            for dataset, tasks in tasks_of.items():
                yield branch, dataset, tasks

    def _add_event(
        self,
        branch: str,
        kind: str,
        n: int,
        body: Mapping[str, object] | None = None,
        dataset: str | None = None,
    ) -> None:
        if n:
            of = dataset or self.attempt.dataset
            self._events.append(Event(kind, of, n, body or {}, branch=branch))


def _profiles(
    fragments: Iterable[Fragment], results: Iterable[TaskResult | Output]
) -> Iterator[tuple[bytes, bytes]]:
    for fragment, result in zip(fragments, results, strict=True):
        body = of_text(result.get("profile", ""))
        if body:
            yield fragment.id, body


def _keys(results: Iterable[TaskResult]) -> list[bytes]:
    return [bytes.fromhex(result["task"]) for result in results]


def _ran_out_of_memory(task: Task) -> bool:
    """Whether its last try did."""
    return task.error is not None and task.error["condition"] == OUT_OF_MEMORY


def _disrupted(task: Task) -> int:
    """How often in its present life this task lost its driver to something else. It delays the next
    try, no more: a task that takes the whole machine down each time must not keep the others from
    their turn."""
    return task.error.get("disrupted", 0) if task.error else 0
