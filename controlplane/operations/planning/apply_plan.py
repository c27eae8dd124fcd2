"""Carry out a plan: commit new roots, demand tasks, learn schemas, sync targets. One transaction per pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from controlplane.core.errors import StaleState
from controlplane.core.model import change_marks
from controlplane.core.model.events import COMMITTED, Event, committed_body
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.leases import Deposed
from controlplane.core.model.tasks import Demand, Task
from controlplane.core.plan import Commit, Compute, Decision, Keep, Learn, Plan, RunChecks, Sync
from controlplane.operations.failing_units import FailingUnits, of_dataset
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Store, Tx
from dataplane.contract.failpoints import failpoint
from dataplane.contract.kinds import KINDS

AGAIN_S = 1.0
BELOW_MAIN = -10_000  # added to the priority of what a branch asks for: less than any that a blueprint gives


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the plan: its decisions, the number of changes, the number of tasks under way."""

    plan: Plan
    changed: int
    under_way: int


class PlanExecutor:
    """Passes over one branch.

    Partitions whose trace is newer than `since_trace` and was executed for the dataset do not count as adopted.
    """

    def __init__(
        self,
        store: Store,
        planner: Planner,
        namespace: str,
        branch: str,
        *,
        since_trace: int = 0,
        failing_units: FailingUnits | None = None,
        priority: int = 0,
    ) -> None:
        """`priority` is added to that of all tasks."""
        self._store, self._planner, self._namespace, self._branch = store, planner, namespace, branch
        self._since_trace = since_trace
        self._failing_units = failing_units or FailingUnits()
        self._priority = priority
        planner.keeps_nodes = True

    def settle(self) -> Pass:
        """Plan from a snapshot, then carry the plan out in one transaction. What moved on in between is left for the
        next pass. A pass that fails forgets its facts: nodes that it did not store would be missed."""
        try:
            return self._pass()
        except BaseException:
            self._planner.forget()
            raise

    def _pass(self) -> Pass:
        with self._planner.looking() as (plan, facts):
            held = self._held(plan, facts)
            decided = [self._ranked(d) for d in self._planner.carried_out(plan) if d.dataset not in held]
            steps = [d for d in decided if not isinstance(d.step, Keep) or _is_given_up(d, facts) or _is_held(d)]
            demands = facts.tx.queue.demanded(self._branch, [d.dataset for d in steps if _asks(d) or _is_held(d)])
            todo = [d for d in steps if _has_work(d, demands.get(d.dataset, {}), facts)]
            collections = facts.tx.upkeep.collections() if todo else 0
            carrying = _Carrying(facts, demands, collections, self._planner.seen)
        changed = self._carry_out(carrying, todo) if todo else 0
        failing = self._held(plan, facts) if self._failing_units.units else ()
        return Pass(plan, changed, _under_way(demands, [d for d in steps if d.dataset not in failing]))

    def _ranked(self, decision: Decision) -> Decision:
        """With the priority that this branch's work has."""
        return _with_priority(decision, self._priority) if self._priority and _asks(decision) else decision

    def _held(self, plan: Plan, facts: StoreSnapshot) -> set[str]:
        """Datasets that failed to be carried out a moment ago, and those downstream: plans take it for done."""
        if not self._failing_units.units:
            return set()  # as nearly always: a plan may have ten thousand decisions
        failing = {d.dataset for d in plan.decisions if self._failing_units.is_waiting(of_dataset(d.dataset))}
        return failing | facts.desired.graph.downstream(failing) if failing else failing

    def _carry_out(self, carrying: _Carrying, todo: Sequence[Decision]) -> int:
        """In one transaction; each dataset in its own where that fails, so that one cannot stop the others."""
        try:
            changed = self._together(carrying, todo)
        except (Deposed, OSError):
            raise
        except Exception as e:  # noqa: BLE001  # reported with its dataset
            if len(todo) == 1:
                self._fail(todo[0].dataset, e)
                return 0
            self._planner.forget()
            return self._apart(carrying, todo)
        if self._failing_units.units:
            for decision in todo:
                self._failing_units.succeeded(of_dataset(decision.dataset))
        return changed

    def _apart(self, carrying: _Carrying, todo: Sequence[Decision]) -> int:
        """Carry out each decision alone, inputs first. Datasets downstream of one that fails are left for a later
        pass."""
        changed, spoiled = 0, set[str]()
        for decision in todo:
            if decision.dataset in spoiled:
                continue
            try:
                changed += self._together(carrying, [decision])
                self._failing_units.succeeded(of_dataset(decision.dataset))
            except (Deposed, OSError):
                raise
            except Exception as e:  # noqa: BLE001  # whatever it is, it is this dataset's alone
                self._fail(decision.dataset, e)
                spoiled |= carrying.facts.desired.graph.downstream([decision.dataset])
        return changed

    def _fail(self, dataset: str, error: Exception) -> None:
        self._planner.forget()
        failing_unit = self._failing_units.failed(of_dataset(dataset), error)
        body = {"message": failing_unit.message, "failures": failing_unit.failures}
        with self._store.begin(self._namespace) as tx:
            tx.events.put([Event("dataset.failing", dataset, 1, body, branch=self._branch)])

    def _together(self, carrying: _Carrying, todo: Sequence[Decision]) -> int:
        facts, demands = carrying.facts, carrying.demands
        changed = 0
        with self._store.begin(self._namespace) as tx:
            if tx.upkeep.collections() != carrying.collections:  # what the plan found may be gone: look again
                self._planner.forget()
                return 1
            if any(
                map(change_marks.is_request_mark, tx.states.marked(self._branch, carrying.seen)[1])
            ):  # it may be unwanted by now
                return 1
            tx.nodes.put_nodes(facts.overlay.staged)
            for decision in todo:
                demanded = demands.get(decision.dataset, {})
                changed += _carry_out(tx, decision, demanded, facts, self._since_trace)
        self._planner.nodes_stored()
        failpoint("after-commit")
        return changed


