"""Planning in a branch: decisions about its own datasets, and main's decisions about all others.

A branch without edits decides about nothing, and loads nothing of main.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

from controlplane.core.compile import ownership, redirects
from controlplane.core.compile.nodes import NOTHING, Desired, Source
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.holds import Hold
from controlplane.core.model.states import State
from controlplane.core.plan import Decision
from controlplane.core.tree import NodeCache
from controlplane.operations.planning.pinned import decisions, is_pinned, mains_states, off
from controlplane.operations.planning.planner import Memory, Planner, View, ViewUpdate
from controlplane.operations.planning.snapshot import (
    CACHE_BYTES,
    Fetched,
    StoreSnapshot,
    compile_live,
    holding,
)
from controlplane.ports.store import Store, Tx

SINKS_ARE_OFF = "write components are off in branches: only main writes to targets"


@dataclass(frozen=True, slots=True)
class PinnedMain:
    """Main as a pinned branch sees it."""

    desired: Desired
    facts: Fetched

    @staticmethod
    def of(tx: Tx, branch: str, namespace: str) -> PinnedMain:
        desired = compile_live(tx.blueprints.mains_revisions(branch).values(), namespace)
        reads = [node.dataset for node in desired.nodes.values() if node.is_source]
        facts = Fetched(
            states=mains_states(tx.states.newest(branch)),
            pins=tx.states.pinned_schemas(branch, reads),
        )
        facts.forces = tx.blueprints.mains_forces(branch)
        return PinnedMain(desired, facts)

    def refresh(self, tx: Tx, branch: str, datasets: Collection[str]) -> bool:
        """Fetch main's states of marked datasets; True if one is new. Main's state of a dataset is
        hidden while the branch has its own."""
        states = mains_states(tx.states.newest(branch, datasets))
        is_new = any(self.facts.states.get(dataset) != state for dataset, state in states.items())
        self.facts.states.update(states)
        return is_new


@dataclass(frozen=True, slots=True)
class _Basis:
    """The facts that decide which datasets are a branch's own. `forces`: of the branch, and of
    main."""

    desired: Desired
    main: Desired  # as it is now, also beside a pinned branch
    branches: Mapping[str, Branch]
    forces: tuple[Mapping[str, int], Mapping[str, int]]
    holds: Mapping[str, Hold]

    def is_like(self, other: _Basis) -> bool:
        """By identity where a comparison would take long: these values are replaced, never
        changed."""
        if self.desired is not other.desired or self.main is not other.main:
            return False
        if self.branches is not other.branches:
            return False
        return (self.forces, self.holds) == (other.forces, other.holds)


_NO_BASIS = _Basis(NOTHING, NOTHING, {}, ({}, {}), {})


class BranchView(View):
    """The part of a branch that is not main's, of these dataflows and their upstream if any are
    named.

    `main` plans main itself, for all or for the same dataflows. A pinned branch has a snapshot of
    main in its place.
    """

    own: frozenset[str]

    def __init__(
        self, main: Planner, namespace: str, branch: str, flows: Iterable[str] | None = None
    ) -> None:
        self.main, self.namespace, self.branch = main, namespace, branch
        self.flows = None if flows is None else frozenset(flows)
        self.lock = main.lock
        self.own = frozenset()
        self._basis = _NO_BASIS  # of `own`
        self._pinned: PinnedMain | None = None  # of main, where this branch is pinned
        self._frozen: tuple[Decision, ...] = ()  # about its contents
        # Write components that were redirected and are off, and why
        self._off: Mapping[str, str] = {}
        self._left_over: frozenset[str] = frozenset()

    def planner(self, store: Store, window: int = 0) -> Planner:
        """A planner of this part of the branch. Both are used together, and by nothing else."""
        cache = self.main.cache
        return Planner(
            store,
            self.namespace,
            self.branch,
            flows=self.flows,
            window=window,
            min_rows=self.main.min_rows,
            cache=cache,
            view=self,
        )

    # --- answers, as of the last plan

    def left_over(self) -> frozenset[str]:
        """Datasets that have states in this branch and are main's again; each call returns them
        once."""
        datasets, self._left_over = self._left_over, frozenset()
        return datasets

    def given_up(self, datasets: Iterable[str]) -> set[str]:
        """Those that the branch no longer wants, as main has deleted or renamed them. Nothing is
        known of the datasets of a dataflow that does not compile."""
        desired = self._basis.desired
        if desired is NOTHING:
            return set()
        missing = set(datasets) - desired.nodes.keys()
        return {dataset for dataset in missing if dataset.partition(".")[0] not in desired.left_out}

    def shared(self) -> frozenset[str]:
        """Datasets in scope that are main's. None is, where the branch is pinned."""
        if self._pinned is not None:
            return frozenset()
        return self._scope() - self.own

    def sources(self) -> list[Source]:
        """Read components that are this branch's own, and to be listed or followed."""
        if self._pinned is not None:
            return []
        desired = self._basis.desired
        nodes = (desired.nodes[dataset] for dataset in desired.order if dataset in self.own)
        return [node for node in nodes if node.is_source]

    def own_states(self, states: Mapping[str, State]) -> list[State]:
        """The states in scope that this branch has itself, from the `states` of a plan."""
        own = sorted(self.own & self._scope())
        newest = [states[dataset] for dataset in own if dataset in states]
        return [state for state in newest if state.branch == self.branch]

    def _scope(self) -> frozenset[str]:
        desired = self._basis.desired
        return frozenset(desired.nodes) if self.flows is None else desired.scope(self.flows)

    # --- a plan

    def reset(self, tx: Tx) -> None:
        self.own, self._basis = frozenset(), _NO_BASIS
        self._left_over = tx.branches.own_datasets(self.branch)
        self._pinned = (
            PinnedMain.of(tx, self.branch, self.namespace) if is_pinned(tx, self.branch) else None
        )

    def update(self, tx: Tx, memory: Memory) -> ViewUpdate:
        plan_of_main, main = self.main.look(tx)
        pinned = self._pinned
        marked = memory.marked & memory.desired.nodes.keys()
        if pinned is not None and marked and pinned.refresh(tx, self.branch, marked):
            self._basis = _NO_BASIS
        stale = self._own_again(tx, memory, main)
        stale |= self._take_over(memory, plan_of_main.decisions if pinned is None else self._frozen)
        below = main.observed if pinned is None else pinned.facts
        decided = ownership.decided(memory.desired, self.own, self._off)
        return ViewUpdate(_over(memory.fetched, below, self.own), decided, frozenset(stale))

    def _own_again(self, tx: Tx, memory: Memory, main: StoreSnapshot) -> set[str]:
        """Datasets that have become this branch's own, or main's, since the last plan. The former
        are fetched."""
        pinned, desired = self._pinned, memory.desired
        of_main = (
            (main.compiled, main.observed) if pinned is None else (pinned.desired, pinned.facts)
        )
        forces = memory.fetched.forces, of_main[1].forces
        basis = _Basis(desired, main.compiled, self.main.branches, forces, memory.fetched.holds)
        if basis.is_like(self._basis):
            return set()
        owned = ownership.own(desired, of_main[0], *forces, held=basis.holds)
        before, self.own, self._basis = self.own, owned, basis
        self._left_over = (self._left_over | before) - owned
        if pinned is not None:
            self._frozen = tuple(decisions(desired, pinned.facts.states, owned))
        moved = self._turn_off(basis)
        memory.fetched.fetch(
            tx, self.branch, [desired.nodes[dataset] for dataset in sorted(owned - before)]
        )
        for dataset in before - owned:
            memory.decisions.pop(dataset, None)
            memory.fetched.drop(dataset)
        return (set(owned ^ before) | moved) & desired.nodes.keys()

    def _turn_off(self, basis: _Basis) -> set[str]:
        """Find again which redirects lead to a place of another owner; returns the write components
        for which that changed. Components that are off from now on are left over: no worker may
        write them any more."""
        branches = basis.branches
        turned_off = redirects.occupied(
            basis.desired, basis.main, branches.get(self.branch), branches.values()
        )
        self._left_over |= turned_off.keys() - self._off.keys()
        if self._pinned is not None:
            turned_off |= off(basis.desired, self.own)
        before, self._off = self._off, turned_off
        return set(turned_off.keys() ^ before.keys())

    def _take_over(self, memory: Memory, of_main: Iterable[Decision]) -> set[str]:
        """Take over main's decisions about shared datasets; returns the datasets with new ones."""
        nodes, changed = memory.desired.nodes, set[str]()
        for decision in of_main:
            dataset = decision.dataset
            if (
                dataset in nodes
                and dataset not in self.own
                and memory.decisions.get(dataset) is not decision
            ):
                memory.decisions[dataset] = decision
                changed.add(dataset)
        for dataset in self.own:
            is_off = ownership.is_off(nodes[dataset])
            if reason := self._off.get(dataset) or (SINKS_ARE_OFF if is_off else ""):
                memory.decisions[dataset] = Decision(
                    dataset, "paused", reason=reason, is_off=is_off
                )
        return changed


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
        forced_ranges=own.forced_ranges,
        holds=holding(names, own.holds, main.holds),
        raised_sizes=own.raised_sizes,
    )


class Planners:
    """One planner for each requested branch, in a process that answers questions. Those of branches
    that are gone are let go of."""

    def __init__(self) -> None:
        self._planners: dict[tuple[str, str], Planner] = {}
        self._caches: dict[str, NodeCache] = {}
        self._lock = threading.Lock()

    def cache(self, namespace: str) -> NodeCache:
        """Tree nodes of a namespace, for all planners of this process: the loop's, too."""
        # In one step, for threads that ask at once
        return self._caches.setdefault(namespace, NodeCache(CACHE_BYTES))

    def of(self, store: Store, namespace: str, branch: str) -> Planner:
        with self._lock:
            main = self._planners.get((namespace, MAIN))
            if main is None:
                main = Planner(store, namespace, cache=self.cache(namespace))
                self._planners[namespace, MAIN] = main
                main.follows_branches = True
            if (namespace, branch) not in self._planners:
                self._let_go(namespace, main.branches)
                self._planners[namespace, branch] = BranchView(main, namespace, branch).planner(
                    store
                )
            return self._planners[namespace, branch]

    def _let_go(self, namespace: str, there: Container[str]) -> None:
        for of, name in list(self._planners):
            if of == namespace and name != MAIN and name not in there:
                del self._planners[of, name]
