"""Events, drivers, tokens."""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.model.events import NO_BRANCH, Event
from controlplane.core.rights import ROLES, Principal, TokenScope
from tests.store.conftest import World
from tests.store.examples import d, driver, event, read, token


def test_events_have_ids_and_times(world: World) -> None:
    with world.begin() as tx:
        tx.events.put([event("a"), event("b", 3)])
        now = tx.now()
    with world.begin() as tx:
        tx.events.put([event("a", 2)])
        assert [e.id for e in tx.events.newer("main", 0)] == [1, 2, 3]
    with world.read() as tx:
        found = tx.events.newer("main", 0)
        assert found[:2] == (
            replace(event("a"), id=1, at=now),
            replace(event("b", 3), id=2, at=now),
        )
        assert [e.id for e in tx.events.newer("main", 1)] == [2, 3]
        assert [e.id for e in tx.events.newer("main", 0, limit=2)] == [1, 2]
        assert tx.events.newer("main", 3) == ()
        assert tx.events.last() == 3


def test_what_was_told_of_an_attempts_begin(world: World) -> None:
    with world.begin() as tx:
        ids = ("a1", "a%", "a_", "a")
        bodies = [{"attempt": a, "driver": f"d{a}"} for a in ids]
        tx.events.put(
            [Event("task.claimed", "flights.daily", 1, body, branch="main") for body in bodies]
        )
        tx.events.put([Event("task.retried", "flights.daily", 1, {"attempt": "a2"}, branch="main")])
        (first, *_) = tx.events.newer("main", 0)
        assert tx.events.claim_of("a1") == first
    with world.read() as tx:
        assert tx.events.claim_of("a1") == first
        found = [tx.events.claim_of(attempt) for attempt in ("a", "a_", "a%", "a2", "d", "")]
        assert [e and e.body["driver"] for e in found] == ["da", "da_", "da%", None, None, None]


def test_a_claim_that_two_branches_were_told_of_is_found(world: World) -> None:
    body = {"attempt": "a1", "driver": "d1"}
    with world.begin() as tx:
        tx.events.put(
            [
                Event("task.claimed", "flights.daily", 1, body, branch=branch)
                for branch in ("dev", "main")
            ]
        )
        found = tx.events.claim_of("a1")
        assert found is not None
        assert found == tx.events.newer("main", 0)[-1]


def test_a_branch_reads_its_own_events_and_those_of_no_branch(world: World) -> None:
    with world.begin() as tx:
        tx.events.put(
            [event("a"), event("b", branch="dev"), event("c", branch=NO_BRANCH), event("d")]
        )
    with world.read() as tx:
        assert [(e.kind, e.branch) for e in tx.events.newer("main", 0)] == [
            ("a", "main"),
            ("c", ""),
            ("d", "main"),
        ]
        assert [(e.kind, e.branch) for e in tx.events.newer("dev", 0)] == [("b", "dev"), ("c", "")]
        assert [e.kind for e in tx.events.newer("other", 0)] == ["c"]
        assert [e.kind for e in tx.events.newer(None, 0)] == ["a", "b", "c", "d"]
        assert [e.kind for e in tx.events.newer("main", 1, limit=1)] == ["c"]
        assert tx.events.last() == 4


def test_a_branch_counts_its_own_events_and_those_of_no_branch(world: World) -> None:
    with world.begin() as tx:
        tx.events.put(
            [event("a", 1), event("a", 20, branch="dev"), event("a", 300, branch=NO_BRANCH)]
        )
    with world.read() as tx:
        assert tx.events.count("main", 0) == {"a": 301}
        assert tx.events.count("dev", 0) == {"a": 320}
        assert tx.events.count("dev", 2) == {"a": 300}


def test_counters_add_up(world: World) -> None:
    with world.begin() as tx:
        assert (tx.events.count("main", 0), tx.events.last()) == ({}, 0)
        tx.events.put(
            [event("tasks.executed", 40), event("tasks.executed", 2), event("tasks.adopted")]
        )
        assert tx.events.count("main", 0) == {"tasks.executed": 42, "tasks.adopted": 1}
        assert tx.events.count("main", 1) == {"tasks.executed": 2, "tasks.adopted": 1}
        assert tx.events.count("main", 3) == {}


def test_drivers_that_have_not_ended(world: World) -> None:
    with world.begin() as tx:
        tx.drivers.put(driver("b"))
        tx.drivers.put(driver("a", at=9.5))
        tx.drivers.put(driver("c"))
        tx.drivers.put(driver("c", ended=True, reason="exit 1"))
        tx.drivers.put(driver("b", seen=7.5))
        assert tx.drivers.running() == (driver("b", seen=7.5), driver("a", at=9.5))


def test_ends_that_somebody_may_want_to_know_of(world: World) -> None:
    with world.begin() as tx:
        for n, reason in enumerate(("", "ended as asked", "evicted", "preempted", "out of memory")):
            tx.drivers.put(driver(f"d{n}", seen=float(n), ended=True, reason=reason))
        tx.drivers.put(driver("waits", reason="waits for a node"))
        assert [d.reason for d in tx.drivers.ends(10)] == ["out of memory", "preempted", "evicted"]
        assert [d.reason for d in tx.drivers.ends(2)] == ["out of memory", "preempted"]


def test_tokens(world: World) -> None:
    with world.begin() as tx:
        tx.access.put_token(token("b"))
        tx.access.put_token(token("a", expires=None))
        tx.access.put_token(token("b", revoked=True))
        assert tx.access.tokens() == (token("a", expires=None), token("b", revoked=True))
        assert (tx.access.token_by_id("a"), tx.access.token_by_id("c")) == (
            token("a", expires=None),
            None,
        )
        assert tx.access.token(token("b").hash) == token("b", revoked=True)
        assert tx.access.token(d(1)) is None


def test_what_a_token_is_narrowed_to_and_its_last_use(world: World) -> None:
    narrow = token("a", within=TokenScope(("shop*", "é"), ("shop.o?",), ("pr-*",)), parent="p")
    with world.begin() as tx:
        tx.access.put_token(narrow)
        tx.access.touch_token("a", 12.5)
        tx.access.touch_token("nobody", 1.0)
    with world.read() as tx:
        assert tx.access.tokens() == (replace(narrow, used=12.5),)
        assert narrow.principal == Principal(ROLES["admin"], narrow.within)


def test_reads_come_newest_first_of_a_branch_and_a_time(world: World) -> None:
    first, second, third = (
        read(at=1.0),
        read("flights.b", "dev", at=2.0, bytes=2**40),
        read(at=3.0, how="s3", times=7),
    )
    with world.begin() as tx:
        tx.audit.put_reads([first, second])
        tx.audit.put_reads([])
        tx.audit.put_reads([third])
    with world.read() as tx:
        assert tx.audit.reads(None, 9) == (third, second, first)
        assert (tx.audit.reads("main", 9), tx.audit.reads("main", 1), tx.audit.reads("x", 9)) == (
            (third, first),
            (third,),
            (),
        )
        assert tx.audit.reads(None, 9, since=2.0, until=3.0) == (second,)
    with world.begin() as tx:
        assert (tx.audit.drop_reads(3.0, 1), tx.audit.reads(None, 9)) == (1, (third, second))
        assert (
            tx.audit.drop_reads(3.0, 9),
            tx.audit.drop_reads(3.0, 9),
            tx.audit.reads(None, 9),
        ) == (1, 0, (third,))
