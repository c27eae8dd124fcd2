"""Carry out a plan: commit new roots, ask for tasks, learn schemas, sync targets. One transaction per pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controlplane.core.errors import StaleState
from controlplane.core.model import Event, Task
from controlplane.core.plan import Commit, Compute, Decision, Keep, Learn, Plan, Sync
from controlplane.operations.world import Facts, plan_now
from controlplane.ports import Store, Tx
from dataplane.contract import Json, failpoint

AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the plan: what was decided, how much was changed by it, how many tasks are under way."""

    plan: Plan
    changed: int
    under_way: int


def settle(store: Store, namespace: str, branch: str, flows: Iterable[str] | None, *, since_trace: int = 0) -> Pass:
    """Plan from a snapshot, then carry the plan out. What moved on in between is left for the next pass.

    Partitions whose trace is newer than `since_trace` and was executed for the dataset do not count as adopted.
    """
    scope = None if flows is None else tuple(flows)
    with store.read(namespace) as tx:
        plan, facts = plan_now(tx, branch, scope, namespace=namespace)
        demands = {d.dataset: tx.demands(branch, d.dataset) for d in plan.decisions if _asks(d)}
    todo = [d for d in plan.decisions if _has_work(d, demands.get(d.dataset, {}), facts)]
    changed = 0
    if todo:
        with store.begin(namespace) as tx:
            tx.put_nodes(facts.nodes.staged)
            for decision in todo:
                changed += _carry_out(tx, decision, facts, since_trace)
        failpoint("after-commit")
    return Pass(plan, changed, _under_way(demands, plan))


def _asks(decision: Decision) -> bool:
    return isinstance(decision.step, Compute | Learn | Sync)


def _wanted(decision: Decision) -> tuple[tuple[Task, ...], Json]:
    match decision.step:
        case Compute(tasks, job) | Sync(_, tasks, job):
            return tasks, job
        case Learn(task, job):
            return (task,), job
        case _:
            return (), None


def _has_work(decision: Decision, demanded: dict[bytes, Task], facts: Facts) -> bool:
    match decision.step:
        case Keep():
            return False
        case Commit():
            return True
        case Sync(target=target) if target != facts.target(decision.dataset):
            return True
    tasks, _ = _wanted(decision)
    wanted = {t.key for t in tasks}
    return wanted != demanded.keys() or any(t.state == "done" for t in demanded.values())


def _under_way(demands: dict[str, dict[bytes, Task]], plan: Plan) -> int:
    """Tasks asked for that have neither failed nor are known to be over."""
    count = 0
    for decision in plan.decisions:
        known = demands.get(decision.dataset, {})
        count += sum(1 for t in _wanted(decision)[0] if t.key not in known or known[t.key].state != "failed")
    return count


def _carry_out(tx: Tx, decision: Decision, facts: Facts, since_trace: int) -> int:
    match decision.step:
        case Commit() as step:
            return _commit(tx, step, since_trace)
        case Sync(target=target):
            if target != facts.target(decision.dataset):
                tx.put_target(target)
    tasks, job = _wanted(decision)
    return _ask(tx, decision, [_again(tx, t, facts) for t in tasks], job, facts.branch)


def _again(tx: Tx, task: Task, facts: Facts) -> Task:
    """A task that ended without a result (its source changed, its fragment is gone) waits a little."""
    known = facts.known.get(task.key)
    return replace(task, not_before=tx.now() + AGAIN_S) if known and known.state == "done" else task


def _commit(tx: Tx, step: Commit, since_trace: int) -> int:
    state = step.state
    try:
        tx.commit_state(state, state.seq - 1)
    except StaleState:
        return 0  # somebody else moved it: the next pass plans from there
    if step.pin is not None:
        tx.pin_schema(state.branch, state.dataset, *step.pin)
    if step.build is not None:
        tx.put_build_trace(step.build, state.root, state.schema)
    tx.drop_demands(state.branch, state.dataset)
    adopted = step.adopted if step.entered is None else _adopted(tx, step, since_trace)
    body = {"generation": state.generation, "root": state.root.hex(), "cause": state.cause, "rows": state.rows}
    events = [Event("dataset.committed", state.dataset, state.partitions, body)]
    if adopted:
        events.append(Event("partitions.adopted", state.dataset, adopted))
    tx.put_events(events)
    return 1


def _adopted(tx: Tx, step: Commit, since_trace: int) -> int:
    """Entering partitions that no task executed for this dataset since the run began."""
    entered = step.entered or {}
    traces = tx.traces(list(dict.fromkeys(entered.values())))
    own = {
        key for key, t in traces.items() if t.seq > since_trace and t.by == "executed" and t.home == step.state.dataset
    }
    return sum(task not in own for task in entered.values())


def _ask(tx: Tx, decision: Decision, tasks: Sequence[Task], job: Json, branch: str) -> int:
    """Demand these tasks and nothing else; what has a trace or memo by now is never dispatched."""
    keys = [t.key for t in tasks]
    match decision.step:
        case Compute():
            known = set(tx.traces(keys))
        case Learn():
            known = set(tx.memos(keys))
        case _:
            known = set()
    wanted = [t for t in tasks if t.key not in known]
    tx.drop_demands(branch, decision.dataset, [t.key for t in wanted])
    if not wanted:
        return 1
    tx.put_job(wanted[0].job, job)
    return max(1, tx.enqueue(branch, decision.dataset, wanted))
