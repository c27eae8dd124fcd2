"""Planning in a branch: decisions about its own datasets, and main's decisions about all others.

A branch in which nothing was edited decides about nothing, and loads nothing of what main has. Does not belong here:
carrying plans out.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from controlplane.core.compile import ownership
from controlplane.core.compile.nodes import NOTHING, Desired, Sink, Source
from controlplane.core.model.branches import MAIN
from controlplane.core.model.holds import Hold
from controlplane.core.plan import Decision, Plan
from controlplane.operations.planning.planner import Memory, Planner
from controlplane.operations.planning.snapshot import Fetched, StoreSnapshot, holding
from controlplane.ports.store import Store, Tx

SINKS_ARE_OFF = "write components are off in branches: only main writes to targets"


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
        self.own: frozenset[str] = frozenset()
        self._left_over: frozenset[str] = frozenset()

    @contextmanager
    def looking(self, flows: Iterable[str] | None = None) -> Iterator[tuple[Plan, StoreSnapshot]]:
        with self._main.lock, super().looking(flows) as found:
            yield found

    def look(self, tx: Tx, flows: Iterable[str] | None = None) -> tuple[Plan, StoreSnapshot]:
        of_main, main = self._main.look(tx)
        memory, stale = self._known(tx)
        desired = memory.desired
        assert desired is not None
        stale |= self._own_anew(tx, memory, desired, main)
        stale |= self._take_over(memory, desired, of_main)
        facts = StoreSnapshot(tx, self._branch, desired, _over(memory.known, main.observed, self.own), self.cache)
        facts.own = ownership.decided(desired, self.own)
        self._stage(memory, facts)
        self._decide(memory, desired, facts, stale)
        self._memory = memory
        return self._scoped(memory, desired, flows), facts

    def carried_out(self, found: Plan) -> Sequence[Decision]:
        return [decision for decision in found.decisions if decision.dataset in self.own]

    def left_over(self) -> frozenset[str]:
        """Datasets that have states in this branch and are main's again, as of the last look; told once."""
        found, self._left_over = self._left_over, frozenset()
        return found

    def shared(self) -> frozenset[str]:
        """Datasets in scope that are main's, as of the last look."""
        scope = self._scope(self._compiled, None)
        return frozenset(self._compiled.nodes if scope is None else scope) - self.own

    def sources(self) -> list[Source]:
        """Read components that are this branch's own, as of the last look."""
        nodes = (self._compiled.nodes[dataset] for dataset in self._compiled.order if dataset in self.own)
        return [node for node in nodes if isinstance(node, Source)]

    def _swept(self, tx: Tx) -> tuple[Memory, set[str]]:
        self.own, self._mains, self._compiled = frozenset(), NOTHING, NOTHING
        self._left_over = tx.own_datasets(self._branch)
        return super()._swept(tx)

    def _own_anew(self, tx: Tx, memory: Memory, desired: Desired, main: StoreSnapshot) -> set[str]:
        """Datasets that have become this branch's own, or main's, since the last look. The former are fetched."""
        forces, holds = (memory.known.forces, main.observed.forces), memory.known.holds
        wishes = (forces, holds)
        if desired is self._compiled and main.desired is self._mains and wishes == (self._forces, self._holds):
            return set()
        self._compiled, self._mains, self._forces, self._holds = desired, main.desired, forces, holds
        found = ownership.own(desired, main.desired, *forces, held=holds)
        before, self.own = self.own, found
        self._left_over = (self._left_over | before) - found
        self._fetch(tx, memory, found - before)
        for dataset in before - found:
            memory.decisions.pop(dataset, None)
            memory.known.drop(dataset)
        return set(found ^ before) & desired.nodes.keys()

    def _take_over(self, memory: Memory, desired: Desired, of_main: Plan) -> set[str]:
        """Main's decisions about what is shared; those that are new."""
        changed: set[str] = set()
        for decision in of_main.decisions:
            dataset = decision.dataset
            if dataset in desired.nodes and dataset not in self.own and memory.decisions.get(dataset) is not decision:
                memory.decisions[dataset] = decision
                changed.add(dataset)
        for dataset in self.own:
            if isinstance(desired.nodes[dataset], Sink):
                memory.decisions[dataset] = Decision(dataset, "paused", reason=SINKS_ARE_OFF)
        return changed

    def _fetch(self, tx: Tx, memory: Memory, datasets: Collection[str] | None) -> None:
        super()._fetch(tx, memory, self.own if datasets is None else self.own & set(datasets))

    def _decided(self, desired: Desired) -> frozenset[str]:
        scope = self._scope(desired, None)
        wanted = self.own if scope is None else self.own & scope
        return ownership.decided(desired, wanted)


def _over(own: Fetched, main: Fetched, names: Collection[str]) -> Fetched:
    """What is known of a branch's own datasets (`names`), and of main's where there is none."""
    return Fetched(
        states=ChainMap(own.states, main.states),
        listings=ChainMap(own.listings, main.listings),
        targets=own.targets,
        buildings=own.buildings,
        begun=own.begun,
        pins=ChainMap(own.pins, main.pins),
        paused=own.paused,
        forces=own.forces,
        holds=holding(names, own.holds, main.holds),
    )


class Planners:
    """One planner for each branch that is looked at, in a process that answers questions. Those of branches that are
    gone are let go of."""

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
