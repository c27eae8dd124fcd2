"""Collection: delete unreferenced data, so that the database stays as large as the data that it
serves.

First expired pointers go (states and build traces), and the records beside them (tasks that are
done, events, answers, ended drivers). Then tree nodes that no pointer leads to, and packs of theirs
(`compaction_gc`).

Why no reachable node is lost. Let M be the moment at which a collection is counted
(`begin_collection`): the snapshot that it reads pointers from shows exactly the commits before M,
because writers of tree nodes that read the count (`Tx.collections`) have ended by then, and others
begin after it.
1. What a pointer of that snapshot leads to is marked, and stays.
2. A writer that commits after M planned either before M, and then finds another count and plans
   again, or after M. Then each node that it refers to was reachable after M, so it is marked or was
   put after M; or the writer puts it itself.
3. A node that is put after M has a time (`at`) that is later than M less the quarter of an hour for
   which it is not noted again. Only nodes that are `grace_s` older than M are deleted, and the
   DELETE itself checks that time. The rest of `grace_s` is for writers that never read the count
   and put all that they refer to themselves. Two collections at once do no harm: either deletes
   only unreachable nodes. A tree that is damaged ends the collection before anything of it is
   deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias, TypeVar

from controlplane.core import tree
from controlplane.core.blueprint.model import PythonTransform
from controlplane.core.compile.compiled_checks import record_key
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import CorruptNode
from controlplane.core.model.retention import HOLDERS, WEAK_POINTERS, Expired, Span
from controlplane.core.model.tasks import RAISED_FOR_S
from controlplane.core.plan import RECENT
from controlplane.operations.planning import plan_listings
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.projections import compaction_gc
from controlplane.operations.upkeep.pointers import branches
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx

GENERATIONS, DAYS = 30, 30.0  # where nothing is declared
GRACE_S = 3600.0
ANSWER_S = 2 * 86400.0
DRIVER_S = 86400.0  # for which a driver that ended is remembered
READS_S = 90 * 86400.0  # for which the audit has reads of data
DAY_S = 86400.0
NODES_A_TIME = 500  # of a transaction that deletes: some 10 MB
ROWS_A_TIME = 5_000
DATASETS_A_TIME, STATES_A_TIME = 100, 500  # of a transaction that drops states
NODES_A_COLLECTION = 1_000_000  # the rest is left for the next one
DIGESTS_A_PAGE = 20_000
EVERY_S = 600.0
CHANGES = 1_000

Forget: TypeAlias = Callable[[Collection[str]], int]
"""Delete what drivers installed for other sets of requirements than these (in order, with spaces
between); how many."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """For how long old generations are kept, by the longer of the two limits."""

    generations: int = GENERATIONS
    days: float = DAYS


@dataclass(frozen=True, slots=True)
class Collected:
    """How many rows of each kind went, and how many tree nodes are in use."""

    states: int = 0
    builds: int = 0
    tasks: int = 0
    events: int = 0
    answers: int = 0
    drivers: int = 0
    attempts: int = 0
    reads: int = 0  # of data, in the audit
    ranges: int = 0  # of forced recomputations
    nodes: int = 0
    nodes_in_use: int = 0
    superseded: int = 0  # packs
    folders: int = 0  # of the lake
    packages: int = 0  # folders of what transforms required


def collect(
    store: Store,
    namespace: str,
    *,
    lake: ObjectStore | None = None,
    packages: Forget | None = None,
    now: float | None = None,
    generations: int = GENERATIONS,
    days: float = DAYS,
    grace_s: float = GRACE_S,
) -> Collected:
    """Drop unreferenced data, in many short transactions. `now` is the database's by default.

    `generations` and `days` hold for datasets that declare nothing else. Raises CorruptNode where a
    tree that is in use is damaged: then no tree node was deleted. Stopped in between, it leaves
    nothing half done. Without a lake, files of dropped data stay.
    """
    with store.read(namespace) as tx:
        now = tx.now() if now is None else now
    default = RetentionLimits(generations, days)
    states = _drop_states(store, namespace, default, now)
    builds = _drop_builds(store, namespace, now - grace_s)
    rest = _drop_rest(store, namespace, now, now - days * DAY_S)
    swept = _sweep(store, namespace, now, grace_s)
    folders = compaction_gc.delete_files(store, namespace, lake, now) if lake else 0
    forgotten = _forget(store, namespace, packages) if packages else 0
    return Collected(states, builds, **rest, **swept, folders=folders, packages=forgotten)


def _drop_rest(store: Store, namespace: str, now: float, old: float) -> Counter[str]:
    """What piles up beside, piece by piece until nothing is left; how many rows of each kind
    went."""
    total, dropped = Counter[str](), Counter(any=1)
    while any(dropped.values()):
        with store.begin(namespace) as tx:
            plan_listings.collect(tx, now)
            dropped = Counter(
                tasks=tx.upkeep.drop_done(ROWS_A_TIME),
                events=tx.events.drop(old, ROWS_A_TIME),
                answers=tx.audit.drop_answers(now - ANSWER_S, ROWS_A_TIME),
                drivers=tx.drivers.drop(now - DRIVER_S, ROWS_A_TIME),
                attempts=tx.past_attempts.drop(old, ROWS_A_TIME),
                sizes=tx.queue.drop_raised_sizes(now - RAISED_FOR_S),
                reads=tx.audit.drop_reads(now - READS_S, ROWS_A_TIME),
                ranges=tx.blueprints.drop_ranges(),
            )
        total += dropped
    return total


# --- states and build traces ----------------------------------------------------------------------


def _drop_states(store: Store, namespace: str, default: RetentionLimits, now: float) -> int:
    """Drop the oldest states of each dataset until all expired ones are gone, and their records of
    checks. Returns the number of states."""
    total, count = 0, -1
    before: Mapping[tuple[str, str], Span] = {}
    while count:
        with store.read(namespace) as tx:
            spans = list(tx.upkeep.spans())
            expired = list(_expired(tx, namespace, spans, default, now))
        _drop_records(store, namespace, before, spans)
        named = {(e.branch, e.dataset) for e in expired}
        before = {of: span for span in spans if (of := (span.branch, span.dataset)) in named}
        count = 0
        for some in _pieces(expired, DATASETS_A_TIME):
            with store.begin(namespace) as tx:
                count += tx.upkeep.drop_states(some)
        total += count
    return total


def _drop_records(
    store: Store, namespace: str, before: Mapping[tuple[str, str], Span], spans: Sequence[Span]
) -> None:
    """The results of expectations in generations of which no state is left."""
    expired_keys = [
        record_key(span.branch, span.dataset, generation)
        for span in spans
        if (old := before.get((span.branch, span.dataset)))
        for generation in range(old.oldest_generation, span.oldest_generation)
    ]
    for some in _pieces(expired_keys, ROWS_A_TIME):
        with store.begin(namespace) as tx:
            tx.traces.forget_memos(some)


def _expired(
    tx: Tx, namespace: str, spans: Sequence[Span], default: RetentionLimits, now: float
) -> Iterator[Expired]:
    """The expired states of each dataset that has any."""
    declared: dict[str, Mapping[str, RetentionLimits] | None] = {}
    for span in spans:
        if span.branch not in declared:
            declared[span.branch] = _declared(tx, namespace, span.branch)
        retention_by_dataset = declared[span.branch]
        if retention_by_dataset is not None:
            yield from _old(span, retention_by_dataset.get(span.dataset, default), now)


def _declared(tx: Tx, namespace: str, branch: str) -> Mapping[str, RetentionLimits] | None:
    """What blueprints say; None if they cannot be read, and nothing may be dropped."""
    nodes = desired(tx, branch, namespace=namespace)
    if nodes.left_out:
        return None
    retentions = ((name, node.component.retention) for name, node in nodes.nodes.items())
    return {
        name: RetentionLimits(retention.generations, retention.days)
        for name, retention in retentions
    }


def _old(span: Span, limits: RetentionLimits, now: float) -> Iterator[Expired]:
    """The expired beginning of a span, if any: generations and times grow with the states'
    numbers."""
    before = now - limits.days * DAY_S
    below, last = span.generation - limits.generations, span.seq - RECENT
    if span.oldest_at < before and span.oldest_generation < below and span.oldest_seq <= last:
        yield Expired(
            span.branch, span.dataset, min(last, span.oldest_seq + STATES_A_TIME), below, before
        )


def _drop_builds(store: Store, namespace: str, before: float) -> int:
    """A build trace is put together with a state of its root, or with a partial root of an import,
    and goes once there is neither."""
    with store.read(namespace) as tx:
        old = list(tx.upkeep.builds(before))
        roots = (
            {pointer.root for pointer in tx.upkeep.pointers(["state", "building"])}
            if old
            else set()
        )
    total = 0
    for keys in _pieces([key for key, root in old if root not in roots], ROWS_A_TIME):
        with store.begin(namespace) as tx:
            total += tx.upkeep.drop_builds(keys, before)
    return total


# --- tree nodes -----------------------------------------------------------------------------------


def _sweep(store: Store, namespace: str, now: float, grace_s: float) -> dict[str, int]:
    with ExitStack() as snapshot:
        with store.begin(namespace) as tx:
            number = tx.upkeep.begin_collection()
            snapshot_tx = snapshot.enter_context(store.read(namespace))
            snapshot_tx.upkeep.collections()  # from here on it is what it shows
        try:
            used = _used(snapshot_tx)
        except CorruptNode:
            if _has_started_since(store, namespace, number):
                # Another collection was here: its nodes are gone, and it does what this one would
                return {}
            raise
        unused = list(
            islice(
                (digest for digest in _stored(snapshot_tx) if digest not in used),
                NODES_A_COLLECTION,
            )
        )
        packs = compaction_gc.unused(snapshot_tx, used)
    dropped = 0
    for digests in _pieces(unused, NODES_A_TIME):
        with store.begin(namespace) as tx:
            dropped += tx.upkeep.drop_nodes(digests, now - grace_s)
    given_up = compaction_gc.give_up(store, namespace, packs, now + grace_s)
    return {"nodes": dropped, "nodes_in_use": len(used), "superseded": given_up}


def _has_started_since(store: Store, namespace: str, number: int) -> bool:
    with store.read(namespace) as tx:
        return tx.upkeep.collections() > number


def _used(tx: Tx) -> set[bytes]:
    """The digests of all nodes that some pointer leads to. Reads inner nodes only."""
    used: set[bytes] = set()
    tree.spread(
        tx.nodes,
        (p.root for p in tx.upkeep.pointers(h for h in HOLDERS if h not in WEAK_POINTERS)),
        used,
    )
    for pointer in tx.upkeep.pointers(WEAK_POINTERS):
        used |= _still_there(tx, pointer.root, used)
    return used


def _still_there(tx: Tx, root: bytes, used: Set[bytes]) -> Set[bytes]:
    """The nodes of a tree that may be gone: a table may have followed a state that was dropped
    meanwhile."""
    try:
        return set(tree.reachable(tx.nodes, root, used))
    except CorruptNode:
        return frozenset()


def _stored(tx: Tx) -> Iterator[bytes]:
    last = b""
    while page := tx.upkeep.node_digests(last, DIGESTS_A_PAGE):
        yield from page
        last = page[-1]


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


# --- packages that transforms require -------------------------------------------------------------


def _forget(store: Store, namespace: str, packages: Forget) -> int:
    """What no live blueprint of any branch requires. Nothing, where one cannot be read."""
    with store.read(namespace) as tx:
        all_nodes = [desired(tx, branch, namespace=namespace) for branch in branches(tx)]
    if any(nodes.left_out for nodes in all_nodes):
        return 0
    return packages({line for nodes in all_nodes for line in _required(nodes)})


def _required(nodes: Desired) -> Iterator[str]:
    for node in nodes.nodes.values():
        if node.is_transform and isinstance(node.body, PythonTransform):
            yield " ".join(sorted(node.body.requirements))


# --- now and then ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Collecting:
    """Collection as a habit: at most every ten minutes, and only once enough has changed since the
    last one."""

    store: Store
    namespace: str
    lake: ObjectStore | None = None
    packages: Forget | None = None
    _looked: float = field(default=float("-inf"))

    def step(self, now_s: float) -> Collected | None:
        """To be called often; `now_s` is any clock that goes on. None: it was not time."""
        if now_s - self._looked < EVERY_S:
            return None
        self._looked = now_s
        with self.store.read(self.namespace) as tx:
            is_due = tx.upkeep.changes_since_collection() >= CHANGES
        return (
            collect(self.store, self.namespace, lake=self.lake, packages=self.packages)
            if is_due
            else None
        )
