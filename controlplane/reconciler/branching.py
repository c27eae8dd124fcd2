"""Branches in a pass: after main, each in turn plans its own datasets and has them carried out.

A branch has no listings, tables or drivers of its own: the loop's are shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from controlplane import logs
from controlplane.core.compile.nodes import Source, is_paused
from controlplane.core.model.states import State
from controlplane.core.plan import Decision
from controlplane.operations.desired import branches
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.apply_plan import BELOW_MAIN, Pass, PlanExecutor
from controlplane.operations.planning.branch_view import BranchView
from controlplane.operations.planning.planner import Planner
from controlplane.ports.store import Store

log = logs.get("branching")


@dataclass(slots=True)
class _BranchLine:
    """One branch. `last`: what its last pass did."""

    view: BranchView
    planner: Planner
    executor: PlanExecutor
    last: Pass | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A pass over several branches: the number of changes, and of tasks under way for them."""

    changed: int = 0
    under_way: int = 0


class Branching:
    """The branches beside main. With `only`, just that one, of these dataflows; with no branch to
    look after, none."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        main: Planner,
        failing_units: FailingUnits,
        *,
        window: int,
        since_trace: int,
        flows: Iterable[str] | None = None,
        only: Collection[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        main.follows_branches = True
        self._store, self._namespace, self._main, self._failing_units = (
            store,
            namespace,
            main,
            failing_units,
        )
        self._window, self._since_trace, self._flows, self._only = window, since_trace, flows, only
        self._lines: dict[str, _BranchLine] = {}

    def settle(self) -> Done:
        """A pass over each that is not over. What a branch's own datasets gave way to main for is
        main's again."""
        self._end_old()
        self._follow()
        done = Done()
        for name, line in self._lines.items():
            # One that fails is tried again later, and stops neither main nor another one.
            settled = self._failing_units.attempt(
                f"branch:{name}", partial(self._settled, name, line), None
            )
            if settled is not None:
                line.last = settled
                done = Done(done.changed + settled.changed, done.under_way + settled.under_way)
        return done

    def _settled(self, name: str, line: _BranchLine) -> Pass:
        done = line.executor.settle()
        return replace(done, changed=done.changed + self._give_back(name, line.view))

    def look(self) -> None:
        """Plan without doing anything about it."""
        self._follow()
        for line in self._lines.values():
            line.planner.plan()

    def sources(self) -> Mapping[str, list[Source]]:
        """Read components that are a branch's own and not paused there, by branch."""
        by_branch: dict[str, list[Source]] = {}
        for name, line in self._lines.items():
            observed = line.planner.observed()
            if observed is not None:
                paused = observed[1].paused
                by_branch[name] = [
                    node for node in line.view.sources() if not is_paused(node, paused)
                ]
        return by_branch

    def published(self) -> list[State]:
        """What branches in scope that publish have of their own, as of the last look."""
        there = self._main.branches
        published: list[State] = []
        for name, line in self._lines.items():
            observed = line.planner.observed()
            if observed is not None and name in there and there[name].publish:
                published += line.view.own_states(observed[1].states)
        return published

    def decisions(self, branch: str) -> Sequence[Decision]:
        """The decisions on all that a branch sees in scope, as of its last pass that did not
        fail."""
        line = self._lines.get(branch)
        if line is None or line.last is None:
            return (Decision(branch, "failed", reason="no pass over this branch has succeeded"),)
        return line.last.plan.decisions

    def shared_by(self, branch: str) -> frozenset[str]:
        """Datasets of main that a branch in scope reads, or has as they are."""
        line = self._lines.get(branch)
        return line.view.shared() if line is not None else frozenset()

    def _end_old(self) -> None:
        """Branches whose time is over; the database's clock has the last word."""
        ends = [
            branch.expires for branch in self._main.branches.values() if branch.expires is not None
        ]
        if ends and min(ends) <= self._clock():
            dropped = branches.drop_expired(self._store, self._namespace)
            for name in dropped:
                log.info("a branch has ended, since it was not edited for long", branch=name)

    def _follow(self) -> None:
        """Take up new branches, and leave those that are gone."""
        there = self._main.branches
        names = there if self._only is None else [name for name in there if name in self._only]
        for removed in self._lines.keys() - set(names):
            del self._lines[removed]
        for name in sorted(set(names) - self._lines.keys()):
            self._lines[name] = self._line(name)

    def _line(self, name: str) -> _BranchLine:
        view = BranchView(self._main, self._namespace, name, self._flows)
        planner = view.planner(self._store, self._window)
        executor = PlanExecutor(
            self._store,
            planner,
            self._namespace,
            name,
            since_trace=self._since_trace,
            failing_units=self._failing_units,
            priority=BELOW_MAIN,
        )
        return _BranchLine(view, planner, executor)

    def _give_back(self, name: str, view: BranchView) -> int:
        """Share datasets with main again that the branch no longer overrides; how many."""
        left = view.left_over()
        if left:
            with self._store.begin(self._namespace) as tx:
                held = set(tx.states.holds(name))  # one may have been rolled back since the look
                given_up = left & held & view.given_up(held)
                tx.states.drop_holds(name, sorted(given_up))
                tx.branches.share(name, left - held | given_up)
        return len(left)
