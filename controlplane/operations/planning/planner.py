"""Incremental planning: facts and decisions are kept, and only datasets that may have changed are
examined again.

A transaction that changes anything that plans depend on marks its datasets (`Tx.marked`). A planner
remembers the last mark that it has seen, fetches the marked datasets, and decides again about these
and all that is downstream. Every now and then it starts from nothing, so that a lost mark only
delays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from controlplane.core.compile.nodes import NOTHING, Desired, Node, paused_by
from controlplane.core.model import change_marks
from controlplane.core.model.branches import Branch
from controlplane.core.model.revisions import Revision
from controlplane.core.plan import (
    EXACT,
    FEWEST,
    MIN_ROWS,
    WIDEST,
    Commit,
    Decision,
    Plan,
    RunChecks,
    plan,
    salts,
)
from controlplane.core.tree import NodeCache
from controlplane.operations.planning.snapshot import (
    CACHE_BYTES,
    Fetched,
    StoreSnapshot,
    compile_live,
    redirected,
)
from controlplane.ports.store import Store, Tx

SWEEP_S = 300.0  # the longest time without a look at everything
# Tree nodes that a planner that only looks keeps from one look to the next
STAGED_BYTES = 32 << 20


@dataclass(slots=True)
class Memory:
    """What a planner knows. All of it is true as of mark `newest_mark`."""

    newest_mark: int = 0
    revisions: dict[str, Revision] = field(default_factory=dict)
    desired: Desired = NOTHING
    fetched: Fetched = field(default_factory=Fetched)
    decisions: dict[str, Decision] = field(default_factory=dict)
    swept_at: float = 0.0
    kinds: frozenset[salts.PeriodKind] = frozenset()  # of periods in use
    # Tree nodes of decisions, which the planner that carries them out stores
    staged: dict[bytes, bytes] = field(default_factory=dict)
    # `staged` has all nodes of the planned commits, so these need no new decision
    keeps_commits: bool = False
    # Beside main; known to main's planner only
    branches: Mapping[str, Branch] = field(default_factory=dict)
    # As it was when that was decided about
    periods: Mapping[salts.PeriodKind, str] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()  # since the plan before


@dataclass(frozen=True, slots=True)
class ViewUpdate:
    """The part of a plan that differs between views. `observed`: the facts to plan from. `decided`:
    the datasets to decide about (None: all). `stale`: datasets to decide about again, besides those
    that changed in the store."""

    observed: Fetched
    decided: frozenset[str] | None = None
    stale: frozenset[str] = frozenset()


class View:
    """The part of a branch that a planner fetches, decides about and has carried out. Main's is all
    of main.

    `own`: the datasets in it, as of the last plan (None: all). `lock` is held while the planner
    looks.
    """

    own: frozenset[str] | None = None
    lock: AbstractContextManager[object] = nullcontext()

    def reset(self, tx: Tx) -> None:
        """The planner starts from nothing in this transaction."""

    def update(self, tx: Tx, memory: Memory) -> ViewUpdate:  # noqa: ARG002  # a view of a part reads main
        """Bring the view up to date with `memory`, which is as of now. May change its facts and
        decisions."""
        return ViewUpdate(memory.fetched)


class Planner:
    """Plans of one branch; of these dataflows and their upstream, if any are named. Threads take
    turns.

    `view`: the part of the branch to plan. `window`, `exact`, `fewest`, `min_rows` and `widest`:
    see `core.plan.plan`.
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
        min_rows: int = MIN_ROWS,
        widest: int = WIDEST,
        cache: NodeCache | None = None,
        view: View | None = None,
    ) -> None:
        self._store, self._namespace, self._branch = store, namespace, branch
        self._flows = None if flows is None else frozenset(flows)
        self._window, self._exact, self._fewest, self._widest = window, exact, fewest, widest
        self.min_rows = min_rows
        self.cache = cache or NodeCache(CACHE_BYTES)
        self._view = view or View()
        self._memory: Memory | None = None
        # As who carries decisions out needs: another look may have made them
        self.keeps_nodes = False
        # As the planner of main has to, in a process that looks after others
        self.follows_branches = False
        # Datasets that are carried out, where that is not all
        self.only: frozenset[str] | None = None
        self.lock = threading.Lock()

    def plan(self, flows: Iterable[str] | None = None) -> Plan:
        """What would run now, of these dataflows and their upstream (all by default)."""
        with self.read_plan(flows) as (full_plan, _):
            return full_plan

    @contextmanager
    def read_plan(self, flows: Iterable[str] | None = None) -> Iterator[tuple[Plan, StoreSnapshot]]:
        """The plan and the facts that it rests on, while the snapshot is open."""
        with self._view.lock, self.lock, self._store.read(self._namespace) as tx:
            yield self.look(tx, flows)

    def carried_out(self, full_plan: Plan) -> Sequence[Decision]:
        """The decisions of a plan that are this planner's to have carried out."""
        limit = _in_both(self._view.own, self.only)
        if limit is None:
            return full_plan.decisions
        return [decision for decision in full_plan.decisions if decision.dataset in limit]

    @property
    def branches(self) -> Mapping[str, Branch]:
        """All beside main, as of the last plan of main."""
        memory = self._memory
        return {} if memory is None else memory.branches

    def look(self, tx: Tx, flows: Iterable[str] | None = None) -> tuple[Plan, StoreSnapshot]:
        """As `read_plan`, in a transaction of the caller's. Not for several threads at a time."""
        memory, stale = self._current_facts(tx)
        update = self._view.update(tx, memory)
        facts = StoreSnapshot(tx, self._branch, memory.desired, update.observed, self.cache)
        facts.own = update.decided
        # Decisions outlive this transaction, and so do the tree nodes that they are about
        if self.keeps_nodes:
            facts.overlay.staged = memory.staged
            self._decide(memory, facts, stale | update.stale)
        else:
            self._decide_to_look(memory, facts, stale | update.stale)
        self._memory = memory
        return self._scoped(memory, flows), facts

    def nodes_stored(self) -> None:
        """Forget staged tree nodes: those of the last plan are stored."""
        if self._memory is not None:
            self._memory.staged.clear()

    def _scoped(self, memory: Memory, flows: Iterable[str] | None) -> Plan:
        order = memory.desired.order
        scope = self._scope(memory.desired, flows)
        if scope is not None:
            order = tuple(d for d in order if d in scope)
        return Plan(tuple(memory.decisions[d] for d in order if d in memory.decisions))

    def forget(self) -> None:
        """Start from nothing the next time."""
        with self.lock:
            self._memory = None

    @property
    def newest_mark(self) -> int:
        """The newest mark that the last plan knew."""
        memory = self._memory
        return 0 if memory is None else memory.newest_mark

    @property
    def is_current(self) -> bool:
        """True if the next plan fetches only facts that were marked since the last one."""
        memory = self._memory
        return memory is not None and not _is_old(memory)

    def observed(self) -> tuple[Desired, Fetched] | None:
        """The facts of the last plan; not to be changed."""
        memory = self._memory
        return None if memory is None else (memory.desired, memory.fetched)

    def _scope(self, desired: Desired, flows: Iterable[str] | None) -> frozenset[str] | None:
        chosen_flows = self._flows if flows is None else frozenset(flows)
        return None if chosen_flows is None else desired.scope(chosen_flows)

    # --- the facts

    def _current_facts(self, tx: Tx) -> tuple[Memory, set[str]]:
        """The facts as of now, and the datasets to decide about again."""
        memory = self._memory
        self._memory = None  # after an error nothing half-known is kept
        if memory is None or _is_old(memory):
            return self._swept(tx)
        memory.newest_mark, memory.marked = tx.states.marked(self._branch, memory.newest_mark)
        # The facts are those of an earlier branch of this name, or of another main.
        if memory.marked & change_marks.AGAIN:
            return self._swept(tx)
        return memory, self._refreshed(tx, memory) | turned(tx, memory)

    def _swept(self, tx: Tx) -> tuple[Memory, set[str]]:
        """Everything from nothing."""
        self._view.reset(tx)
        mark, _ = tx.states.marked(self._branch, 0)
        memory = Memory(mark, tx.blueprints.revisions(self._branch), swept_at=time.monotonic())
        memory.desired = self._compile(tx, memory)
        memory.fetched.paused = tx.blueprints.paused(self._branch)
        memory.fetched.fetch_forces(tx, self._branch)
        memory.fetched.holds = tx.states.holds(self._branch)
        memory.branches = tx.branches.all() if self.follows_branches else {}
        memory.kinds = salts.kinds(memory.desired)
        memory.periods = salts.periods(memory.kinds, tx.now()) if memory.kinds else {}
        self._fetch(tx, memory, None)
        return memory, set(memory.desired.order)

    def _fetch(self, tx: Tx, memory: Memory, datasets: Collection[str] | None) -> None:
        """Fetch the facts about these datasets, or about all; only those in the view."""
        desired = memory.desired
        names = _in_both(self._view.own, None if datasets is None else frozenset(datasets))
        nodes = [desired.nodes[d] for d in (desired.order if names is None else sorted(names))]
        memory.fetched.fetch(tx, self._branch, nodes, everything=names is None)

    def _refreshed(self, tx: Tx, memory: Memory) -> set[str]:
        """Fetch the datasets that were marked since; returns the datasets to decide about again."""
        marked = memory.marked
        if not marked:
            return set()
        stale = self._recompiled(tx, memory, {f for m in marked if (f := change_marks.flow_of(m))})
        desired = memory.desired
        if change_marks.PAUSES in marked:
            memory.fetched.paused, before = (
                tx.blueprints.paused(self._branch),
                memory.fetched.paused,
            )
            moved = memory.fetched.paused ^ before
            stale |= {d for d in desired.order if paused_by(d) & moved}
        if change_marks.BRANCHES in marked and self.follows_branches:
            memory.branches = tx.branches.all()
        if change_marks.HOLDS in marked:
            memory.fetched.holds = tx.states.holds(self._branch)
        if change_marks.SIZES in marked:
            memory.fetched.raised_sizes = None
        if change_marks.FORCED in marked:
            memory.fetched.fetch_forces(tx, self._branch)
        stale |= marked & desired.nodes.keys()
        self._fetch(tx, memory, stale)
        stale |= self._listed(tx, memory, stale) | self._progressed(tx, memory, stale)
        return stale | _named(memory, change_marks.demanding)

    def _listed(self, tx: Tx, memory: Memory, fetched: set[str]) -> set[str]:
        """Fetch the listings that were marked, but those that were fetched with their datasets;
        returns the datasets that read there."""
        marked = {id for m in memory.marked if (id := change_marks.listing_of(m))}
        if not marked:
            return set()
        nodes = memory.desired.nodes
        readers = {d for d, n in nodes.items() if n.is_source and n.listing in marked}
        left = [nodes[dataset] for dataset in self._viewed(readers) - fetched]
        memory.fetched.listings.update(tx.listings.get(n.listing for n in left if n.is_source))
        return readers

    def _progressed(self, tx: Tx, memory: Memory, fetched: set[str]) -> set[str]:
        """As `_listed`, of runs under way and of half-built roots."""
        progressing = _named(memory, change_marks.progressing)
        if left := self._viewed(progressing) - fetched:
            memory.fetched.fetch_progress(tx, self._branch, sorted(left))
        return progressing

    def _viewed(self, datasets: set[str]) -> set[str]:
        own = self._view.own
        return datasets if own is None else datasets & own

    def _recompiled(self, tx: Tx, memory: Memory, flows: set[str]) -> set[str]:
        """Datasets whose nodes are new or other than before."""
        if not flows:
            return set()
        for flow in flows:
            memory.revisions.pop(flow, None)
        memory.revisions.update(tx.blueprints.revisions(self._branch, flows))
        before, memory.desired = memory.desired, self._compile(tx, memory)
        memory.kinds = salts.kinds(memory.desired)
        for removed in before.nodes.keys() - memory.desired.nodes.keys():
            memory.decisions.pop(removed, None)
        return {
            d for d, node in memory.desired.nodes.items() if not _is_same(before.nodes.get(d), node)
        }

    def _compile(self, tx: Tx, memory: Memory) -> Desired:
        return redirected(
            tx, self._branch, compile_live(memory.revisions.values(), self._namespace)
        )

    # --- decisions

    def _decide_to_look(self, memory: Memory, facts: StoreSnapshot, stale: set[str]) -> None:
        """As `_decide`, in a planner that carries nothing out: its commits cannot lose a race, and
        those of another planner are marked. So planned commits stand until something is stale."""
        if stale:
            memory.keeps_commits = False
        if memory.keeps_commits:
            # Copied: what the caller stages later, as of an edit, is not kept
            facts.nodes.put_nodes(memory.staged)
        self._decide(memory, facts, stale)
        staged = facts.overlay.staged
        memory.keeps_commits = sum(map(len, staged.values())) <= STAGED_BYTES
        memory.staged = dict(staged) if memory.keeps_commits else {}

    def _decide(self, memory: Memory, facts: StoreSnapshot, stale: set[str]) -> None:
        """Decide again about stale datasets, about commits that may not have been carried out, and
        all downstream of these."""
        waiting = {
            d
            for d, decision in memory.decisions.items()
            if _is_carried_out_unseen(decision, keeps_commits=memory.keeps_commits)
        }
        changed = stale | waiting
        if not changed:
            return
        desired = memory.desired
        changed |= desired.graph.downstream(changed)
        scope = _in_both(facts.own, self._scope(desired, None))
        chosen = frozenset(changed if scope is None else changed & scope)
        decided = {d: decision for d, decision in memory.decisions.items() if d not in chosen}
        new_plan = plan(
            desired,
            facts,
            self._branch,
            chosen,
            now=facts.tx.now(),
            window=self._window,
            exact=self._exact,
            fewest=self._fewest,
            min_rows=self.min_rows,
            widest=self._widest,
            standing=decided,
        )
        memory.decisions.update((decision.dataset, decision) for decision in new_plan.decisions)


