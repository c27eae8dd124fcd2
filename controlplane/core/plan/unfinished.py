"""Runs under way: a run finishes on the inputs that it began with, before newer inputs are
considered.

Otherwise a dataset that takes longer to compute than its inputs take to change would never be
committed.

    no run --------- Compute requests its tasks ----------> under way
    under way ------ continue_run: tasks are left --------> under way
    under way ------ continue_run: Commit ----------------> no run
    under way ------ GIVEN_UP, then replace_run ----------> no run, or the run of the newest inputs

A run is given up if its code or salt changed, if one of its tasks failed, if its inputs are gone,
or if the newest inputs need no work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.model.states import State, UnfinishedRun
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Commit, Compute, Decision, Keep, Planning, WorkStep


class GivenUp:
    """There is a run under way that reads other inputs than the newest, and is not to be
    finished."""


GIVEN_UP = GivenUp()
Finishing: TypeAlias = Deciding[Decision | GivenUp | None]  # None: there is no such run
LATER = "finishes what it began; newer input comes after that"


def current_run(planning: Planning, node: Source | Transform) -> UnfinishedRun | None:
    """The run under way, if it is of the present code."""
    run = planning.world.unfinished(node.dataset)
    if run is None or run.lineage != node.lineage:
        return None
    if not salts.is_of(planning, node, run):
        return None
    return run


def inputs_of(node: Transform, run: UnfinishedRun) -> Deciding[tuple[State, ...] | None]:
    """The states that the run reads, by slot; None if one of them is gone."""
    slots = {slot.name for slot in node.slots}
    if run.states.keys() != slots:
        return None
    names = [(slot.dataset, run.states[slot.name]) for slot in node.slots]
    states = yield from lookups.settled(names)
    if not all(name in states for name in names):
        return None
    return tuple(states[name] for name in names)


def with_run(
    planning: Planning,
    node: Source | Transform,
    decision: Decision,
    states: Mapping[str, int],
    cut: Mapping[str, bytes],
) -> Decision:
    """The decision; if it requests tasks, with the run that records their inputs."""
    step = decision.step
    if not isinstance(step, Compute):
        return decision
    run = UnfinishedRun(planning.branch, node.dataset, node.lineage, states, cut)
    return replace(decision, step=replace(step, unfinished=run))


def continue_run(decision: Decision) -> Decision | GivenUp:
    """The remaining work of the run under way, given the decision about it."""
    # A failed task would hold the newest inputs back for as long as it is not retried.
    if decision.error is not None:
        return GIVEN_UP
    match decision.step:
        case Commit():
            return decision
        case Compute():
            return _until_later(decision)
        # A plan that only counts tasks requests none of them, but there are some to be done.
        case Keep() if decision.status == "stale":
            return _until_later(decision)
        case _:
            return GIVEN_UP


def _until_later(decision: Decision) -> Decision:
    return replace(decision, reason=decision.reason or LATER)


def replace_run(decision: Decision) -> Decision:
    """The decision on the newest inputs, where the run under way is given up."""
    step = decision.step
    if isinstance(step, Compute) and step.unfinished is not None:
        return decision  # the run that it begins takes the place of the other one
    # The failed tasks of the run are no longer demanded. Once they are forgotten, it would be begun
    # again.
    return replace(decision, gives_up=isinstance(step, WorkStep))
