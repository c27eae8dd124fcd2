"""What collecting asks of every store: pointers, spans, and dropping what is old but never what
somebody wants."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqlalchemy import create_engine, update

from controlplane.core.model.access import StoredAnswer
from controlplane.core.model.retention import Expired, Files, Pointer, Span, Stored
from controlplane.core.model.states import Consumed, PartialState
from controlplane.core.tree import EMPTY_ROOT
from controlplane.ports.store import Store
from controlplane.store.rules import NODE_FRESH_S
from controlplane.store.sql import tables
from controlplane.store.sql.base import PAGE
from tests.servers.postgres import Postgres
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    d,
    driver,
    event,
    fragment,
    listing,
    publication,
    state,
    stored_job,
    target,
    task,
    token,
    trace,
    unfinished,
)
from tests.stores import new_store

LATER = 1e11  # later than any time at which something is put here
MANY = 100


def test_everything_that_holds_a_tree_is_told(world: World) -> None:
    old, new = state(1, rows=5), state(2, partitions=7)
    new = replace(new, inputs={**new.inputs, "other": Consumed("x.y", d(40), d(0))})
    half = PartialState("dev", "flights.half", d(1), old.inputs, d(50), None, {})
    with world.begin() as tx:
        tx.states.commit(old, 0)
        tx.states.commit(new, 1)
        tx.states.put_building(half)
        tx.states.put_unfinished(unfinished("flights.raw"))
        tx.states.put_unfinished(unfinished("flights.daily"))
        tx.traces.put_build(d(60), d(61), SCHEMA)
        tx.listings.put(listing(1))
        tx.listings.put(listing(2, root=None))
        tx.projections.put_target(target("flights.out"))
        tx.projections.put_publication(publication(1))
        tx.queue.put_job(
            d(70), stored_job(shared={"a": d(71).hex(), "b": EMPTY_ROOT.hex()}, sql="SELECT 1")
        )
        tx.queue.put_job(d(72), stored_job(location="/x"))
        tx.queue.put_job(d(73), stored_job(shared={}, pairs={"a": d(74).hex()}))
    with world.read() as tx:
        found = set(tx.upkeep.pointers())
        assert set(tx.upkeep.pointers(["listing", "build"])) == {
            p for p in found if p.holder in ("listing", "build")
        }
    assert found == {
        Pointer("state", "flights.daily", d(101), "main", 1, 365, 5),
        Pointer("state", "flights.daily", d(102), "main", 2, 7, 2**40),
        Pointer("input", "flights.daily", d(2), "main"),
        Pointer("input", "flights.daily", d(40), "main"),
        Pointer("input", "flights.half", d(2), "dev"),
        Pointer("input", "flights.raw", d(2), "main"),
        Pointer("building", "flights.half", d(50), "dev"),
        Pointer("build", d(60).hex(), d(61)),
        Pointer("listing", d(1).hex(), d(9)),
        Pointer("target", "flights.out", d(2), "main"),
        Pointer("publication", "flights.daily", d(1), "main"),
        Pointer("task", d(70).hex(), d(71)),
        Pointer("task", d(73).hex(), d(74)),
        Pointer("task", d(70).hex(), EMPTY_ROOT),
    }


def test_what_does_not_fit_one_page_is_told_once(world: World) -> None:
    many = 2 * PAGE + 1
    with world.begin() as tx:
        tx.traces.put(
            [trace(n, n, n + many) for n in range(PAGE)],
            [fragment(n, attempt="a") for n in range(2)],
        )
        for n in range(30):
            tx.traces.put_build(d(n), d(n), SCHEMA)
    with world.read() as tx:
        loose = list(tx.traces.loose_outputs())
        assert len(loose) == len(set(loose)) == 2 * PAGE - 2
        assert sorted(key for key, _ in tx.upkeep.builds(LATER)) == sorted(d(n) for n in range(30))


def test_nodes_are_paged_and_dropped_by_age(world: World) -> None:
    with world.begin() as tx:
        tx.nodes.put_nodes({d(n): b"body %d" % n for n in range(5)})
        put = tx.now()
    everything = tuple(sorted(map(d, range(5))))
    with world.begin() as tx:
        assert (
            tx.upkeep.node_digests(b"", 3) + tx.upkeep.node_digests(everything[2], 3) == everything
        )
        assert tx.upkeep.drop_nodes([d(0), d(1), d(77)], put) == 0
        assert tx.upkeep.drop_nodes([d(0), d(1), d(77)], put + 0.001) == 2
        assert set(tx.nodes.get_nodes(everything)) == {d(2), d(3), d(4)}
        tx.nodes.put_nodes({d(2): b"other"})
        assert tx.nodes.get_nodes([d(2)]) == {d(2): b"body 2"}
        assert tx.upkeep.drop_nodes([], LATER) == 0


def test_spans_and_dropping_states(world: World) -> None:
    with world.begin() as tx:
        for n in range(1, 11):
            tx.states.commit(state(n, generation=(n + 1) // 2, at=1000.0 + n), n - 1)
        tx.states.commit(state(1, "flights.b", branch="dev", at=5.0), 0)
    with world.begin() as tx:
        spans = {
            Span("main", "flights.daily", 10, 5, 1, 1, 1001.0),
            Span("dev", "flights.b", 1, 1, 1, 1, 5.0),
        }
        assert set(tx.upkeep.spans()) == spans
        assert tx.upkeep.drop_states([]) == 0
        # By time
        assert tx.upkeep.drop_states([Expired("main", "flights.daily", 6, 5, 1004.0)]) == 3
        # By generation
        assert tx.upkeep.drop_states([Expired("main", "flights.daily", 6, 3, LATER)]) == 1
        # By number
        assert tx.upkeep.drop_states([Expired("main", "flights.daily", 6, 9, LATER)]) == 2
        every = [
            Expired("main", "flights.daily", 99, 99, LATER),
            Expired("dev", "flights.b", 99, 99, LATER),
        ]
        assert tx.upkeep.drop_states(every) == 3
        assert [s.seq for s in tx.states.history("main", "flights.daily", 99)] == [10]
        assert set(tx.states.newest("dev")) == {"flights.b", "flights.daily"}


def test_build_traces_are_dropped_unless_they_were_put_again(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put_build(d(1), d(2), SCHEMA)
        tx.traces.put_build(d(3), d(4), SCHEMA)
        put = tx.now()
        assert set(tx.upkeep.builds(LATER)) == {(d(1), d(2)), (d(3), d(4))}
        assert list(tx.upkeep.builds(put)) == []
        assert tx.upkeep.drop_builds([d(1), d(3)], put) == 0
        assert tx.upkeep.drop_builds([d(1), d(9)], LATER) == 1
        assert set(tx.traces.remembered([d(1), d(3)], [])[0]) == {d(3)}


def test_done_work_goes_once_nobody_wants_it(world: World) -> None:
    with world.begin() as tx:
        for job in (0, 1, 2):
            tx.queue.put_job(d(job), stored_job(n=job))
        tx.queue.enqueue("main", "flights.daily", [task(10), task(11), task(12, job=d(1))])
        tx.queue.claim("a1", "driver", ["transform"], max_tasks=2, lease_s=9)
        tx.queue.finish("a1", [d(10), d(11)])
        tx.queue.drop_demands("main", "flights.daily", [d(11), d(12)])
        assert tx.upkeep.drop_done(MANY) == 1  # job 2; the attempt may still speak of task 10
        tx.queue.end_attempt("a1")
        assert tx.upkeep.drop_done(MANY) == 1
        assert set(tx.queue.tasks([d(10), d(11), d(12)])) == {d(11), d(12)}
        tx.queue.drop_demands("main", "flights.daily")
        assert tx.queue.tasks([d(12)]) == {}
        assert tx.upkeep.drop_done(MANY) == 3
        assert tx.queue.jobs([d(0), d(1), d(2)]) == {}
        assert tx.upkeep.drop_done(MANY) == 0


def test_done_work_goes_in_pieces(world: World) -> None:
    with world.begin() as tx:
        tx.queue.enqueue("main", "flights.daily", [task(n) for n in range(5)])
        tx.queue.claim("a1", "driver", ["transform"], max_tasks=9, lease_s=9)
        tx.queue.finish("a1", [d(n) for n in range(5)])
        tx.queue.drop_demands("main", "flights.daily")
        tx.queue.end_attempt("a1")
        assert [tx.upkeep.drop_done(2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_claim_under_way_keeps_its_job(world: World) -> None:
    with world.begin() as tx:
        tx.queue.put_job(d(0), stored_job(n=0))
        tx.queue.enqueue("main", "flights.daily", [task(1)])
        tx.queue.claim("a1", "driver", ["transform"], max_tasks=1, lease_s=9)
        tx.queue.drop_demands("main", "flights.daily")
        assert tx.upkeep.drop_done(MANY) == 0
        assert set(tx.queue.jobs([d(0)])) == {d(0)}


def test_the_oldest_events_go(world: World) -> None:
    with world.begin() as tx:
        tx.events.put([event(str(n)) for n in range(5)])
        tx.events.last()
        assert tx.events.drop(tx.now(), MANY) == 0
        assert tx.events.drop(LATER, 2) == 2
        assert [e.kind for e in tx.events.newer("main", 0)] == ["2", "3", "4"]
        tx.events.put([event("5")])
        assert tx.events.last() == 6
        assert [tx.events.drop(LATER, 3), tx.events.drop(LATER, 3), tx.events.last()] == [3, 1, 6]


def test_old_answers_go(world: World) -> None:
    with world.begin() as tx:
        tx.audit.put_answer(StoredAnswer("k", d(1), 200, ""))
        tx.audit.put_answer(StoredAnswer("l", d(1), 200, ""))
        assert tx.audit.drop_answers(tx.now(), MANY) == 0
        assert [
            tx.audit.drop_answers(LATER, 1),
            tx.audit.drop_answers(LATER, 1),
            tx.audit.drop_answers(LATER, 1),
        ] == [
            1,
            1,
            0,
        ]
        assert tx.audit.answer("k") is None


def test_ended_drivers_go_with_their_tokens(world: World) -> None:
    ours: dict[str, Any] = {"scopes": ("driver",), "expires": None}
    with world.begin() as tx:
        tx.drivers.put(driver("ended", ended=True, seen=10.0))
        tx.drivers.put(driver("just ended", ended=True, seen=20.0))
        tx.drivers.put(driver("running", seen=10.0))
        for subject in ("ended", "just ended", "running", "a machine of theirs"):
            tx.access.put_token(token(f"of {subject}", subject=subject, **ours))
        tx.access.put_token(token("expired", **ours | {"expires": 14.0}))
        tx.access.put_token(token("valid", **ours | {"expires": 16.0}))
        tx.access.put_token(token("a person's", subject="ended", expires=14.0))
        assert tx.drivers.drop(15.0, MANY) == 3
        assert tx.drivers.drop(15.0, MANY) == 0
        left = {"of just ended", "of running", "of a machine of theirs", "valid", "a person's"}
        assert {t.id for t in tx.access.tokens()} == left
        assert [t.id for t in tx.drivers.running()] == ["running"]


def test_what_fragments_say(world: World) -> None:
    gone = fragment(2, status="deleted")
    with world.begin() as tx:
        tx.traces.put(
            [trace(1, 1, 3), trace(2, 2)], [fragment(1), gone, fragment(4, attempt="attempt-0")]
        )
    with world.read() as tx:
        assert tx.traces.stored([d(1), d(2), d(3)]) == {
            d(1): Stored("stored", fragment(1).content),
            d(2): Stored("deleted", gone.content),
        }
        assert list(tx.traces.files()) == [
            Files(d(4), "attempt-0", fragment(4).files),
            Files(d(1), "attempt-1", fragment(1).files),
        ]
        assert list(tx.traces.loose_outputs()) == [(d(1), d(3))]
        assert list(tx.upkeep.loose_heads()) == []


def test_condemned_fragments_are_not_used_and_may_come_back(world: World) -> None:
    with world.begin() as tx:
        tx.traces.put([trace(1, 1)], [fragment(1), fragment(2), fragment(3, status="deleted")])
        tx.traces.condemn([d(1), d(3), d(4)])
        assert tx.traces.hits([d(1)]) == {}
        assert {f.fragment for f in tx.traces.files()} == {d(2)}
        # Its files stay
        assert tx.traces.referenced_attempts(["attempt-1", "attempt-3"]) == {"attempt-1"}
    with world.begin() as tx:
        assert {id: s.status for id, s in tx.traces.stored([d(1), d(2), d(3)]).items()} == {
            d(1): "condemned",
            d(2): "stored",
            d(3): "deleted",
        }
        tx.traces.put([], [fragment(1, attempt="again")])
        assert tx.traces.fragments([d(1)]) == {d(1): fragment(1, attempt="again")}


def test_changes_are_counted_from_one_collection_to_the_next(world: World) -> None:
    with world.begin() as tx:
        assert (tx.upkeep.collections(), tx.upkeep.changes_since_collection()) == (0, 0)
        tx.states.commit(state(1), 0)
    with world.begin() as tx:
        assert tx.upkeep.changes_since_collection() > 0
        assert tx.upkeep.begin_collection() == 1
        assert tx.upkeep.changes_since_collection() == 0
    with world.read() as tx:
        assert (tx.upkeep.collections(), tx.upkeep.changes_since_collection()) == (1, 0)


def test_a_collection_begins_between_writers(world: World) -> None:
    """None begins while a writer goes by the number that it was told."""
    about, order = threading.Event(), list[str]()

    def collect() -> int:
        about.set()
        with world.begin() as tx:
            number = tx.upkeep.begin_collection()
            order.append("collection")
        return number

    with ThreadPoolExecutor(1) as pool:
        with world.begin() as tx:
            assert tx.upkeep.collections() == 0
            waiting = pool.submit(collect)
            about.wait()
            for n in range(1, 100):
                tx.states.commit(state(n), n - 1)
            assert tx.upkeep.collections() == 0
            order.append("writer")
        assert waiting.result() == 1
    assert order == ["writer", "collection"]


def test_the_snapshot_of_a_collection_shows_what_was_before_it(world: World) -> None:
    def commit(seq: int) -> int:
        with world.begin() as tx:
            number = tx.upkeep.collections()
            tx.states.commit(state(seq), seq - 1)
        return number

    assert commit(1) == 0
    with ThreadPoolExecutor(1) as pool, ExitStack() as snapshot:
        with world.begin() as tx:
            tx.upkeep.begin_collection()
            seen = snapshot.enter_context(world.read())
            assert seen.upkeep.collections() == 0
            late = pool.submit(commit, 2)
        assert late.result() == 1
        assert [p.number for p in seen.upkeep.pointers(["state"])] == [1]


def test_a_node_that_somebody_puts_again_stays(
    postgres: Postgres, stores: dict[str, Store]
) -> None:
    """The collection neither waits for the writer nor deletes under its hands."""
    world = World(stores["postgresql"], uuid.uuid4().hex)
    with world.begin() as tx:
        tx.nodes.put_nodes({d(1): b"wanted", d(2): b"unwanted"})
    long_ago(postgres, world.namespace)
    with world.begin() as writer:
        writer.nodes.put_nodes({d(1): b"wanted"})
        with world.begin() as tx:
            assert tx.upkeep.drop_nodes([d(1), d(2)], 1.0) == 1
    with world.begin() as tx:
        assert tx.upkeep.drop_nodes([d(1), d(2)], 1.0) == 0
        assert set(tx.nodes.get_nodes([d(1), d(2)])) == {d(1)}


def test_a_node_that_a_collection_deletes_is_put_again(
    postgres: Postgres, stores: dict[str, Store]
) -> None:
    world = World(stores["postgresql"], uuid.uuid4().hex)

    def put() -> None:
        with world.begin() as tx:
            tx.nodes.put_nodes({d(1): b"wanted"})

    put()
    long_ago(postgres, world.namespace)
    with ThreadPoolExecutor(1) as pool:
        with world.begin() as tx:
            assert tx.upkeep.drop_nodes([d(1)], 1.0) == 1
            again = pool.submit(put)
            tx.events.put([event("slow")])
        again.result()
    with world.read() as tx:
        assert tx.nodes.get_nodes([d(1)]) == {d(1): b"wanted"}


def long_ago(postgres: Postgres, namespace: str) -> None:
    """All nodes were put in 1970."""
    engine = create_engine(postgres.url())
    with engine.begin() as connection:
        connection.execute(
            update(tables.nodes).where(tables.nodes.c.namespace == namespace).values(at=0.0)
        )
    engine.dispose()


def test_that_a_node_is_put_again_is_noted_after_a_while() -> None:
    clock = [1000.0]
    store = new_store(lambda: clock[0])
    for at, nodes in (
        (1000.0, (1, 2)),
        (1000.0 + NODE_FRESH_S, (1,)),
        (1001.0 + NODE_FRESH_S, (2,)),
    ):
        clock[0] = at
        with store.begin() as tx:
            tx.nodes.put_nodes({d(n): b"x" for n in nodes})
    with store.begin() as tx:
        assert tx.upkeep.drop_nodes([d(1), d(2)], 1000.5) == 1
        assert set(tx.nodes.get_nodes([d(1), d(2)])) == {d(2)}
    store.close()
