"""Planning again and again: what was known and decided is kept, and only what something happened to is looked at again.

A transaction that changes anything that plans depend on marks its datasets (`Tx.marked`). A planner remembers the last
mark that it has seen, fetches what was marked, and decides anew about these datasets and all that is downstream. Every
now and then it starts from nothing, so that a lost mark only delays. Does not belong here: carrying plans out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from controlplane.core.compile.nodes import Desired, Node, Sink, Source, paused_by
from controlplane.core.model import change_marks
from controlplane.core.model.revisions import Revision
from controlplane.core.plan import EXACT, FEWEST, WIDEST, Commit, Decision, Plan, RunChecks, plan, salts
from controlplane.core.tree import NodeCache
from controlplane.operations.planning.snapshot import CACHE_BYTES, Fetched, StoreSnapshot, compile_live
from controlplane.ports.store import Store, Tx

SWEEP_S = 300.0  # the longest time without a look at everything


@dataclass(slots=True)
class _Memory:
    """All of it is true as of mark `seen`."""

    seen: int = 0
    revisions: dict[str, Revision] = field(default_factory=dict)
    desired: Desired | None = None
    known: Fetched = field(default_factory=Fetched)
    decisions: dict[str, Decision] = field(default_factory=dict)
    swept_at: float = 0.0
    kinds: frozenset[salts.PeriodKind] = frozenset()  # of periods that somebody has
    periods: Mapping[salts.PeriodKind, str] = field(default_factory=dict)  # as it was when that was decided about


class Planner:
    """Plans of one branch; of these dataflows and their upstream, if any are named. Threads take turns.

    `window`, `exact`, `fewest` and `widest`: see `core.plan.plan`.
    """

    def __init__(
        self,
        store: Store,
        namespace: str = "default",
        branch: str = "main",
        *,
        flows: Iterable[str] | None = None,
        window: int = 0,
        exact: int = EXACT,
        fewest: int = FEWEST,
        widest: int = WIDEST,
        cache: NodeCache | None = None,
    ) -> None:
        self._store, self._namespace, self._branch = store, namespace, branch
        self._flows = None if flows is None else frozenset(flows)
        self._window, self._exact, self._fewest, self._widest = window, exact, fewest, widest
        self._cache = cache or NodeCache(CACHE_BYTES)
        self._memory: _Memory | None = None
        self._lock = threading.Lock()

    def plan(self, flows: Iterable[str] | None = None) -> Plan:
        """What would run now, of these dataflows and their upstream (all by default)."""
        with self.looking(flows) as (found, _):
            return found

    @contextmanager
    def looking(self, flows: Iterable[str] | None = None) -> Iterator[tuple[Plan, StoreSnapshot]]:
        """The plan and the facts that it rests on, while the snapshot is open."""
        with self._lock, self._store.read(self._namespace) as tx:
            yield self.look(tx, flows)

    def look(self, tx: Tx, flows: Iterable[str] | None = None) -> tuple[Plan, StoreSnapshot]:
        """As `looking`, in a transaction of the caller's. Not for several threads at a time."""
        memory = self._memory
        self._memory = None  # whatever happens now, nothing half-known is kept
        if memory is None or time.monotonic() - memory.swept_at > SWEEP_S:
            memory, stale = self._swept(tx)
        else:
            stale = self._refreshed(tx, memory) | _turned(tx, memory)
        desired = memory.desired
        assert desired is not None
        facts = StoreSnapshot(tx, self._branch, desired, memory.known, self._cache)
        self._decide(memory, desired, facts, stale)
        self._memory = memory
        scope = self._scope(desired, flows)
        order = desired.order if scope is None else [d for d in desired.order if d in scope]
        return Plan(tuple(memory.decisions[d] for d in order if d in memory.decisions)), facts

    def forget(self) -> None:
        """Start from nothing the next time."""
        with self._lock:
            self._memory = None

    @property
    def seen(self) -> int:
        """The newest mark that the last look knew of."""
        memory = self._memory
        return 0 if memory is None else memory.seen

    def observed(self) -> tuple[Desired, Fetched] | None:
        """What the last look knew; not to be changed."""
        memory = self._memory
        return None if memory is None or memory.desired is None else (memory.desired, memory.known)

    def _scope(self, desired: Desired, flows: Iterable[str] | None) -> frozenset[str] | None:
        wanted = self._flows if flows is None else frozenset(flows)
        return None if wanted is None else desired.scope(wanted)

    # --- what is known

    def _swept(self, tx: Tx) -> tuple[_Memory, set[str]]:
        """Everything from nothing."""
        seen, _ = tx.marked(self._branch, 0)
        memory = _Memory(seen, tx.revisions(self._branch), swept_at=time.monotonic())
        memory.desired = compile_live(memory.revisions.values(), self._namespace)
        memory.known.paused, memory.known.forces = tx.paused(self._branch), tx.forces(self._branch)
        memory.kinds = salts.kinds(memory.desired)
        memory.periods = salts.periods(memory.kinds, tx.now()) if memory.kinds else {}
        nodes = [memory.desired.nodes[d] for d in memory.desired.order]
        memory.known.fetch(tx, self._branch, nodes, everything=True)
        return memory, set(memory.desired.order)

    def _refreshed(self, tx: Tx, memory: _Memory) -> set[str]:
        """Fetch what was marked since; the datasets to decide about again."""
        memory.seen, marked = tx.marked(self._branch, memory.seen)
        if not marked:
            return set()
        stale = self._recompiled(tx, memory, {f for m in marked if (f := change_marks.flow_of(m))})
        desired = memory.desired
        assert desired is not None
        if change_marks.PAUSES in marked:
            memory.known.paused, before = tx.paused(self._branch), memory.known.paused
            moved = memory.known.paused ^ before
            stale |= {d for d in desired.order if paused_by(d) & moved}
        if change_marks.FORCED in marked:
            memory.known.forces = tx.forces(self._branch)
        listings = {id for m in marked if (id := change_marks.listing_of(m))}
        if listings:
            stale |= {n.dataset for n in desired.nodes.values() if isinstance(n, Source) and n.listing in listings}
        stale |= marked & desired.nodes.keys()
        memory.known.fetch(tx, self._branch, [desired.nodes[d] for d in sorted(stale)])
        return stale

    def _recompiled(self, tx: Tx, memory: _Memory, flows: set[str]) -> set[str]:
        """Datasets whose nodes are new or other than before."""
        if not flows:
            return set()
        for flow in flows:
            memory.revisions.pop(flow, None)
        memory.revisions.update(tx.revisions(self._branch, flows))
        before, memory.desired = memory.desired, compile_live(memory.revisions.values(), self._namespace)
        memory.kinds = salts.kinds(memory.desired)
        assert before is not None
        for gone in before.nodes.keys() - memory.desired.nodes.keys():
            memory.decisions.pop(gone, None)
        return {d for d, node in memory.desired.nodes.items() if not _is_same(before.nodes.get(d), node)}

    # --- decisions

    def _decide(self, memory: _Memory, desired: Desired, facts: StoreSnapshot, stale: set[str]) -> None:
        """Decide anew about what is stale, about commits that nobody has carried out, and all downstream of these."""
        waiting = {d for d, decision in memory.decisions.items() if _is_carried_out_unseen(decision)}
        changed = stale | waiting
        if not changed:
            return
        changed |= desired.graph.downstream(changed)
        scope = self._scope(desired, None)
        chosen = frozenset(changed if scope is None else changed & scope)
        known = {d: decision for d, decision in memory.decisions.items() if d not in chosen}
        found = plan(
            desired,
            facts,
            self._branch,
            chosen,
            now=facts.tx.now(),
            window=self._window,
            exact=self._exact,
            fewest=self._fewest,
            widest=self._widest,
            known=known,
        )
        memory.decisions.update((decision.dataset, decision) for decision in found.decisions)


