"""Runs under way: what was begun is finished on the inputs that it was begun with, before newer ones are looked at.

Else whoever computes longer than it takes until an input changes would never come to an end. A run is given up where
its code or its salt is another one by now, where something of it failed, and where there is nothing to do for the
newest inputs. Does not belong here: how inputs are chosen (inputs), what follows from them (source, transform).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.model.states import State, UnfinishedRun
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.values import Commit, Compute, Decision, Keep, Learn, Planning, RunChecks


class GivenUp:
    """There is a run under way that reads other inputs than the newest, and is not to be finished."""


GIVEN_UP = GivenUp()
Finishing: TypeAlias = Deciding[Decision | GivenUp | None]  # None: there is no such run
LATER = "finishes what it began; newer input comes after that"


def of(planning: Planning, node: Source | Transform) -> UnfinishedRun | None:
    """The run under way, if it is of the present code."""
    begun = planning.world.begun(node.dataset)
    if begun is None or begun.lineage != node.lineage or not salts.is_of(planning, node, begun):
        return None
    return begun


def read_by(node: Transform, begun: UnfinishedRun) -> Deciding[tuple[State, ...] | None]:
    """The states that it reads, by slot; None if one of them is gone."""
    if begun.states.keys() != {slot.name for slot in node.slots}:
        return None
    names = [(slot.dataset, begun.states[slot.name]) for slot in node.slots]
    found = yield from lookups.settled(names)
    return tuple(found[name] for name in names) if all(name in found for name in names) else None


def noted(
    planning: Planning,
    node: Source | Transform,
    decision: Decision,
    states: Mapping[str, int],
    cut: Mapping[str, bytes],
) -> Decision:
    """The decision, with what its tasks read."""
    if not isinstance(decision.step, Compute):
        return decision
    begun = UnfinishedRun(planning.branch, node.dataset, node.lineage, states, cut)
    return replace(decision, step=replace(decision.step, begun=begun))


def goes_on(decision: Decision) -> Decision | GivenUp:
    """What there is to do for a run under way."""
    is_counted = isinstance(decision.step, Keep) and decision.status == "stale"
    if decision.error is not None or not (is_counted or isinstance(decision.step, Commit | Compute)):
        return GIVEN_UP
    return decision if isinstance(decision.step, Commit) else replace(decision, reason=decision.reason or LATER)


def instead(decision: Decision) -> Decision:
    """What is done where a run is given up. Else it would be begun again as soon as its failed tasks are forgotten, for
    nobody asks for them any more."""
    step = decision.step
    is_begun = isinstance(step, Compute) and step.begun is not None
    return replace(decision, gives_up=isinstance(step, Compute | Learn | RunChecks) and not is_begun)
