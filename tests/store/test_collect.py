"""Collection: what nobody refers to goes, what somebody may still need stays, whoever writes
meanwhile."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import make_url

from controlplane.core import tree
from controlplane.core.compile.compiled_checks import record_key
from controlplane.core.errors import CorruptNode
from controlplane.core.model.projections import Target
from controlplane.core.model.states import PartialState
from controlplane.operations.context import Context
from controlplane.operations.upkeep.collect import CHANGES, EVERY_S, Collected, Collecting, collect
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from controlplane.store import open_store, upgrade
from controlplane.store.sql.dialects import Postgres as PostgresDialect
from controlplane.store.sql.dialects import postgres_engines
from controlplane.store.sql.store import SqlStore
from tests.property.engine import Engine, MemoryLake
from tests.servers.postgres import Postgres
from tests.store.conftest import World
from tests.store.examples import SCHEMA, d, listing, publication, revision, state, stored_job, task
from tests.store.planner import BRANCH, Plan, change, check_everything, entries, entry
from tests.store.test_outage_loop import Following, Pool
from tests.stores import new_store

DAY = 86400.0
PARTITIONS = 2000  # a tree of some leaves below one root
DATASET = "flights.daily"


def later(world: World, days: float = 40) -> float:
    with world.read() as tx:
        return tx.now() + days * DAY


def built(world: World, count: int, generation: int = 0) -> bytes:
    with world.begin() as tx:
        return tree.build(tx.nodes, entries(count, generation))


def digests(world: World) -> set[bytes]:
    with world.read() as tx:
        return set(tx.upkeep.node_digests(b"", 10**6))


def nodes_of(world: World, root: bytes) -> set[bytes]:
    with world.read() as tx:
        return set(tree.reachable(tx.nodes, root))


def commits(world: World, count: int) -> None:
    for n in range(count):
        change(world, DATASET, n, PARTITIONS, count)


def test_superseded_nodes_go_and_kept_generations_stay(world: World) -> None:
    commits(world, 20)
    before = digests(world)
    found = collect(world.store, world.namespace, now=later(world), generations=10)
    with world.read() as tx:
        kept = tx.states.history(BRANCH, DATASET, 99)
    assert [s.generation for s in kept] == list(range(20, 9, -1))  # ten old ones, and the present
    assert (found.states, found.builds) == (9, 9)
    assert found.nodes == len(before) - len(digests(world)) > 0
    assert found.nodes_in_use == check_everything(world) == len(digests(world))


def test_what_was_found_in_rows_goes_with_their_generation(world: World) -> None:
    commits(world, 20)
    keys = {n: record_key(BRANCH, DATASET, n) for n in range(1, 21)}
    with world.begin() as tx:
        tx.traces.put_memos(
            {key: {"n": n} for n, key in keys.items()}
            | {record_key(BRANCH, "flights.other", 1): {}}
        )
    collect(world.store, world.namespace, now=later(world), generations=10)
    with world.read() as tx:
        left = tx.traces.memos([*keys.values(), record_key(BRANCH, "flights.other", 1)])
    assert left == {keys[n]: {"n": n} for n in range(10, 21)} | {
        record_key(BRANCH, "flights.other", 1): {}
    }


def test_nothing_is_left_to_collect_afterwards(world: World) -> None:
    commits(world, 12)
    first = collect(world.store, world.namespace, now=later(world), generations=2)
    again = collect(world.store, world.namespace, now=later(world), generations=2)
    assert first.nodes > 0
    assert again == Collected(nodes_in_use=first.nodes_in_use)


@pytest.mark.parametrize(
    ("generations", "days", "kept"),
    [(30, 0.0, 20), (1, 30.0, 20), (0, 0.0, 8), (10, 0.0, 11)],
)
def test_whichever_keeps_more(world: World, generations: int, days: float, kept: int) -> None:
    """Planning looks at the newest eight states, whatever is said."""
    commits(world, 20)
    collect(world.store, world.namespace, now=later(world, 20), generations=generations, days=days)
    with world.read() as tx:
        assert len(tx.states.history(BRANCH, DATASET, 99)) == kept
    check_everything(world)


FLOW = """\
dataflow: flights
components:
  daily:
    read: {{connector: files, path: /data/*.csv, format: csv, schema: "id INT"}}
    retention: {{generations: {generations}, days: {days}}}
"""


def test_a_component_declares_what_it_keeps(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(
            revision(text=FLOW.format(generations=12, days=0), uids={"daily": "u"}), 0
        )
    commits(world, 20)
    assert collect(world.store, world.namespace, now=later(world), generations=1).states == 20 - 13


def test_what_cannot_be_read_drops_nothing(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(text="dataflow: [", uids={}), 0)
    commits(world, 20)
    assert collect(world.store, world.namespace, now=later(world), generations=1).states == 0


def test_generations_without_a_change_count_for_nothing(world: World) -> None:
    """A state that only moves the cut is as old as its generation."""
    root = built(world, 3)
    with world.begin() as tx:
        for n in range(1, 21):
            tx.states.commit(
                replace(state(n), generation=(n + 9) // 10, root=root, inputs={}, at=n), n - 1
            )
    collect(world.store, world.namespace, now=later(world), generations=1)
    with world.read() as tx:
        assert len(tx.states.history(BRANCH, DATASET, 99)) == 20


def test_every_kind_of_pointer_keeps_its_tree(world: World) -> None:
    roots = [built(world, 600, generation) for generation in range(1, 8)]
    lost = built(world, 600, 9)
    with world.begin() as tx:
        half = PartialState(
            BRANCH, "flights.half", d(1), state(1, inputs={}).inputs, roots[0], None, {}
        )
        tx.states.put_building(
            replace(half, inputs={"x": replace(state(1).inputs["raw"], root=roots[1])})
        )
        tx.listings.put(listing(1, root=roots[2]))
        tx.projections.put_target(Target(BRANCH, "flights.out", d(1), roots[3], 1))
        tx.queue.put_job(d(5), stored_job(shared={"x": roots[4].hex()}))
        tx.queue.enqueue(BRANCH, DATASET, [task(1, job=d(5))])
        tx.states.commit(state(1, "flights.other", root=roots[5], inputs={}), 0)
        tx.traces.put_build(d(6), roots[5], SCHEMA)
        tx.projections.put_publication(replace(publication(1), root=roots[6]))
    gone = nodes_of(world, lost)
    assert collect(world.store, world.namespace, now=later(world)).nodes == len(gone)
    assert digests(world) == set().union(*(nodes_of(world, root) for root in roots))
    check_everything(world)


def test_a_build_trace_goes_before_its_nodes(world: World) -> None:
    root = built(world, 600)
    with world.begin() as tx:
        tx.traces.put_build(d(1), root, SCHEMA)
        now = tx.now()
    assert collect(world.store, world.namespace, now=now) == Collected(
        nodes_in_use=len(nodes_of(world, root))
    )
    found = collect(world.store, world.namespace, now=later(world))
    assert (found.builds, digests(world)) == (1, set())


def test_young_nodes_stay(world: World) -> None:
    """Somebody may be about to refer to them."""
    built(world, 600)
    before = digests(world)
    with world.read() as tx:
        now = tx.now()
    assert collect(world.store, world.namespace, now=now + 3000).nodes == 0
    assert digests(world) == before
    assert collect(world.store, world.namespace, now=now + 4000).nodes == len(before)


def test_a_damaged_tree_ends_the_collection(world: World) -> None:
    commits(world, 20)
    with world.begin() as tx:
        (newest,) = tx.states.newest(BRANCH).values()
        tx.upkeep.drop_nodes([newest.root], later(world))
    before = digests(world)
    with pytest.raises(CorruptNode, match=newest.root.hex()):
        collect(world.store, world.namespace, now=later(world), generations=1)
    assert digests(world) == before


def test_a_table_may_have_followed_what_is_gone(world: World) -> None:
    commits(world, 3)
    with world.begin() as tx:
        tx.projections.put_publication(replace(publication(1), root=d(77)))
    collect(world.store, world.namespace, now=later(world))
    assert digests(world)


def test_what_was_planned_before_a_collection_is_planned_again(world: World) -> None:
    """The plan adopts a build trace that the collection drops, with its nodes, before the plan is
    carried out."""
    commits(world, 20)
    back = Plan(world, DATASET, d(10_000), ())
    assert back.nodes == {}
    collect(world.store, world.namespace, now=later(world), generations=1)
    assert back.root not in digests(world)
    assert not back.commit()
    change(world, DATASET, 0, PARTITIONS, 20)
    check_everything(world)


def test_what_was_planned_after_a_collection_is_good(world: World) -> None:
    commits(world, 20)
    collect(world.store, world.namespace, now=later(world), generations=1)
    plan = Plan(world, DATASET, d(10_000), [("0000000", entry("0000000", 0))])
    assert plan.commit()
    check_everything(world)


# --- while others write ---------------------------------------------------------------------------


class Ticking:
    """A clock that goes on by an hour and a half each time that it is read: everything is old at
    once."""

    def __init__(self) -> None:
        self._times = itertools.count(1_000_000, 5400)

    def __call__(self) -> float:
        return float(next(self._times))


PAUSE_S = 0.02


class TickingPostgres(PostgresDialect):
    def __init__(self) -> None:
        super().__init__()
        self._clock = Ticking()

    def now(self, _connection: object) -> float:
        return self._clock()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def ticking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.create(f"t{uuid.uuid4().hex}")
        upgrade(url)
        store: Store = SqlStore(postgres_engines(make_url(url)), TickingPostgres())
    else:
        url = f"sqlite:///{tmp_path_factory.mktemp('ticking') / 'db'}"
        upgrade(url)
        store = open_store(url, Ticking())
    yield store
    store.close()


def test_nothing_is_lost_while_others_write(ticking: Store) -> None:
    """Writers come back again and again to roots that collections are just dropping."""
    world = World(ticking, uuid.uuid4().hex)
    done, has_dropped = threading.Event(), threading.Event()

    def write(number: int) -> None:
        """Until collections have met writers, however the database orders them."""
        for n in range(2000):
            # The wait lets a sweep have its turn, where a database would serve writers alone
            if n >= 40 and has_dropped.wait(PAUSE_S):
                break
            change(world, f"flights.d{number}", n, PARTITIONS, 13)

    def sweep() -> None:
        while not done.is_set():
            if collect(ticking, world.namespace, generations=1, days=0).nodes:
                has_dropped.set()

    with ThreadPoolExecutor(4) as pool:
        sweeping = pool.submit(sweep)
        try:
            list(pool.map(write, range(3)))
        finally:
            done.set()
        sweeping.result()
    assert has_dropped.is_set()
    check_everything(world)


class Watched:
    """A store that lets somebody else do something before each of its transactions, by their
    number."""

    def __init__(self, store: Store, at: Callable[[int, bool], None]) -> None:
        self._store, self._at = store, at
        self.count = 0
        self.statements = 0
        self._is_writing = False

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        self._next()
        with self._store.begin(namespace) as tx:
            self._is_writing = True
            yield tx
        self._is_writing = False

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Tx]:
        self._next()
        with self._store.read(namespace) as tx:
            yield tx

    def _next(self) -> None:
        self.count += 1
        self._at(self.count, not self._is_writing)

    def close(self) -> None:
        """Not its own."""


class Returning:
    """Somebody who plans to go back to the first generation at one moment, and commits it at
    another one."""

    def __init__(self, world: World, plan_at: int, commit_at: int) -> None:
        self.world, self._plan_at, self._commit_at = world, plan_at, commit_at
        self.plan: Plan | None = None
        self.is_over = False

    def __call__(self, moment: int, may_write: bool) -> None:
        if moment >= self._plan_at and self.plan is None:
            self.plan = self._go_back()
        if moment >= self._commit_at and self.plan is not None and may_write and not self.is_over:
            self.is_over = True
            if not self.plan.commit():
                assert self._go_back().commit()

    def _go_back(self) -> Plan:
        return Plan(self.world, DATASET, d(10_000), [(e.key, e) for e in entries(9)])


def go_on(world: World, generations: int) -> None:
    """Some generations, each with its build trace."""
    with world.begin() as tx:
        for n in range(generations):
            root = tree.build(tx.nodes, entries(9, n))
            tx.states.commit(state(n + 1, root=root, inputs={}, at=tx.now(), partitions=9), n)
            tx.traces.put_build(d(10_000 + n), root, SCHEMA)


MOMENTS = range(1, 16)


@pytest.mark.parametrize("plan_at", MOMENTS)
def test_at_every_moment_of_a_collection(ticking: Store, plan_at: int) -> None:
    """A plan may be made at any moment of it, and carried out at once, a little later, or after the
    end."""
    for commit_at in (plan_at, plan_at + 2, MOMENTS[-1]):
        world = World(ticking, uuid.uuid4().hex)
        go_on(world, 10)
        returning = Returning(world, plan_at, commit_at)
        watched = Watched(ticking, returning)
        collect(watched, world.namespace, generations=1, days=0)
        returning(MOMENTS[-1] + 2, True)
        assert returning.is_over
        assert watched.count < MOMENTS[-1]
        check_everything(world)


def test_two_collections_at_once_do_no_harm(ticking: Store) -> None:
    world = World(ticking, uuid.uuid4().hex)
    with ThreadPoolExecutor(3) as pool:
        for n in range(12):
            change(world, DATASET, n, PARTITIONS, 5)
            both = [
                pool.submit(collect, ticking, world.namespace, generations=1, days=0)
                for _ in range(2)
            ]
            change(world, "flights.other", n, PARTITIONS, 5)
            assert sum(one.result().nodes for one in both) >= 0
    check_everything(world)


# --- now and then ---------------------------------------------------------------------------------


def test_it_is_done_now_and_then(tmp_path: Path) -> None:
    store = new_store(Ticking())
    world, habit = World(store, "default"), Collecting(store, "default")
    assert habit.step(0.0) is None
    remember_changes(world, CHANGES)
    assert habit.step(EVERY_S - 1) is None
    found = habit.step(EVERY_S)
    assert found is not None
    assert habit.step(3 * EVERY_S) is None
    assert Collecting(store, "default").step(0.0) is None


def test_a_run_collects_at_its_end() -> None:
    store, lake = new_store(Ticking()), MemoryLake()
    pool = Pool(Engine(Context(store, lake=lake.uri), lake, {}, lambda _: None))
    loop = Reconciler(
        store, Fleet(Context(store), lake, pool), Following(), WakeCounter(), flows=frozenset()
    )
    world = World(store, "default")
    remember_changes(world, CHANGES)
    assert loop.settle(threading.Event()) == "up_to_date"
    with world.read() as tx:
        assert tx.upkeep.changes_since_collection() == 0
    loop.close()


def test_looking_whether_it_is_time_costs_one_statement(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'db'}"
    upgrade(url)
    store = open_store(url)
    habit = Collecting(store, "default")
    costs = []
    for now_s in (0.0, 1.0, EVERY_S):
        before = store.statements
        habit.step(now_s)
        costs.append(store.statements - before)
    store.close()
    assert costs == [1, 0, 1]


def remember_changes(world: World, count: int) -> None:
    with world.begin() as tx:
        for n in range(1, count + 1):
            tx.states.commit(state(n, root=tree.EMPTY_ROOT, inputs={}), n - 1)