@dataclass(frozen=True, slots=True)
class _Carrying:
    """A plan that is carried out, and the snapshot that it rests on."""

    facts: StoreSnapshot
    demands: Mapping[str, Mapping[bytes, Demand]]
    collections: int
    seen: int  # the newest mark that the plan knows of


def _is_given_up(decision: Decision, facts: StoreSnapshot) -> bool:
    """A run is under way although there is nothing to do."""
    return decision.status in ("up_to_date", "held") and facts.unfinished(decision.dataset) is not None


def _is_held(decision: Decision) -> bool:
    """A planner without knowledge of the hold may have requested work since: it is dropped."""
    return decision.status == "held"


def _asks(decision: Decision) -> bool:
    return isinstance(decision.step, Compute | Learn | RunChecks | Sync)


def _tasks_and_jobs(decision: Decision) -> tuple[tuple[Task, ...], Mapping[bytes, StoredJob]]:
    """Tasks, and their jobs by digest."""
    match decision.step:
        case Compute(tasks, job) | Sync(_, tasks, job):
            return tasks, {t.job: job for t in tasks[:1]}
        case Learn(task, job):
            return (task,), {task.job: job}
        case RunChecks(tasks, jobs):
            return tasks, jobs
        case Keep() | Commit():
            return (), {}
        case other:
            assert_never(other)


def _with_priority(decision: Decision, added: int) -> Decision:
    """The same, with more (or less) priority for all its tasks."""
    match decision.step:
        case Compute() | RunChecks() | Sync() as step:
            tasks = tuple(replace(task, priority=task.priority + added) for task in step.tasks)
            return replace(decision, step=replace(step, tasks=tasks))
        case Learn() as step:
            task = replace(step.task, priority=step.task.priority + added)
            return replace(decision, step=replace(step, task=task))
        case Keep() | Commit():
            return decision
        case other:
            assert_never(other)


def _has_work(decision: Decision, demanded: Mapping[bytes, Demand], facts: StoreSnapshot) -> bool:
    """Whether carrying it out would change anything. A pass over a world at rest writes nothing."""
    tasks, _ = _tasks_and_jobs(decision)
    if decision.gives_up:
        return True
    # An edit outside of a task's key: it needs a larger driver, or is more urgent.
    if not all(demanded[task.key].covers(task) for task in tasks if task.key in demanded):
        return True
    dataset = decision.dataset
    match decision.step:
        case Keep():
            return _is_given_up(decision, facts) or bool(demanded)
        case Commit():
            return True
        case Learn():
            is_noted = True  # there is nothing but its task
        case RunChecks(notes=notes):
            is_noted = not notes
        case Sync(target=target):
            is_noted = target == facts.target(dataset)
        case Compute(unfinished=unfinished, building=building):
            if unfinished is not None and unfinished != facts.unfinished(dataset):
                return True
            # Its partial root has moved on, but the next window can wait.
            if building is not None and _is_well_supplied(tasks, demanded):
                return False
            is_noted = building is None or building == facts.building(dataset)
        case other:
            assert_never(other)
    return not is_noted or not _are_demanded(tasks, demanded)


def _are_demanded(tasks: Sequence[Task], demanded: Mapping[bytes, Demand]) -> bool:
    """Just these, and none of them is over."""
    if {task.key for task in tasks} != demanded.keys():
        return False
    return all(demand.state != "done" for demand in demanded.values())


def _is_well_supplied(tasks: Sequence[Task], demanded: Mapping[bytes, Demand]) -> bool:
    """True while more than half of a window is still queued or running, and nothing else of it: the window moves on
    below that."""
    waiting = {key for key, demand in demanded.items() if demand.state in ("queued", "running")}
    return waiting <= {t.key for t in tasks} and len(waiting) > len(tasks) // 2