def _named(memory: Memory, dataset_of: Callable[[str], str | None]) -> set[str]:
    """The desired datasets that marks of one kind name."""
    names = {name for mark in memory.marked if (name := dataset_of(mark)) is not None}
    return names & memory.desired.nodes.keys()


def _is_old(memory: Memory) -> bool:
    return time.monotonic() - memory.swept_at > SWEEP_S


def turned(tx: Tx, memory: Memory) -> set[str]:
    """Datasets to recompute because a day or an hour is over: no transaction marks that."""
    if not memory.kinds:
        return set()
    now, before = salts.periods(memory.kinds, tx.now()), memory.periods
    memory.periods = now
    return salts.period_changed(memory.desired, before, now)


def _in_both(limit: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The datasets within both limits. None limits nothing."""
    if limit is None or other is None:
        return other if limit is None else limit
    return limit & other


def _is_carried_out_unseen(decision: Decision, *, keeps_commits: bool) -> bool:
    """True if a commit may have lost its compare-and-set race, or memos were noted: neither leaves
    a change mark."""
    if isinstance(decision.step, Commit):
        return not keeps_commits
    return isinstance(decision.step, RunChecks) and bool(decision.step.notes)


def _is_same(before: Node | None, node: Node) -> bool:
    """True if both mean the same: the meaning of a node follows from its text and from its
    upstream."""
    if before is None or type(before) is not type(node) or before.revision != node.revision:
        return False
    if before.is_copy or node.is_copy:
        return True
    return before.lineage == node.lineage
