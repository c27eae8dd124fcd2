"""Why something will run, ran, or did not. Changes nothing.

Does not belong here: how causes are read off plans and states (`core.explain`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from controlplane.core import explain, tree
from controlplane.core.compile.nodes import Sink
from controlplane.core.errors import NotFound
from controlplane.core.model.answers import DriverStatus, WhyAnswer
from controlplane.core.model.driver_ends import ENDING
from controlplane.core.model.states import Cause, State
from controlplane.core.model.tasks import Task
from controlplane.core.model.work_answers import WorkSummary
from controlplane.core.plan import Compute, Decision, Item, Learn, RunChecks, Step, Sync
from controlplane.operations.context import Context
from controlplane.operations.inspect import views, work
from controlplane.operations.inspect.datasets import STATES_A_TIME, one_of
from controlplane.operations.inspect.overview import ENDS_SHOWN, as_known
from controlplane.ports.store import Tx


def why(ctx: Context, branch: str, target: str, partition: str | None = None) -> WhyAnswer:
    """The chain of causes of a dataset (or one partition): of the work that is left, else of its last generation."""
    with ctx.looking(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(plan, branch, target)
        (decision,) = as_known(ctx, tx, facts, [decision])
        node, state = facts.desired.nodes[target], facts.state(target)
        task = _task(tx, branch, decision, partition)
        error = task.error if task and task.error else decision.error
        chain = explain.chain(plan, facts.desired, target, partition)
        past = explain.past(facts, partial(_kept, tx, branch), facts.desired, target, partition) if not chain else ()
        shown = node.source if isinstance(node, Sink) else target
        last = next((item for item in past if item.dataset == shown), None)
        if partition is not None and not chain and state is not None:
            _require_partition(tx, state, partition, task)
        return {
            "dataset": target,
            "partition": partition,
            "state": decision.status,
            "generation": state.generation if state else 0,
            "cause": chain[0].cause if chain else _cause(state, last),
            "reason": decision.reason
            or explain.of_fold(facts, facts.desired, target, partition)
            or explain.in_words(decision, last),
            "modes": views.modes(node),
            "volatile": views.volatile(node),
            "logic": None if isinstance(node, Sink) else node.logic.hex(),
            "because": views.items((*chain, *past), facts),
            "sources": explain.sources(facts, facts.desired, target, partition),
            "drivers": _in_trouble(tx, decision.step),
            "error": views.error(error, node),
            "work": _work(tx, branch, target, state, partition),
        }


def _work(tx: Tx, branch: str, target: str, state: State | None, partition: str | None) -> WorkSummary | None:
    """What the last commit of the dataset took, or the attempt that made a partition of it."""
    if partition is None:
        return work.of_last_commits(tx, branch, [target])[target]
    entry = tree.lookup(tx, state.root, [partition]).get(partition) if state else None
    fragments = tx.fragments([entry.fragment]) if entry else {}
    attempts = tx.find_past_attempts([one.attempt for one in fragments.values()])
    return work.summary(list(attempts.values()), tx.past_costs(branch, [target]).get(target))


def _kept(tx: Tx, branch: str, name: str) -> Iterator[State]:
    """All states that are kept of a dataset, newest first."""
    before: int | None = None
    while some := tx.history(branch, name, STATES_A_TIME, before):
        yield from some
        before = some[-1].seq


def _cause(state: State | None, last: Item | None) -> Cause | None:
    """Of the present generation; where that is not known any more, of the last time that there was anything to do."""
    return None if state is None else last.cause if last else state.cause


def _in_trouble(tx: Tx, step: Step) -> list[DriverStatus]:
    """What keeps drivers from being there for tasks that wait, and what the last ones ended of."""
    if not isinstance(step, Compute | Learn | RunChecks | Sync):
        return []
    return [views.driver(d) for d in (*tx.drivers(), *tx.ends(ENDS_SHOWN)) if d.reason not in ("", ENDING)]


def _require_partition(tx: Tx, state: State, partition: str, task: Task | None) -> None:
    if task is None and partition not in tree.lookup(tx, state.root, [partition]):
        raise NotFound(f"dataset {state.dataset} has no partition {partition!r}")


def _task(tx: Tx, branch: str, decision: Decision, partition: str | None) -> Task | None:
    """The demanded task that tells most: the partition's, or the first that failed."""
    match decision.step:
        case Compute() | Learn() | RunChecks() | Sync():
            demanded = sorted(tx.demands(branch, decision.dataset).values(), key=lambda t: t.partition)
        case _:
            return None
    chosen = [t for t in demanded if partition is None or t.partition == partition]
    return next((t for t in chosen if t.error), next(iter(chosen), None))
