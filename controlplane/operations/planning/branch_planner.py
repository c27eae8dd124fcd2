"""Planning in a branch: decisions about its own datasets, and main's decisions about all others.

A branch without edits decides about nothing, and loads nothing of main.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from controlplane.core.compile import ownership, redirects
from controlplane.core.compile.nodes import NOTHING, Desired, Source
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.holds import Hold
from controlplane.core.model.states import State
from controlplane.core.plan import Decision, Plan
from controlplane.operations.planning.pinned import decisions, is_pinned, mains_states, off
from controlplane.operations.planning.planner import Memory, Planner
from controlplane.operations.planning.snapshot import Fetched, StoreSnapshot, compile_live, holding, redirected
from controlplane.ports.store import Store, Tx

SINKS_ARE_OFF = "write components are off in branches: only main writes to targets"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Main as a pinned branch sees it."""

    desired: Desired
    known: Fetched

    @staticmethod
    def of(tx: Tx, branch: str, namespace: str) -> Snapshot:
        desired = compile_live(tx.blueprints.mains_revisions(branch).values(), namespace)
        reads = [node.dataset for node in desired.nodes.values() if node.is_source]
        facts = Fetched(states=mains_states(tx.states.newest(branch)), pins=tx.states.pinned_schemas(branch, reads))
        facts.forces = tx.blueprints.mains_forces(branch)
        return Snapshot(desired, facts)

    def look_again(self, tx: Tx, branch: str, datasets: Collection[str]) -> bool:
        """Fetch main's states of marked datasets: those of datasets that the branch has given back could not be seen
        before. True if there are such."""
        states = mains_states(tx.states.newest(branch, datasets))
        is_new = any(self.known.states.get(dataset) != state for dataset, state in states.items())
        self.known.states.update(states)
        return is_new


