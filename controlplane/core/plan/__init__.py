"""What work is to be done, and why: a pure answer from desired nodes and observed facts.

The plan that a user is shown and the plan that is executed are one value. Does not belong here: executing it,
storing it, clocks.
"""

from __future__ import annotations

from typing import assert_never

from controlplane.core.dataflow import Desired, Node, Sink, Source, Transform
from controlplane.core.plan import sink, source, transform
from controlplane.core.plan.values import (
    Action,
    Because,
    Commit,
    Compute,
    Decision,
    Item,
    Keep,
    Learn,
    Pending,
    Plan,
    Planning,
    Status,
    Step,
    Sync,
    World,
    worst,
)

__all__ = [
    "Action",
    "Because",
    "Commit",
    "Compute",
    "Decision",
    "Item",
    "Keep",
    "Learn",
    "Pending",
    "Plan",
    "Planning",
    "Status",
    "Step",
    "Sync",
    "World",
    "plan",
    "worst",
]


def plan(desired: Desired, world: World, branch: str, scope: frozenset[str] | None = None, *, now: float = 0.0) -> Plan:
    """Decide about every node in `scope` (all by default), inputs first. Equal facts give an equal plan."""
    planning = Planning(desired, world, branch, now)
    for dataset in desired.order:
        if scope is None or dataset in scope:
            planning.record(_decide(planning, dataset, desired.nodes[dataset]))
    return Plan(tuple(planning.decisions.values()))


def _decide(planning: Planning, dataset: str, node: Node) -> Decision:
    if planning.world.is_paused(dataset):
        return Decision(dataset, "paused", reason="paused by an operator")
    match node:
        case Source():
            return source.decide(planning, node)
        case Transform():
            return transform.decide(planning, node)
        case Sink():
            return sink.decide(planning, node)
        case _:
            assert_never(node)