def _turned(tx: Tx, memory: _Memory) -> set[str]:
    """Datasets whose results are to be made anew because a day or an hour is over: nobody marks that."""
    assert memory.desired is not None
    if not memory.kinds:
        return set()
    now, before = salts.periods(memory.kinds, tx.now()), memory.periods
    memory.periods = now
    return salts.period_changed(memory.desired, before, now)


def _is_carried_out_unseen(decision: Decision) -> bool:
    """Commits may be lost to somebody else's; that memos were noted leaves no mark."""
    return isinstance(decision.step, Commit) or (isinstance(decision.step, RunChecks) and bool(decision.step.notes))


def _is_same(before: Node | None, node: Node) -> bool:
    """What a node means follows from its text and from what is upstream of it."""
    if before is None or type(before) is not type(node) or before.revision != node.revision:
        return False
    if isinstance(before, Sink) or isinstance(node, Sink):
        return True
    return before.lineage == node.lineage


class Planners:
    """One planner for each branch that somebody looks at, in a process that answers questions."""

    def __init__(self) -> None:
        self._planners: dict[tuple[str, str], Planner] = {}
        self._lock = threading.Lock()

    def of(self, store: Store, namespace: str, branch: str) -> Planner:
        with self._lock:
            if (namespace, branch) not in self._planners:
                self._planners[namespace, branch] = Planner(store, namespace, branch)
            return self._planners[namespace, branch]
