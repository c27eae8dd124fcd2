"""What planning reads, from one transaction: desired nodes (compiled once per set of revisions) and
observed facts."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from controlplane.core.blueprint import Draft
from controlplane.core.compile import key_types, ownership, redirects
from controlplane.core.compile.compiler import Compilation, compile_revisions
from controlplane.core.compile.nodes import Desired, Node, is_paused
from controlplane.core.errors import NotFound, Problem
from controlplane.core.model import forces
from controlplane.core.model.branches import MAIN
from controlplane.core.model.forces import ForcedRange
from controlplane.core.model.holds import Hold
from controlplane.core.model.memos import Memos
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import Target
from controlplane.core.model.revisions import Revision
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Fragment, RaisedSize, Task, Trace
from controlplane.core.plan import EXACT, FEWEST, MIN_ROWS, RECENT, WIDEST, Decision, Plan, plan
from controlplane.core.tree import NodeCache, NodeStore
from controlplane.operations.planning import edited, pinned
from controlplane.operations.planning.plan_listings import NO_LISTINGS, PlanListings
from controlplane.ports.store import Tx
from dataplane.contract.schemas import Schema

T = TypeVar("T")

CACHED = 16  # sets of revisions that stay compiled
CACHE_BYTES = 128 << 20  # of tree nodes that a planner keeps
LONGEST_REASON = 1_000  # characters
_newest: dict[tuple[str, int], Desired] = {}  # the last compilations, by namespace and semantics
# Before 3.11.8 and 3.12.2, CPython's ast.parse is not safe in several threads
_compiling = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Revisions:
    """Revisions to compile together, in order. Two of them are equal if they compile to the
    same."""

    namespace: str
    semantics: int
    identities: tuple[object, ...]
    ordered: Sequence[Revision] = field(compare=False)
    parsed: Mapping[str, Draft] = field(compare=False)

    @staticmethod
    def of(
        revisions: Iterable[Revision],
        namespace: str,
        parsed: Mapping[str, Draft] = MappingProxyType({}),
    ) -> _Revisions:
        ordered = _ordered(revisions)
        return _Revisions(namespace, _semantics(), tuple(map(_identity, ordered)), ordered, parsed)


def desired(tx: Tx, branch: str, *, namespace: str = "default") -> Desired:
    """All live dataflows of a branch, compiled; but those that do not compile."""
    return redirected(tx, branch, compile_live(tx.blueprints.revisions(branch).values(), namespace))


def redirected(tx: Tx, branch: str, nodes: Desired) -> Desired:
    """With write components where the branch has them write to."""
    return nodes if branch == MAIN else redirects.applied(nodes, tx.branches.all().get(branch))


def compile_live(revisions: Iterable[Revision], namespace: str) -> Desired:
    """Compile the stored revisions. A dataflow that does not compile (any more: a release may
    refuse a text that an earlier one took) is left out with its readers, and stops no other one."""
    live = {r.dataflow: r for r in revisions}
    return _compile_live(_Revisions.of(live.values(), namespace))


@lru_cache(maxsize=CACHED)
def _compile_live(of: _Revisions) -> Desired:
    try:
        return attempt_cached(of.ordered, of.namespace).require()
    except Exception as e:  # noqa: BLE001  # a dataflow that crashes the compiler is left out, too
        return _without_broken({r.dataflow: r for r in of.ordered}, of.namespace, e)


def _without_broken(live: Mapping[str, Revision], namespace: str, error: Exception) -> Desired:
    sound, left_out = dict(live), dict[str, str]()
    while True:
        for flow, reason in _guilty(sound, namespace, error).items():
            left_out[flow] = reason
            del sound[flow]
        try:
            return replace(attempt_cached(sound.values(), namespace).require(), left_out=left_out)
        except Exception as e:  # noqa: BLE001  # ends: each round leaves one out
            error = e


def _guilty(live: Mapping[str, Revision], namespace: str, error: Exception) -> dict[str, str]:
    """Dataflows that made a compilation fail, with a reason; all of them where the faulty ones
    cannot be identified."""
    named = {f"{r.file}#{flow}": replace(r, file=f"{r.file}#{flow}") for flow, r in live.items()}
    try:
        places = {p.file: p for p in reversed(_problems(named.values(), namespace))}
    except Exception:  # noqa: BLE001  # each is tried alone, below
        places = {}
    reasons = {r.dataflow: places[file].summary for file, r in named.items() if file in places}
    if reasons:
        return reasons
    alone = {flow: reason for flow, r in live.items() if (reason := _crash(r, namespace))}
    return alone or dict.fromkeys(live, _in_words(error))


def _crash(revision: Revision, namespace: str) -> str:
    """The problem of one dataflow by itself, apart from datasets of others that it reads; empty if
    there is none."""
    try:
        problems = _problems([revision], namespace)
    except Exception as e:  # noqa: BLE001  # reported, and left out
        return _in_words(e)
    return next((p.summary for p in problems if p.code != "missing-input"), "")


def _problems(revisions: Iterable[Revision], namespace: str) -> Sequence[Problem]:
    with _compiling:
        return compile_revisions(
            _ordered(revisions), namespace=namespace, semantics=_semantics()
        ).problems


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:LONGEST_REASON]


class _Incomplete(Exception):
    """An attempt with problems. It is not remembered: whether columns are a problem depends on
    `parsed`."""

    def __init__(self, attempt: Compilation) -> None:
        super().__init__()
        self.attempt = attempt


def attempt_cached(
    revisions: Iterable[Revision],
    namespace: str,
    parsed: Mapping[str, Draft] = MappingProxyType({}),
) -> Compilation:
    """Compile as much as can be, or return the earlier result for equal revisions without a
    problem. `parsed`: drafts that were parsed already, by dataflow."""
    of = _Revisions.of(revisions, namespace, parsed)
    with _compiling:
        try:
            return _compile(of)
        except _Incomplete as incomplete:
            return incomplete.attempt


@lru_cache(maxsize=CACHED)
def _compile(of: _Revisions) -> Compilation:
    """Compile, and reuse the unchanged parts of the last compilation. Raises _Incomplete."""
    kind = of.namespace, of.semantics
    attempt = compile_revisions(
        of.ordered,
        namespace=of.namespace,
        semantics=of.semantics,
        before=_newest.get(kind),
        parsed=of.parsed,
    )
    if attempt.problems:
        raise _Incomplete(attempt)
    _newest[kind] = attempt.desired
    return attempt


def _ordered(revisions: Iterable[Revision]) -> list[Revision]:
    return sorted(revisions, key=lambda r: r.dataflow)


def _semantics() -> int:
    """An operator's number that re-keys on purpose."""
    return int(os.environ.get("HEADGATE_SEMANTICS", "1"))


