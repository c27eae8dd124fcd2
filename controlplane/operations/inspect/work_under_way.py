"""Work under way: tasks that are done of those that were requested, and about how long the rest
takes. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.model.answers import RunningWork
from controlplane.core.model.answers.health import Computation
from controlplane.core.model.past_attempts import SLOW_KNOWN, Cost
from controlplane.core.model.tasks import TaskState
from controlplane.core.plan import Decision
from controlplane.operations.context import Context
from controlplane.operations.inspect import work
from controlplane.operations.planning import costs


def of_branch(ctx: Context, branch: str) -> list[Computation]:
    """The work at each dataset and export that the actor sees, in the order of planning."""
    with ctx.read_plan(branch) as (plan, facts):
        tx = facts.tx
        running = work.running(tx, (d.dataset for d in plan.decisions if ctx.sees(d.dataset)))
        decisions = [
            decision
            for decision in plan.decisions
            if decision.dataset in running
            or (decision.status == "building" and ctx.sees(decision.dataset))
        ]
        if not decisions:
            return []
        counts = tx.queue.demand_counts(branch)
        past = costs.past_costs_of(facts, (i for d in decisions for i in d.items))
        return [
            _computation(
                decision,
                running.get(decision.dataset),
                counts.get(decision.dataset, {}),
                past.get(decision.dataset),
            )
            for decision in decisions
        ]


def _computation(
    decision: Decision,
    running: RunningWork | None,
    counts: Mapping[TaskState, int],
    cost: Cost | None,
) -> Computation:
    done, failed = counts.get("done", 0), counts.get("failed", 0)
    left = counts.get("queued", 0) + counts.get("running", 0)
    if decision.tasks_left > done + failed + left:  # more than are requested at a time
        left = decision.tasks_left
    answer: Computation = {
        "name": decision.dataset,
        "attempts": running["attempts"] if running else None,
        "since": running["since"] if running else None,
        "attempt": running["attempt"] if running else None,
        "done": done,
        "tasks": done + failed + left,
        "left_s": None,
        "basis": None,
    }
    if running is None or cost is None or cost.attempts < SLOW_KNOWN or not left:
        return answer
    at_once = running["attempts"]
    answer["left_s"] = round(left * cost.seconds / at_once, 3)
    answer["basis"] = (
        f"{left:,} tasks at {cost.seconds:.2g} s each, {at_once} at a time: "
        f"the median of its last {cost.attempts} attempts"
    )
    return answer
