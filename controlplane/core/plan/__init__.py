"""What work is to be done, and why: a pure answer from desired nodes and observed facts.

The plan that a user is shown and the plan that is executed are one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from controlplane.core.compile.nodes import Desired, Node, Sink, Source, Transform
from controlplane.core.plan import sink, unfinished
from controlplane.core.plan.append_only import gate_on_append_only
from controlplane.core.plan.checks import check_decision
from controlplane.core.plan.lookups import Deciding, decide_all, prefetch
from controlplane.core.plan.plan_values import (
    EXACT,
    FEWEST,
    MIN_ROWS,
    RECENT,
    WIDEST,
    Action,
    Because,
    Commit,
    Compute,
    Decision,
    Item,
    Keep,
    Learn,
    Plan,
    Planning,
    RunChecks,
    Snapshot,
    Status,
    Step,
    Sync,
    WorkStep,
    worst,
)
from controlplane.core.plan.source import feed_decision, source_decision
from controlplane.core.plan.transform import transform_decision
from controlplane.core.plan.unfinished import Finishing
from controlplane.core.plan.work_keys import Keys

__all__ = [
    "EXACT",
    "FEWEST",
    "MIN_ROWS",
    "RECENT",
    "WIDEST",
    "Action",
    "Because",
    "Commit",
    "Compute",
    "Decision",
    "Item",
    "Keep",
    "Keys",
    "Learn",
    "Plan",
    "Planning",
    "RunChecks",
    "Snapshot",
    "Status",
    "Step",
    "Sync",
    "WorkStep",
    "plan",
    "worst",
]


def plan(
    desired: Desired,
    world: Snapshot,
    branch: str,
    scope: frozenset[str] | None = None,
    *,
    now: float = 0.0,
    window: int = 0,
    exact: int = EXACT,
    fewest: int = FEWEST,
    min_rows: int = MIN_ROWS,
    widest: int = WIDEST,
    standing: Mapping[str, Decision] | None = None,
) -> Plan:
    """Decide about every node in `scope` (all by default), inputs first. Equal facts give an equal
    plan.

    With more than `exact` partitions to check, a dataset requests `window` tasks at a time; 0 only
    counts them. An aggregate over an input with `fewest` partitions is computed in parts, up to
    `widest` of which are merged at once; by key, if the partitions with changed keys have
    `min_rows` rows. `standing`: decisions about nodes outside the scope that still hold.
    """
    planning = Planning(
        desired,
        world,
        branch,
        now=now,
        window=window,
        exact=exact,
        fewest=fewest,
        min_rows=min_rows,
        widest=widest,
    )
    planning.decisions.update(standing or {})
    planning.holds = world.holds()
    if planning.holds:
        planning.behind_holds = frozenset(planning.holds) | desired.graph.downstream(planning.holds)
    chosen = [d for d in desired.order if d in scope] if scope is not None else desired.order
    prefetch(_partial_roots(chosen, world), world)  # at once, and not again in each layer
    for layer in desired.layers(chosen):
        deciding = {dataset: _decide(planning, desired.nodes[dataset]) for dataset in layer}
        for decision in decide_all(deciding, world).values():
            planning.record(decision)
    return Plan(tuple(planning.decisions[dataset] for dataset in chosen))


def _partial_roots(chosen: Sequence[str], world: Snapshot) -> Iterator[bytes]:
    for dataset in chosen:
        building = world.building(dataset)
        if building is not None:
            yield building.root


def _decide(planning: Planning, node: Node) -> Deciding[Decision]:
    held = planning.holds.get(node.dataset)
    if held is not None:
        return Decision(node.dataset, "held", reason=held.sentence)
    if planning.world.is_paused(node.dataset):
        by = "in its blueprint" if node.component.paused else "by an operator"
        return Decision(node.dataset, "paused", reason=f"paused {by}")
    match node:
        case Source() if node.feed is not None:
            return (
                yield from _gated(planning, node, (yield from feed_decision.decide(planning, node)))
            )
        case Source():
            return (
                yield from _run_first(
                    planning,
                    node,
                    source_decision.finish(planning, node),
                    source_decision.decide(planning, node),
                )
            )
        case Transform():
            finishing, deciding = (
                transform_decision.finish(planning, node),
                transform_decision.decide(planning, node),
            )
            return (yield from _run_first(planning, node, finishing, deciding))
        case Sink():
            return (yield from sink.decide(planning, node))
        case _:
            assert_never(node)


def _run_first(
    planning: Planning, node: Source | Transform, finishing: Finishing, deciding: Deciding[Decision]
) -> Deciding[Decision]:
    """The remaining work of the run under way; if there is no such run, or it is given up, the work
    that the newest inputs need. Rows become a generation only if the checks of the dataset hold."""
    run = yield from finishing
    if isinstance(run, Decision):
        gated = yield from _gated(planning, node, run)
        # A check of the run's own rows that fails ends the run, as a task that fails does.
        if gated.error == run.error:
            return gated
    newest = yield from deciding
    decision = yield from _gated(planning, node, newest)
    if run is None:
        return decision
    return unfinished.replace_run(decision)


def _gated(planning: Planning, node: Source | Transform, decision: Decision) -> Deciding[Decision]:
    """The decision, if the promises about the dataset's rows hold after it."""
    decision = yield from gate_on_append_only(planning, node, decision)
    return (yield from check_decision.gate_on_checks(planning, node, decision))
