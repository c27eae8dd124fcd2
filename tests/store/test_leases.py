"""Leases: one holder at a time, by the database's clock, and no commit of one that was deposed."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from sqlalchemy import create_engine, make_url, text

from controlplane.core.model.leases import LOOP, Deposed
from controlplane.ports.store import Store
from controlplane.reconciler.leader import FencedStore
from controlplane.store import open_store
from controlplane.store.sql import dialects
from tests.servers.postgres import Postgres
from tests.store.conftest import World
from tests.store.examples import event, state

LONG_S = 3600.0
PAST_S = -1.0  # a lease whose time is over as soon as it is taken


def test_nobody_has_it_at_first(world: World) -> None:
    with world.read() as tx:
        assert tx.leases.get(LOOP) is None


def test_the_first_one_gets_it_and_the_others_see_whose_it_is(world: World) -> None:
    with world.begin() as tx:
        lease, now = tx.leases.take(LOOP, "a", LONG_S), tx.now()
    assert (lease.name, lease.holder, lease.epoch) == (LOOP, "a", 1)
    assert lease.until == lease.since + LONG_S
    assert lease.since <= now
    with world.begin() as tx:
        assert tx.leases.take(LOOP, "b", LONG_S) == lease
        assert tx.leases.take("another", "b", LONG_S).holder == "b"
    with world.read() as tx:
        assert tx.leases.get(LOOP) == lease


def test_one_whose_time_is_over_is_taken_under_a_new_epoch(world: World) -> None:
    with world.begin() as tx:
        tx.leases.take(LOOP, "a", PAST_S)
    with world.begin() as tx:
        assert (lease := tx.leases.take(LOOP, "b", LONG_S)).epoch == 2
        assert lease.holder == "b"
    with world.begin() as tx:
        assert not tx.leases.renew(LOOP, 1, LONG_S)
        tx.leases.end(LOOP, 1)
        assert tx.leases.get(LOOP) == lease


def test_one_that_was_taken_before_the_clock_went_back_is_not_held_for_hours(world: World) -> None:
    with world.begin() as tx:
        tx.leases.take(LOOP, "a", LONG_S)
        assert tx.leases.take(LOOP, "b", LONG_S / 2).holder == "a"
        assert tx.leases.take(LOOP, "b", LONG_S / 4).holder == "b"


def test_its_holder_goes_on_and_who_begins_anew_under_its_name_has_a_new_epoch(
    world: World,
) -> None:
    with world.begin() as tx:
        first = tx.leases.take(LOOP, "a", PAST_S)
        assert tx.leases.renew(LOOP, first.epoch, LONG_S), "nobody took it"
    with world.begin() as tx:
        assert tx.leases.take(LOOP, "b", LONG_S).holder == "a"
        assert tx.leases.take(LOOP, "a", LONG_S).epoch == first.epoch + 1


def test_one_that_is_handed_back_is_anybodys(world: World) -> None:
    with world.begin() as tx:
        tx.leases.end(LOOP, tx.leases.take(LOOP, "a", LONG_S).epoch)
    with world.begin() as tx:
        assert tx.leases.take(LOOP, "b", LONG_S).holder == "b"


def test_a_deposed_leader_commits_nothing(world: World) -> None:
    """Whatever its transaction would have changed."""
    with world.begin() as tx:
        epoch = tx.leases.take(LOOP, "a", PAST_S).epoch
    deposed = FencedStore(world.store, epoch, world.namespace)
    with deposed.begin(world.namespace) as tx:
        tx.events.put([event("kept")])
    with world.begin() as tx:
        tx.leases.take(LOOP, "b", LONG_S)
    with pytest.raises(Deposed):
        write(deposed, world.namespace)
    with deposed.read(world.namespace) as tx:
        assert tx.events.count("main", 0) == {"kept": 1}
        assert tx.states.newest("main") == {}
        assert tx.nodes.get_nodes([b"x" * 32]) == {}


def write(store: Store, namespace: str) -> None:
    with store.begin(namespace) as tx:
        tx.events.put([event("lost")])
        tx.states.commit(state(1), 0)
        tx.nodes.put_nodes({b"x" * 32: b"lost"})


def test_an_older_version_beside_a_leader(world: World) -> None:
    """It knows of no lease. What both want is decided as ever: by comparing and setting."""
    with world.begin() as tx:
        leader = FencedStore(
            world.store, tx.leases.take(LOOP, "new", LONG_S).epoch, world.namespace
        )
    with world.begin() as tx:
        tx.states.commit(state(1), 0)
    with leader.begin(world.namespace) as tx:
        tx.states.commit(state(2), 1)
    with world.read() as tx:
        assert tx.states.newest("main")[state(1).dataset].seq == 2


# --- on PostgreSQL, where transactions meet -------------------------------------------------------


def test_who_takes_it_waits_for_a_commit_under_way(
    stores: dict[str, Store], postgres: Postgres
) -> None:
    """So that a commit that looked at the lease in time is seen by who leads next."""
    world = World(stores["postgresql"], uuid.uuid4().hex)
    with world.begin() as tx:
        epoch = tx.leases.take(LOOP, "a", PAST_S).epoch
    seen: list[dict[str, int]] = []

    def take() -> None:
        with world.begin() as tx:
            tx.leases.take(LOOP, "b", LONG_S)
            seen.append(tx.events.count("main", 0))

    taking = threading.Thread(target=take)
    with world.begin() as tx:
        tx.events.put([event("late")])
        tx.leases.require(LOOP, epoch)
        taking.start()
        await_lock(postgres, taking)
    taking.join()
    assert seen == [{"late": 1}]


@pytest.mark.usefixtures("stores")
def test_who_is_paused_in_a_transaction_holds_nobody_up(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the transaction, which lets go of the lease, and nothing of it is there."""
    monkeypatch.setattr(
        dialects, "WRITER_LIMITS", {**dialects.WRITER_LIMITS, dialects.IDLE: "500ms"}
    )
    paused = World(open_store(postgres.url()), uuid.uuid4().hex)
    other = World(open_store(postgres.url()), paused.namespace)
    with paused.begin() as tx:
        epoch = tx.leases.take(LOOP, "a", PAST_S).epoch

    def pause() -> None:
        with paused.begin() as tx:
            tx.events.put([event("lost")])
            tx.leases.require(LOOP, epoch)
            with other.begin() as successor:
                assert successor.leases.take(LOOP, "b", LONG_S).holder == "b"

    with pytest.raises(OSError, match=r"closed|timeout"):
        pause()
    with other.read() as tx:
        assert tx.events.newer("main", 0) == ()
    for world in (paused, other):
        world.store.close()


