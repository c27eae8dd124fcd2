"""Events, drivers, tokens."""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.model.events import Event
from tests.store.conftest import World
from tests.store.examples import d, driver, event, token


def test_events_have_ids_and_times(world: World) -> None:
    with world.begin() as tx:
        tx.put_events([event("a"), event("b", 3)])
        now = tx.now()
    with world.begin() as tx:
        tx.put_events([event("a", 2)])
        assert [e.id for e in tx.events(0)] == [1, 2, 3]
    with world.read() as tx:
        found = tx.events(0)
        assert found[:2] == (replace(event("a"), id=1, at=now), replace(event("b", 3), id=2, at=now))
        assert [e.id for e in tx.events(1)] == [2, 3]
        assert [e.id for e in tx.events(0, limit=2)] == [1, 2]
        assert tx.events(3) == ()
        assert tx.last_event() == 3


def test_what_was_told_of_an_attempts_begin(world: World) -> None:
    with world.begin() as tx:
        ids = ("a1", "a%", "a_", "a")
        tx.put_events([Event("task.claimed", "flights.daily", 1, {"attempt": a, "driver": f"d{a}"}) for a in ids])
        tx.put_events([Event("task.retried", "flights.daily", 1, {"attempt": "a2"})])
        (first, *_) = tx.events(0)
        assert tx.claim_of("a1") == first
    with world.read() as tx:
        assert tx.claim_of("a1") == first
        found = [tx.claim_of(attempt) for attempt in ("a", "a_", "a%", "a2", "d", "")]
        assert [e and e.body["driver"] for e in found] == ["da", "da_", "da%", None, None, None]


def test_counters_add_up(world: World) -> None:
    with world.begin() as tx:
        assert (tx.count_events(0), tx.last_event()) == ({}, 0)
        tx.put_events([event("tasks.executed", 40), event("tasks.executed", 2), event("tasks.adopted")])
        assert tx.count_events(0) == {"tasks.executed": 42, "tasks.adopted": 1}
        assert tx.count_events(1) == {"tasks.executed": 2, "tasks.adopted": 1}
        assert tx.count_events(3) == {}


def test_drivers_that_have_not_ended(world: World) -> None:
    with world.begin() as tx:
        tx.put_driver(driver("b"))
        tx.put_driver(driver("a", at=9.5))
        tx.put_driver(driver("c"))
        tx.put_driver(driver("c", ended=True, reason="exit 1"))
        tx.put_driver(driver("b", seen=7.5))
        assert tx.drivers() == (driver("b", seen=7.5), driver("a", at=9.5))


def test_ends_that_somebody_may_want_to_know_of(world: World) -> None:
    with world.begin() as tx:
        for n, reason in enumerate(("", "ended as asked", "evicted", "preempted", "out of memory")):
            tx.put_driver(driver(f"d{n}", seen=float(n), ended=True, reason=reason))
        tx.put_driver(driver("waits", reason="waits for a node"))
        assert [d.reason for d in tx.ends(10)] == ["out of memory", "preempted", "evicted"]
        assert [d.reason for d in tx.ends(2)] == ["out of memory", "preempted"]


def test_tokens(world: World) -> None:
    with world.begin() as tx:
        tx.put_token(token("b"))
        tx.put_token(token("a", expires=None))
        tx.put_token(token("b", revoked=True))
        assert tx.tokens() == (token("a", expires=None), token("b", revoked=True))
        assert tx.token(token("b").hash) == token("b", revoked=True)
        assert tx.token(d(1)) is None