def _identity(revision: Revision) -> tuple[object, ...]:
    files, uids = tuple(sorted(revision.files.items())), tuple(sorted(revision.uids.items()))
    return (
        revision.branch,
        revision.dataflow,
        revision.number,
        revision.file,
        revision.text,
        files,
        uids,
    )


class Overlay:
    """Tree nodes of a transaction, with writes kept aside until the caller commits them."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self.staged: dict[bytes, bytes] = {}

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        staged = {d: self.staged[d] for d in digests if d in self.staged}
        missing = [d for d in digests if d not in staged]
        return {**self._nodes.get_nodes(missing), **staged} if missing else staged

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.staged.update(nodes)


@dataclass(slots=True)
class Fetched:
    """What planning needs of every dataset in question, fetched once, in sets."""

    states: MutableMapping[str, State] = field(default_factory=dict)
    listings: MutableMapping[bytes, Listing] = field(default_factory=dict)
    targets: MutableMapping[str, Target] = field(default_factory=dict)
    buildings: MutableMapping[str, PartialState] = field(default_factory=dict)
    unfinished: MutableMapping[str, UnfinishedRun] = field(default_factory=dict)
    pins: MutableMapping[str, Pin] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    forces: Mapping[str, int] = field(default_factory=dict)
    forced_ranges: Mapping[int, ForcedRange] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    raised_sizes: Mapping[str, RaisedSize] | None = None  # read once a task is requested

    def fetch_forces(self, tx: Tx, branch: str) -> None:
        self.forces = tx.blueprints.forces(branch)
        self.forced_ranges = tx.blueprints.forced_ranges() if self.forces else {}

    def fetch(
        self, tx: Tx, branch: str, nodes: Sequence[Node], *, everything: bool = False
    ) -> None:
        """What the store says of these nodes now. `everything`: they are all that there is in the
        branch."""
        names = None if everything else [n.dataset for n in nodes]
        sources = [n for n in nodes if n.is_source]
        if everything or not all(n.is_copy for n in nodes):
            self._replace(self.states, names, tx.states.newest(branch, names))
            self.fetch_progress(tx, branch, names)
        if sources:
            self.listings.update(tx.listings.get(n.listing for n in sources))
            self._replace(
                self.pins, names, tx.states.pinned_schemas(branch, [n.dataset for n in sources])
            )
        if sinks := [n.dataset for n in nodes if n.is_copy]:
            self._replace(
                self.targets, names, tx.projections.targets(branch, None if everything else sinks)
            )

    def fetch_progress(self, tx: Tx, branch: str, names: Sequence[str] | None) -> None:
        """The half-built roots and the runs under way of these datasets; of all by default."""
        half_built, unfinished = tx.states.unfinished(branch, names)
        self._replace(self.buildings, names, half_built)
        self._replace(self.unfinished, names, unfinished)

    def drop(self, dataset: str) -> None:
        """Forget all facts about it."""
        for held in (self.states, self.targets, self.buildings, self.unfinished, self.pins):
            held.pop(dataset, None)

    @staticmethod
    def _replace(
        held: MutableMapping[str, T], names: Sequence[str] | None, fetched: Mapping[str, T]
    ) -> None:
        for name in list(held) if names is None else names:
            held.pop(name, None)
        held.update(fetched)


class StoreSnapshot:
    """The World of one snapshot."""

    def __init__(
        self,
        tx: Tx,
        branch: str,
        desired: Desired,
        fetched: Fetched,
        cache: NodeCache,
        looked: PlanListings = NO_LISTINGS,
    ) -> None:
        self.tx, self.branch, self._fetched, self.looked = tx, branch, fetched, looked
        self.compiled = desired
        self._decided: Desired | None = None
        self.overlay = Overlay(tx.nodes)
        self.nodes: NodeStore = cache.over(self.overlay)
        self.known_tasks: dict[bytes, Task] = {}
        # Of a branch beside main: what it decides about by itself
        self.own: frozenset[str] | None = None

    @property
    def desired(self) -> Desired:
        """The compiled state, with the modes that follow from the columns of the present states."""
        if self._decided is None:
            self._decided = key_types.all_decided(self.compiled, self._schema_of)
        return self._decided

    def _schema_of(self, dataset: str) -> Schema | None:
        """The schema of a dataset whose present state was made by the desired code."""
        state, node = self.state(dataset), self.compiled.nodes[dataset]
        if state is None or node.is_copy or state.lineage != node.lineage:
            return None
        return state.schema

    def owned(self, full_plan: Plan) -> Plan:
        """The decisions that this branch owns; datasets shared with main are planned by main."""
        if self.own is None:
            return full_plan
        return Plan(
            tuple(decision for decision in full_plan.decisions if decision.dataset in self.own)
        )

    @property
    def observed(self) -> Fetched:
        """Not to be changed."""
        return self._fetched

    @property
    def states(self) -> Mapping[str, State]:
        return self._fetched.states

    def state(self, dataset: str) -> State | None:
        return self._fetched.states.get(dataset)

    def history(self, dataset: str, limit: int = RECENT) -> tuple[State, ...]:
        return self.tx.states.history(self.branch, dataset, limit)

    def settled(self, states: Sequence[tuple[str, int]]) -> tuple[State, ...]:
        return self.tx.states.settled(self.branch, states) if states else ()

    def building(self, dataset: str) -> PartialState | None:
        return self._fetched.buildings.get(dataset)

    def unfinished(self, dataset: str) -> UnfinishedRun | None:
        return self._fetched.unfinished.get(dataset)

    def listing(self, id: bytes) -> Listing | None:
        return self._fetched.listings.get(id)

    def source_partitions(
        self, keys: Mapping[bytes, Sequence[str]]
    ) -> Mapping[bytes, Mapping[str, SourcePartition]]:
        return self.looked.partitions(self.tx, keys)

    def pinned(self, dataset: str) -> Pin | None:
        return self._fetched.pins.get(dataset)

    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]:
        return self.tx.traces.hits(keys) if keys else {}

    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]:
        return self.tx.traces.fragments(ids) if ids else {}

    def remembered(
        self, builds: Sequence[bytes], memos: Sequence[bytes]
    ) -> tuple[Mapping[bytes, tuple[bytes, Schema]], Memos]:
        return self.tx.traces.remembered(builds, memos)

    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]:
        read_tasks = self.tx.queue.tasks(keys) if keys else {}
        self.known_tasks.update(read_tasks)
        return read_tasks

    def target(self, component: str) -> Target | None:
        return self._fetched.targets.get(component)

    def forced(self, dataset: str) -> int:
        return self._fetched.forces.get(dataset, 0)

    def forced_at(self, dataset: str, partition: str) -> int:
        return forces.number_at(self._fetched.forced_ranges, self.forced(dataset), partition)

    def is_paused(self, dataset: str) -> bool:
        return is_paused(self.compiled.nodes[dataset], self._fetched.paused)

    def holds(self) -> Mapping[str, Hold]:
        return self._fetched.holds

    def raised_size(self, tx: Tx, dataset: str) -> RaisedSize | None:
        """The least size of its tasks, where one of them ran out of memory lately. `tx`: an open
        transaction, perhaps a later one."""
        if self._fetched.raised_sizes is None:
            self._fetched.raised_sizes = tx.queue.raised_sizes()
        raised = self._fetched.raised_sizes.get(dataset)
        return raised if raised is not None and raised.holds(tx.now()) else None


def plan_now(
    tx: Tx,
    branch: str,
    flows: Iterable[str] | None,
    *,
    namespace: str = "default",
    proposed: Desired | None = None,
    window: int = 0,
    exact: int = EXACT,
    fewest: int = FEWEST,
    min_rows: int = MIN_ROWS,
    widest: int = WIDEST,
    looked: PlanListings = NO_LISTINGS,
) -> tuple[Plan, StoreSnapshot]:
    """The plan of these dataflows and their upstream (all by default), and the facts that it rests
    on; in a branch beside main, of its own part of them. From nothing: a long-lived Planner does it
    in time proportional to the changes. `looked`: listings in place of the shared ones."""
    nodes = (
        redirected(tx, branch, proposed) if proposed else desired(tx, branch, namespace=namespace)
    )
    scope = None if flows is None else nodes.scope(flows)
    fetched = Fetched(paused=tx.blueprints.paused(branch), holds=tx.states.holds(branch))
    fetched.fetch_forces(tx, branch)
    fetched.fetch(
        tx, branch, [nodes.nodes[d] for d in scope or nodes.order], everything=scope is None
    )
    fetched.listings.update(looked.shown)
    if proposed is not None:
        _with_edit(tx, branch, fetched, desired(tx, branch, namespace=namespace), nodes)
    facts = StoreSnapshot(tx, branch, nodes, fetched, NodeCache(CACHE_BYTES), looked)
    frozen = _own_of_branch(tx, branch, facts, namespace) if branch != MAIN else None
    if frozen is not None and facts.own is not None:
        scope = facts.own if scope is None else facts.own & scope
    full_plan = plan(
        nodes,
        facts,
        branch,
        scope,
        now=tx.now(),
        window=window,
        exact=exact,
        fewest=fewest,
        min_rows=min_rows,
        widest=widest,
        standing=frozen,
    )
    return facts.owned(full_plan), facts


def _with_edit(tx: Tx, branch: str, fetched: Fetched, before: Desired, after: Desired) -> None:
    """Set the facts as they will be once an edit is stored."""
    fetched.holds = edited.holding_still(fetched.holds, before, after)
    names = edited.renamed(before, after)
    if not names:
        return
    fetched.forces = edited.renamed_forces(fetched.forces, names)
    fetched.paused = edited.renamed_pauses(fetched.paused, names)
    fetched.pins.update(
        {names[old]: pin for old, pin in tx.states.pinned_schemas(branch, list(names)).items()}
    )


def _own_of_branch(
    tx: Tx, branch: str, facts: StoreSnapshot, namespace: str
) -> Mapping[str, Decision] | None:
    """Find the datasets that a branch decides about by itself. For a pinned branch, returns the
    decisions about all others."""
    nodes, there = facts.compiled, tx.branches.all()
    main = desired(tx, MAIN, namespace=namespace)
    off = redirects.occupied(nodes, main, there.get(branch), there.values())
    frozen: dict[str, Decision] | None = None
    if pinned.is_pinned(tx, branch):
        main = compile_live(tx.blueprints.mains_revisions(branch).values(), namespace)
    fetched = facts.observed
    own = ownership.own(
        nodes, main, fetched.forces, tx.blueprints.mains_forces(branch), fetched.holds
    )
    if not pinned.is_pinned(tx, branch):
        fetched.holds = holding(own, fetched.holds, tx.states.holds(MAIN))
    else:
        off |= pinned.off(nodes, own)
        left = fetched.states.keys() - pinned.mains_states(fetched.states).keys() - own
        for dataset in left:
            fetched.drop(dataset)
        frozen = {
            decision.dataset: decision for decision in pinned.decisions(nodes, facts.states, own)
        }
        frozen |= {
            dataset: Decision(dataset, "paused", reason=reason) for dataset, reason in off.items()
        }
    facts.own = ownership.decided(nodes, own, off)
    return frozen


def holding(
    own: Collection[str], holds: Mapping[str, Hold], of_main: Mapping[str, Hold]
) -> dict[str, Hold]:
    """Those that hold in a branch with these datasets of its own: its own ones, and main's for
    shared datasets."""
    return {**{dataset: hold for dataset, hold in of_main.items() if dataset not in own}, **holds}


def targeted(nodes: Desired, target: str | None) -> list[str]:
    """The datasets that a target names: all, a dataflow's, or one. Raises NotFound."""
    if not target:
        return list(nodes.order)
    names = [d for d in nodes.order if d == target or d.partition(".")[0] == target]
    if not names:
        raise NotFound(f"there is no dataflow or dataset {target}")
    return names
