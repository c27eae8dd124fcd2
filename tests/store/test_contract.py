"""What holds for every transaction of every store: all or nothing, snapshots, namespaces, threads,
restarts."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from io import UnsupportedOperation
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from controlplane.core.errors import StaleRevision, StaleState
from controlplane.ports.store import Store, Tx
from controlplane.store import open_store, upgrade
from tests.servers.postgres import Postgres
from tests.store.conftest import World
from tests.store.examples import (
    ODD_KEYS,
    change,
    d,
    event,
    fragment,
    listing,
    revision,
    source_partition,
    state,
    task,
    token,
    trace,
)


def fill(tx: Tx) -> None:
    """One of everything that others could see."""
    tx.blueprints.put(revision(), 0)
    tx.blueprints.set_paused("main", "flights", True)
    tx.blueprints.force("main", ["flights.daily"])
    tx.audit.put_change(change("apply"))
    tx.nodes.put_nodes({d(1): b"node"})
    tx.listings.put(listing())
    tx.listings.put_partitions(d(1), [source_partition("k")], [])
    tx.states.commit(state(1), 0)
    tx.traces.put([trace(1, 1)], [fragment(1)])
    tx.traces.put_memo(d(1), {"schema": 1})
    tx.queue.enqueue("main", "flights.daily", [task(1), task(2)])
    tx.queue.claim("a1", "driver", ["transform"], max_tasks=1, lease_s=9)
    tx.events.put([event("started")])
    tx.access.put_token(token("t"))


def seen(tx: Tx) -> list[object]:
    return [
        tx.blueprints.revisions("main"),
        tx.blueprints.paused("main"),
        tx.blueprints.forces("main"),
        tx.audit.changes("main"),
        tx.nodes.get_nodes([d(1)]),
        tx.listings.get([d(1)]),
        tx.listings.partitions(d(1), ["k"]),
        tx.states.newest("main"),
        tx.traces.hits([d(1)]),
        tx.traces.fragments([d(1)]),
        tx.traces.memos([d(1)]),
        tx.queue.tasks([d(1), d(2)]),
        tx.queue.demands("main", "flights.daily"),
        tx.queue.attempts(),
        tx.events.newer("main", 0),
        tx.events.count("main", 0),
        tx.access.tokens(),
    ]


def test_all_is_kept(world: World) -> None:
    with world.begin() as tx:
        fill(tx)
        before = seen(tx)
    with world.read() as tx:
        assert all(seen(tx))
        assert seen(tx) == before


class Mishap(Exception):
    pass


def test_nothing_is_kept_of_what_failed(world: World) -> None:
    def fail() -> None:
        with world.begin() as tx:
            fill(tx)
            raise Mishap

    with pytest.raises(Mishap):
        fail()
    with world.read() as tx:
        assert not any(seen(tx))
        assert (
            tx.blueprints.last_number("main", "flights"),
            tx.traces.last(),
            tx.events.last(),
        ) == (0, 0, 0)


def test_what_was_there_survives_a_failure(world: World) -> None:
    with world.begin() as tx:
        fill(tx)
        before = seen(tx)

    def fail() -> None:
        with world.begin() as tx:
            tx.blueprints.delete_dataflow("main", "flights")
            tx.queue.finish("a1", [d(1)])
            tx.queue.end_attempt("a1")
            raise Mishap

    with pytest.raises(Mishap):
        fail()
    with world.read() as tx:
        assert seen(tx) == before


def test_namespaces_never_meet(store: Store) -> None:
    here, there = World(store, f"ns-é-{uuid.uuid4()}"), World(store, uuid.uuid4().hex)
    with here.begin() as tx:
        fill(tx)
    with there.read() as tx:
        assert not any(seen(tx))
    with there.begin() as tx:
        fill(tx)
        tx.queue.drop_demands("main", "flights.daily")
        tx.blueprints.delete_dataflow("main", "flights")
        tx.queue.retry("main", ["flights.daily"])
        tx.traces.forget_memos([d(1)])
        tx.queue.end_attempt("a1")
    with here.read() as tx:
        assert all(seen(tx))
        (attempt,) = tx.queue.attempts().values()
        assert attempt.prefix == f"{here.namespace}/flights/daily/_frags/a1/a1"


def test_a_reader_keeps_its_snapshot(world: World) -> None:
    with world.read() as reader:
        assert reader.states.newest("main") == {}
        with world.begin() as tx:
            tx.states.commit(state(1), 0)
            tx.events.put([event("a")])
        assert reader.states.newest("main") == {}
        assert reader.events.last() == 0
    with world.read() as tx:
        assert tx.events.last() == 1


def test_a_reader_cannot_write(world: World) -> None:
    def write() -> None:
        with world.read() as tx:
            tx.blueprints.set_paused("main", "flights", True)

    with pytest.raises((OSError, DBAPIError, UnsupportedOperation)):
        write()
    with world.begin() as tx:
        assert tx.blueprints.paused("main") == frozenset()
        tx.blueprints.set_paused("main", "flights", True)


@pytest.mark.parametrize("key", ODD_KEYS, ids=range(len(ODD_KEYS)))
def test_any_text_is_a_key(world: World, key: str) -> None:
    with world.begin() as tx:
        tx.listings.put_partitions(d(1), [source_partition(key)], [])
        tx.queue.enqueue("main", key, [task(1, partition=key, spec={key: key})])
        tx.traces.put([trace(1)], [])
    with world.read() as tx:
        assert tx.listings.partitions(d(1), [key, "other"]) == {key: source_partition(key)}
        assert tx.queue.demands("main", key) == {d(1): task(1, partition=key, spec={key: key})}
        assert tx.queue.demanding(d(1)) == (("main", key),)


def test_nothing_asked_nothing_found(world: World) -> None:
    with world.begin() as tx:
        fill(tx)
        assert (
            tx.blueprints.revisions("main", []),
            tx.states.newest("main", []),
            tx.projections.publications("main", []),
        ) == ({}, {}, {})
        assert (
            tx.queue.tasks([]),
            tx.traces.hits([]),
            tx.traces.fragments([]),
            tx.queue.attempts([]),
            tx.traces.memos([]),
        ) == ({}, {}, {}, {}, {})
        assert (
            tx.nodes.get_nodes([]),
            tx.listings.get([]),
            tx.listings.partitions(d(1), []),
            tx.queue.jobs([]),
        ) == (
            {},
            {},
            {},
            {},
        )
        assert (
            tx.queue.enqueue("main", "x", []),
            tx.queue.retry("main", []),
            tx.queue.finish("a1", []),
        ) == (
            0,
            0,
            frozenset(),
        )
        assert tx.traces.referenced_attempts([]) == frozenset()
        tx.nodes.put_nodes({})
        tx.traces.put([], [])
        tx.events.put([])


def test_now_is_a_time(world: World) -> None:
    with world.begin() as tx:
        first = tx.now()
    with world.read() as tx:
        assert 1.6e9 < first <= tx.now()


def test_an_injected_clock_is_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'db'}"
    upgrade(url)
    store = open_store(url, lambda: 42.5)
    with store.read() as tx:
        assert tx.now() == 42.5
    store.close()


def test_one_of_many_commits_wins(world: World) -> None:
    start = threading.Barrier(6)

    def commit(n: int) -> str:
        start.wait()
        try:
            with world.begin() as tx:
                tx.blueprints.put(revision(dataflow="f", actor=str(n)), 0)
                tx.states.commit(state(1, rows=n), 0)
        except (StaleRevision, StaleState):
            return "stale"
        return str(n)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(commit, range(6)))
    (winner,) = [a for a in answers if a != "stale"]
    with world.read() as tx:
        assert tx.states.newest("main")["flights.daily"].rows == int(winner)
        assert tx.blueprints.revisions("main")["f"].actor == winner


def test_many_writers_lose_nothing(world: World) -> None:
    def write(worker: int) -> None:
        for i in range(8):
            n = worker * 100 + i
            with world.begin() as tx:
                tx.nodes.put_nodes({d(k): b"same" for k in (n, 7, 5, 6)})
                tx.queue.enqueue("main", f"set.{worker}", [task(3), task(n), task(1), task(2)])
                tx.traces.put([trace(n, n)], [fragment(n)])
                tx.audit.put_change(change(str(n)))
                tx.events.put([event("done")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 5)))
    with world.read() as tx:
        assert tx.events.count("main", 0) == {"done": 32}
        assert [e.id for e in tx.events.newer("main", 0)] == list(range(1, 33))
        assert sorted(
            t.seq
            for t in tx.traces.hits(
                [d(w * 100 + i) for w in range(1, 5) for i in range(8)]
            ).values()
        ) == list(range(1, 33))
        assert len(tx.audit.changes("main")) == 32
        assert len(tx.queue.demands("main", "set.1")) == 11


def test_events_become_visible_in_order(world: World) -> None:
    """Who remembers the last id it saw misses none, however transactions overlap."""
    seen_ids: list[int] = []
    done = threading.Event()

    def follow() -> None:
        while not done.is_set() or seen_ids[-1:] != [24]:
            with world.read() as tx:
                seen_ids.extend(
                    e.id for e in tx.events.newer("main", seen_ids[-1] if seen_ids else 0)
                )

    def write(_: int) -> None:
        for _i in range(6):
            with world.begin() as tx:
                tx.events.put([event("a")])
                tx.nodes.put_nodes({uuid.uuid4().bytes * 2: b"x"})

    with ThreadPoolExecutor(5) as pool:
        follower = pool.submit(follow)
        list(pool.map(write, range(4)))
        done.set()
        follower.result()
    assert seen_ids == list(range(1, 25))


def test_statements_are_counted_and_batched(world: World) -> None:
    with world.begin() as tx:
        before = world.store.statements
        tx.queue.tasks([d(i) for i in range(2000)])
        tx.traces.hits([d(i) for i in range(2000)])
        tx.nodes.get_nodes([d(i) for i in range(2000)])
        assert world.store.statements - before == 3


def test_ten_thousand_keys_are_one_statement(world: World) -> None:
    keys = [d(i) for i in range(10_001)]
    with world.begin() as tx:
        tx.nodes.put_nodes(dict.fromkeys(keys[:50], b"n"))
        before = world.store.statements
        assert tx.nodes.get_nodes(keys[:10_000]) == dict.fromkeys(keys[:50], b"n")
        tx.nodes.get_nodes(keys)
        assert world.store.statements - before == 3


def test_a_restarted_server_is_found_again(postgres: Postgres, stores: dict[str, Store]) -> None:
    world = World(stores["postgresql"], uuid.uuid4().hex)
    with world.begin() as tx:
        fill(tx)
        before = seen(tx)
    postgres.stop()
    postgres.start()
    with world.read() as tx:
        assert seen(tx) == before
    with world.begin() as tx:
        tx.events.put([event("back")])


def test_a_server_that_is_away_is_told(postgres: Postgres, stores: dict[str, Store]) -> None:
    world = World(stores["postgresql"], uuid.uuid4().hex)
    postgres.stop()
    with pytest.raises(ConnectionError), world.read() as tx:
        tx.now()
    postgres.start()
    with world.read() as tx:
        assert tx.now() > 0


def test_a_server_that_dies_in_between_is_told(
    postgres: Postgres, stores: dict[str, Store]
) -> None:
    world = World(stores["postgresql"], uuid.uuid4().hex)

    def write() -> None:
        with world.begin() as tx:
            tx.blueprints.set_paused("main", "flights", True)
            postgres.stop()
            tx.blueprints.set_paused("main", "other", True)

    with pytest.raises(ConnectionError):
        write()
    postgres.start()
    with world.read() as tx:
        assert tx.blueprints.paused("main") == frozenset()
