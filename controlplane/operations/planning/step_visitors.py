"""The two visitors of a plan's steps: `StepExecutor` carries a step out, `StepPreview` says what
that would change.

Each has one method for each kind of step. For `Compute(tasks, job, building)`, for example,
`visit_compute` of the executor stores the half-built output and queues the tasks; that of the
preview answers False while the queue has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from controlplane.core.compile import ids
from controlplane.core.model import roll_ups
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.tasks import Demand, Task, larger
from controlplane.core.plan import Commit, Compute, Decision, Keep, Learn, RunChecks, Step, Sync
from controlplane.operations.planning.commits import adopted_counts, adopted_events
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Tx
from dataplane.contract.kinds import KINDS

AGAIN_S = 1.0
# The keys of those that are remembered
Answers: TypeAlias = Callable[[Sequence[bytes]], Collection[bytes]]


def is_given_up(decision: Decision, facts: StoreSnapshot) -> bool:
    """A run is under way although there is nothing to do."""
    return (
        decision.status in ("up_to_date", "held") and facts.unfinished(decision.dataset) is not None
    )


def visit_step(step: Step, visitor: StepPreview | StepExecutor) -> int:
    match step:
        case Keep():
            return visitor.visit_keep(step)
        case Commit():
            return visitor.visit_commit(step)
        case Compute():
            return visitor.visit_compute(step)
        case Learn():
            return visitor.visit_learn(step)
        case RunChecks():
            return visitor.visit_run_checks(step)
        case Sync():
            return visitor.visit_sync(step)


# --- explaining -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepPreview:
    """Compares the step of a decision with the store, and with the dataset's `demanded` tasks."""

    decision: Decision
    demanded: Mapping[bytes, Demand]
    facts: StoreSnapshot

    def would_change(self) -> bool:
        """Whether carrying it out would change anything. A pass over a world at rest writes
        nothing."""
        decision, demanded = self.decision, self.demanded
        if decision.gives_up:
            return True
        # What is downstream may request tasks over them. Parts of aggregates have no trace: only
        # tasks of this decision read them
        if any(union.trace is not None for union in decision.unions):
            return True
        # An edit outside of a task's key: it needs a larger driver, or is more urgent.
        if not all(
            demanded[task.key].covers(task) for task in decision.step.tasks if task.key in demanded
        ):
            return True
        return bool(visit_step(decision.step, self))

    def visit_keep(self, _: Keep) -> bool:
        return is_given_up(self.decision, self.facts) or bool(self.demanded)

    def visit_commit(self, _: Commit) -> bool:
        return True

    def visit_compute(self, step: Compute) -> bool:
        dataset = self.decision.dataset
        if step.unfinished is not None and step.unfinished != self.facts.unfinished(dataset):
            return True
        if step.building is None:
            return self._queue_differs
        # Its partial root has moved on, but the next window can wait.
        if is_well_supplied(step.tasks, self.demanded):
            return False
        return step.building != self.facts.building(dataset) or self._queue_differs

    def visit_learn(self, _: Learn) -> bool:
        return self._queue_differs

    def visit_run_checks(self, step: RunChecks) -> bool:
        return bool(step.notes) or self._queue_differs

    def visit_sync(self, step: Sync) -> bool:
        return step.target != self.facts.target(self.decision.dataset) or self._queue_differs

    @property
    def _queue_differs(self) -> bool:
        """False if just the tasks of the step are demanded, and none of them is over."""
        if {task.key for task in self.decision.step.tasks} != self.demanded.keys():
            return True
        return any(demand.state == "done" for demand in self.demanded.values())


def is_well_supplied(tasks: Sequence[Task], demanded: Mapping[bytes, Demand]) -> bool:
    """True while more than half of a window is still queued or running, and nothing else of it: the
    window moves on below that."""
    waiting = {key for key, demand in demanded.items() if demand.state in ("queued", "running")}
    return waiting <= {task.key for task in tasks} and len(waiting) > len(tasks) // 2