def _under_way(demands: Mapping[str, Mapping[bytes, Demand]], decisions: Iterable[Decision]) -> int:
    """Demanded tasks that have neither failed nor are known to be over."""
    count = 0
    for decision in decisions:
        by_key = demands.get(decision.dataset, {})
        count += sum(t.key not in by_key or by_key[t.key].state != "failed" for t in _tasks_and_jobs(decision)[0])
    return count


def _carry_out(
    tx: Tx, decision: Decision, demanded: Mapping[bytes, Demand], facts: StoreSnapshot, since_trace: int
) -> int:
    goes_on = isinstance(decision.step, Compute | Learn | RunChecks) and not decision.gives_up
    if facts.unfinished(decision.dataset) is not None and not goes_on:
        tx.states.drop_unfinished(facts.branch, [decision.dataset])
    match decision.step:
        case Keep():
            tx.queue.drop_demands(facts.branch, decision.dataset)
            return 1
        case Commit() as step:
            return _commit(tx, step, since_trace) if _has_pin_of(tx, step, facts) else 0
        case RunChecks(notes=notes):
            tx.traces.put_memos(notes)
        case Sync(target=target) if target != facts.target(decision.dataset):
            tx.projections.put_target(target)
        case Compute(building=building, entered=entered, unfinished=unfinished):
            if unfinished is not None and unfinished != facts.unfinished(decision.dataset):
                tx.states.put_unfinished(unfinished)
            if building is not None and building != facts.building(decision.dataset):
                tx.states.put_building(building)
                _note_adopted(tx, facts.branch, decision.dataset, _adopted(tx, entered, decision.dataset, since_trace))
    tasks, jobs = _tasks_and_jobs(decision)
    again = tx.now() + AGAIN_S
    return _ask(tx, decision, [_delayed(t, demanded, again) for t in tasks], jobs, facts.branch)


def _delayed(task: Task, demanded: Mapping[bytes, Demand], again: float) -> Task:
    """A task that ended without a result (its source changed, its fragment is gone) waits a little."""
    is_over = task.key in demanded and demanded[task.key].state == "done"
    return replace(task, not_before=again) if is_over else task


def _has_pin_of(tx: Tx, step: Commit, facts: StoreSnapshot) -> bool:
    """Whether the pinned schema is as it was when the step was planned: an operator may have taken it back since."""
    if step.pin is None:
        return True
    state = step.state
    return tx.states.pinned_schemas(state.branch, [state.dataset]).get(state.dataset) == facts.pinned(state.dataset)


def _commit(tx: Tx, step: Commit, since_trace: int) -> int:
    state = step.state
    try:
        tx.states.commit(state, state.seq - 1)
    except StaleState:
        return 0  # a concurrent commit moved it: the next pass plans from there
    if step.pin is not None:
        tx.states.pin_schema(state.branch, state.dataset, step.pin)
    if step.build is not None:
        tx.traces.put_build(step.build, state.root, state.schema)
    tx.traces.put_memos(step.notes)
    tx.queue.drop_demands(state.branch, state.dataset)
    tx.states.drop_building(state.branch, state.dataset)
    body = committed_body(state)
    tx.events.put([Event(COMMITTED, state.dataset, state.partitions, body, branch=state.branch)])
    entered = step.entered
    adopted = step.adopted if entered is None else _adopted(tx, entered, state.dataset, since_trace)
    _note_adopted(tx, state.branch, state.dataset, adopted)
    return 1


def _note_adopted(tx: Tx, branch: str, dataset: str, adopted: int) -> None:
    if adopted:
        tx.events.put([Event("partitions.adopted", dataset, adopted, branch=branch)])


def _adopted(tx: Tx, entered: Mapping[str, bytes], dataset: str, since_trace: int) -> int:
    """Entering partitions that no task executed for this dataset since the run began."""
    traces = tx.traces.hits(list(dict.fromkeys(entered.values())))
    own = {key for key, t in traces.items() if t.seq > since_trace and t.by == "executed" and t.home == dataset}
    return sum(task not in own for task in entered.values())


def _ask(tx: Tx, decision: Decision, tasks: Sequence[Task], jobs: Mapping[bytes, StoredJob], branch: str) -> int:
    """Demand these tasks and nothing else; a task that has a trace or memo by now is never dispatched."""
    keys = [t.key for t in tasks]
    match decision.step:
        case Compute():
            is_memo = any(KINDS[t.kind].remembered_as == "memo" for t in tasks)
            answered = set(tx.traces.memos(keys) if is_memo else tx.traces.hits(keys))
        case Learn() | RunChecks():
            answered = set(tx.traces.memos(keys))
        case Sync() | Keep() | Commit():  # what a copy holds is asked of its target
            answered = set()
        case other:
            assert_never(other)
    missing = [t for t in tasks if t.key not in answered]
    tx.queue.drop_demands(branch, decision.dataset, [t.key for t in missing])
    if not missing:
        return 1
    for digest in dict.fromkeys(t.job for t in missing):
        tx.queue.put_job(digest, jobs[digest])
    return max(1, tx.queue.enqueue(branch, decision.dataset, missing))