def test_readers_may_think_longer_than_writers(postgres: Postgres) -> None:
    writer, reader = dialects.postgres_engines(make_url(postgres.url()))
    with writer.connect() as writing, reader.connect() as reading:
        asked = text(f"SHOW {dialects.IDLE}")
        assert (writing.execute(asked).scalar_one(), reading.execute(asked).scalar_one()) == (
            "20s",
            "10min",
        )
    for engine in (writer, reader):
        engine.dispose()


def test_the_clock_of_a_process_does_not_count(
    stores: dict[str, Store], postgres: Postgres
) -> None:
    world = World(stores["postgresql"], uuid.uuid4().hex)
    with world.begin() as tx:
        lease = tx.leases.take(LOOP, "a", 600.0)
    ahead = open_store(postgres.url(), clock=lambda: time.time() + 3600.0)
    with ahead.begin(world.namespace) as tx:
        assert tx.leases.take(LOOP, "b", 600.0) == lease
    ahead.close()


def await_lock(server: Postgres, taking: threading.Thread) -> None:
    """Until it waits for a row, or has done what it wanted."""
    engine = create_engine(server.url())
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%leases%'"
    )
    with engine.connect() as connection:
        while taking.is_alive() and not connection.execute(waiting).scalar_one():
            connection.rollback()
    engine.dispose()