class BranchPlanner(Planner):
    """Plans of one branch beside main; `main` plans main itself, for all or for the same dataflows."""

    def __init__(
        self,
        store: Store,
        main: Planner,
        namespace: str,
        branch: str,
        *,
        flows: Iterable[str] | None = None,
        window: int = 0,
    ) -> None:
        super().__init__(store, namespace, branch, flows=flows, window=window, cache=main.cache)
        self._main = main
        self._compiled = NOTHING  # what this branch wanted at the last look
        self._mains = NOTHING  # what main wanted then
        self._forces: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})  # of both, then
        self._holds: Mapping[str, Hold] = {}  # of this branch alone, then
        self._branches: Mapping[str, Branch] = {}  # all, then
        self._snapshot: Snapshot | None = None  # of main, where this branch is pinned
        self._frozen: tuple[Decision, ...] = ()  # about its contents
        self._off: Mapping[str, str] = {}  # write components that were redirected and are off, and why
        self.own: frozenset[str] = frozenset()
        self._left_over: frozenset[str] = frozenset()

    @contextmanager
    def looking(self, flows: Iterable[str] | None = None) -> Iterator[tuple[Plan, StoreSnapshot]]:
        with self._main.lock, super().looking(flows) as planned:
            yield planned

    def look(self, tx: Tx, flows: Iterable[str] | None = None) -> tuple[Plan, StoreSnapshot]:
        of_main, main = self._main.look(tx)
        memory, stale = self._known(tx)
        desired = memory.desired
        assert desired is not None
        stale |= self._own_again(tx, memory, desired, main)
        pinned = self._snapshot
        stale |= self._take_over(memory, desired, of_main.decisions if pinned is None else self._frozen)
        below = main.observed if pinned is None else pinned.known
        facts = StoreSnapshot(tx, self._branch, desired, _over(memory.known, below, self.own), self.cache)
        facts.own = ownership.decided(desired, self.own, self._off)
        self._stage(memory, facts)
        self._decide(memory, desired, facts, stale)
        self._memory = memory
        return self._scoped(memory, desired, flows), facts

    def carried_out(self, full_plan: Plan) -> Sequence[Decision]:
        return [decision for decision in full_plan.decisions if decision.dataset in self.own]

    def left_over(self) -> frozenset[str]:
        """Datasets that have states in this branch and are main's again, as of the last plan; each call returns them
        once."""
        datasets, self._left_over = self._left_over, frozenset()
        return datasets

    def given_up(self, datasets: Iterable[str]) -> set[str]:
        """Those that the branch no longer wanted at the last compilation, as main has deleted or renamed them. Nothing
        is known of the datasets of a dataflow that does not compile."""
        nodes, unknown = self._compiled.nodes, self._compiled.left_out
        if self._compiled is NOTHING:
            return set()
        return {d for d in datasets if d not in nodes and d.partition(".")[0] not in unknown}

    def shared(self) -> frozenset[str]:
        """Datasets in scope that are main's, as of the last plan. None is, where the branch is pinned."""
        if self._snapshot is not None:
            return frozenset()
        scope = self._scope(self._compiled, None)
        return frozenset(self._compiled.nodes if scope is None else scope) - self.own

    def sources(self) -> list[Source]:
        """Read components that are this branch's own, and to be listed or followed, as of the last plan."""
        if self._snapshot is not None:
            return []
        nodes = (self._compiled.nodes[dataset] for dataset in self._compiled.order if dataset in self.own)
        return [node for node in nodes if node.is_source]

    def own_states(self) -> list[State]:
        """The newest state of each dataset in scope that has states in this branch, as of the last plan."""
        observed = self.observed()
        if observed is None:
            return []
        desired, facts = observed
        scope = self._scope(desired, None)
        own = sorted(self.own if scope is None else self.own & scope)
        states = [facts.states[dataset] for dataset in own if dataset in facts.states]
        return [state for state in states if state.branch == self._branch]

    def _swept(self, tx: Tx) -> tuple[Memory, set[str]]:
        self.own, self._mains, self._compiled = frozenset(), NOTHING, NOTHING
        self._left_over = tx.branches.own_datasets(self._branch)
        self._snapshot = Snapshot.of(tx, self._branch, self._namespace) if is_pinned(tx, self._branch) else None
        return super()._swept(tx)

    def _refreshed(self, tx: Tx, memory: Memory, marked: frozenset[str]) -> set[str]:
        stale = super()._refreshed(tx, memory, marked)
        assert memory.desired is not None
        theirs = marked & memory.desired.nodes.keys()
        if self._snapshot is not None and theirs and self._snapshot.look_again(tx, self._branch, theirs):
            self._compiled = NOTHING  # nothing holds of what followed from it
        return stale

    def _own_again(self, tx: Tx, memory: Memory, desired: Desired, main: StoreSnapshot) -> set[str]:
        """Datasets that have become this branch's own, or main's, since the last plan. The former are fetched."""
        pinned = self._snapshot
        of_main = main.compiled if pinned is None else pinned.desired
        forces = memory.known.forces, (main.observed if pinned is None else pinned.known).forces
        holds, there = memory.known.holds, self._main.branches
        is_known = desired is self._compiled and main.compiled is self._mains and there is self._branches
        if is_known and (forces, holds) == (self._forces, self._holds):
            return set()
        self._compiled, self._mains, self._branches = desired, main.compiled, there
        self._forces, self._holds = forces, holds
        owned = ownership.own(desired, of_main, *forces, held=holds)
        before, self.own = self.own, owned
        self._left_over = (self._left_over | before) - owned
        if pinned is not None:
            self._frozen = tuple(decisions(desired, pinned.known.states, owned))
        moved = self._turn_off(desired, main.compiled)
        self._fetch(tx, memory, owned - before)
        for dataset in before - owned:
            memory.decisions.pop(dataset, None)
            memory.known.drop(dataset)
        return (set(owned ^ before) | moved) & desired.nodes.keys()

    def _turn_off(self, desired: Desired, main: Desired) -> set[str]:
        """Find again which redirects lead to a place of another owner; returns the write components for which that
        changed. Components that are off from now on are left over: no worker may write them any more."""
        turned_off = redirects.taken(desired, main, self._branches.get(self._branch), self._branches.values())
        self._left_over |= turned_off.keys() - self._off.keys()
        if self._snapshot is not None:
            turned_off |= off(desired, self.own)
        before, self._off = self._off, turned_off
        return set(turned_off.keys() ^ before.keys())

    def _compile(self, tx: Tx, memory: Memory) -> Desired:
        return redirected(tx, self._branch, super()._compile(tx, memory))

    def _take_over(self, memory: Memory, desired: Desired, of_main: Iterable[Decision]) -> set[str]:
        """Take over main's decisions about shared datasets; returns the datasets with new ones."""
        changed: set[str] = set()
        for decision in of_main:
            dataset = decision.dataset
            if dataset in desired.nodes and dataset not in self.own and memory.decisions.get(dataset) is not decision:
                memory.decisions[dataset] = decision
                changed.add(dataset)
        for dataset in self.own:
            is_off = ownership.is_off(desired.nodes[dataset])
            if reason := self._off.get(dataset) or (SINKS_ARE_OFF if is_off else ""):
                memory.decisions[dataset] = Decision(dataset, "paused", reason=reason, is_off=is_off)
        return changed

    def _fetch(self, tx: Tx, memory: Memory, datasets: Collection[str] | None) -> None:
        super()._fetch(tx, memory, self.own if datasets is None else self.own & set(datasets))

    def _decided(self, desired: Desired) -> frozenset[str]:
        scope = self._scope(desired, None)
        datasets = self.own if scope is None else self.own & scope
        return ownership.decided(desired, datasets, self._off)


def _over(own: Fetched, main: Fetched, names: Collection[str]) -> Fetched:
    """The facts about a branch's own datasets (`names`), and main's where the branch has none."""
    return Fetched(
        states=ChainMap(own.states, main.states),
        listings=ChainMap(own.listings, main.listings),
        targets=own.targets,
        buildings=own.buildings,
        unfinished=own.unfinished,
        pins=ChainMap(own.pins, main.pins),
        paused=own.paused,
        forces=own.forces,
        holds=holding(names, own.holds, main.holds),
    )


class Planners:
    """One planner for each requested branch, in a process that answers questions. Those of branches that are gone are
    let go of."""

    def __init__(self) -> None:
        self._planners: dict[tuple[str, str], Planner] = {}
        self._lock = threading.Lock()

    def of(self, store: Store, namespace: str, branch: str) -> Planner:
        with self._lock:
            main = self._planners.get((namespace, MAIN))
            if main is None:
                main = self._planners[namespace, MAIN] = Planner(store, namespace)
                main.follows_branches = True
            if (namespace, branch) not in self._planners:
                self._let_go(namespace, main.branches)
                self._planners[namespace, branch] = BranchPlanner(store, main, namespace, branch)
            return self._planners[namespace, branch]

    def _let_go(self, namespace: str, there: Container[str]) -> None:
        for of, name in list(self._planners):
            if of == namespace and name != MAIN and name not in there:
                del self._planners[of, name]