# --- carrying out ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepExecutor:
    """Carries out the step of a decision in a transaction. Each method returns the number of
    changes. Commits are collected in `commits`, to be carried out together. `since_trace`: see
    PlanExecutor."""

    tx: Tx
    decision: Decision
    demanded: Mapping[bytes, Demand]
    facts: StoreSnapshot
    since_trace: int
    commits: list[Commit]

    @property
    def dataset(self) -> str:
        return self.decision.dataset

    def carry_out(self) -> int:
        if self.decision.gives_up:
            self._end_run()
        if self.decision.unions:
            self._put_unions()
        return visit_step(self.decision.step, self)

    def _put_unions(self) -> None:
        """Store the results that the step names, with their slices for what reads the dataset."""
        unions = self.decision.unions
        traces = [union.trace for union in unions if union.trace is not None]
        self.tx.traces.put(traces, [union.fragment for union in unions])
        self.tx.traces.put_memos(
            {
                ids.members_key(union.fragment.id): roll_ups.contents_memo(union.members)
                for union in unions
            }
        )

    def visit_keep(self, _: Keep) -> int:
        self._end_run()
        self.tx.queue.drop_demands(self.facts.branch, self.dataset)
        return 1

    def visit_commit(self, step: Commit) -> int:
        self.commits.append(step)
        return 0

    def visit_compute(self, step: Compute) -> int:
        if step.unfinished is not None and step.unfinished != self.facts.unfinished(self.dataset):
            self.tx.states.put_unfinished(step.unfinished)
        if step.building is not None and step.building != self.facts.building(self.dataset):
            self.tx.states.put_building(step.building)
            counts = adopted_counts(self.tx, {self.dataset: step.entered}, self.since_trace)
            branch = self.facts.branch
            self.tx.events.put(adopted_events(branch, self.dataset, counts[self.dataset]))
        is_memo = any(KINDS[task.kind].remembered_as == "memo" for task in step.tasks)
        traces = self.tx.traces
        return self._request(_shared_job(step), traces.memos if is_memo else traces.hits)

    def visit_learn(self, step: Learn) -> int:
        return self._request(_shared_job(step), self.tx.traces.memos)

    def visit_run_checks(self, step: RunChecks) -> int:
        self.tx.traces.put_memos(step.notes)
        return self._request(step.jobs, self.tx.traces.memos)

    def visit_sync(self, step: Sync) -> int:
        self._end_run()
        if step.target != self.facts.target(self.dataset):
            self.tx.projections.put_target(step.target)
        # The content of a copy is asked of its target.
        return self._request(_shared_job(step), lambda _: ())

    def _end_run(self) -> None:
        """Forget the run under way, if there is one."""
        if self.facts.unfinished(self.dataset) is not None:
            self.tx.states.drop_unfinished(self.facts.branch, [self.dataset])

    def _request(self, jobs: Mapping[bytes, StoredJob], answers: Answers) -> int:
        """Demand the tasks of the step and nothing else; one that has an answer by now is never
        dispatched."""
        queue, branch, tasks = self.tx.queue, self.facts.branch, self.decision.step.tasks
        again = self.tx.now() + AGAIN_S
        answered = set(answers([task.key for task in tasks]))
        missing = [
            self._raised(self._delayed(task, again)) for task in tasks if task.key not in answered
        ]
        if not self.demanded.keys() <= {task.key for task in missing}:
            queue.drop_demands(branch, self.dataset, [task.key for task in missing])
        if not missing:
            return 1
        for digest in dict.fromkeys(task.job for task in missing):
            queue.put_job(digest, jobs[digest])
        return max(1, queue.enqueue(branch, self.dataset, missing))

    def _delayed(self, task: Task, again: float) -> Task:
        """A task that ended without a result (its source changed, its fragment is gone) waits a
        little."""
        is_over = task.key in self.demanded and self.demanded[task.key].state == "done"
        return replace(task, not_before=again) if is_over else task

    def _raised(self, task: Task) -> Task:
        """A task of a dataset that ran out of memory lately is not tried in such a driver."""
        raised = self.facts.raised_size(self.tx, task.dataset)
        return replace(task, size=larger(task.size, raised.size)) if raised else task


def _shared_job(step: Compute | Learn | Sync) -> dict[bytes, StoredJob]:
    """The job of all tasks of a step, by digest."""
    return {task.job: step.job for task in step.tasks[:1]}
