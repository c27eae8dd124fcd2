"""What collecting asks of every store: pointers, spans, and dropping what is old but never what somebody wants."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, update

from controlplane.core.model.access import Answer
from controlplane.core.model.retention import Expired, Files, Pointer, Span, Stored
from controlplane.core.model.states import Consumed, PartialState
from controlplane.core.tree import EMPTY_ROOT
from controlplane.ports.store import Store
from controlplane.store import open_store, upgrade
from controlplane.store.rules import NODE_FRESH_S
from controlplane.store.sql import tables
from controlplane.store.sql.base import PAGE
from tests.servers.postgres import Postgres
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    begun,
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
)

LATER = 1e11  # later than any time at which something is put here
MANY = 100


def test_everything_that_holds_a_tree_is_told(world: World) -> None:
    old, new = state(1, rows=5), state(2, partitions=7)
    new = replace(new, inputs={**new.inputs, "other": Consumed("x.y", d(40), d(0))})
    half = PartialState("dev", "flights.half", d(1), old.inputs, d(50), None, {})
    with world.begin() as tx:
        tx.commit_state(old, 0)
        tx.commit_state(new, 1)
        tx.put_building(half)
        tx.put_begun(begun("flights.raw"))
        tx.put_begun(begun("flights.daily"))
        tx.put_build_trace(d(60), d(61), SCHEMA)
        tx.put_listing(listing(1))
        tx.put_listing(listing(2, root=None))
        tx.put_target(target("flights.out"))
        tx.put_publication(publication(1))
        tx.put_job(d(70), stored_job(shared={"a": d(71).hex(), "b": EMPTY_ROOT.hex()}, sql="SELECT 1"))
        tx.put_job(d(72), stored_job(location="/x"))
        tx.put_job(d(73), stored_job(shared={}, pairs={"a": d(74).hex()}))
    with world.read() as tx:
        found = set(tx.pointers())
        assert set(tx.pointers(["listing", "build"])) == {p for p in found if p.holder in ("listing", "build")}
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
        tx.put_traces([trace(n, n, n + many) for n in range(PAGE)], [fragment(n, attempt="a") for n in range(2)])
        for n in range(30):
            tx.put_build_trace(d(n), d(n), SCHEMA)
    with world.read() as tx:
        loose = list(tx.loose_outputs())
        assert len(loose) == len(set(loose)) == 2 * PAGE - 2
        assert sorted(key for key, _ in tx.builds(LATER)) == sorted(d(n) for n in range(30))


def test_nodes_are_paged_and_dropped_by_age(world: World) -> None:
    with world.begin() as tx:
        tx.put_nodes({d(n): b"body %d" % n for n in range(5)})
        put = tx.now()
    everything = tuple(sorted(map(d, range(5))))
    with world.begin() as tx:
        assert tx.node_digests(b"", 3) + tx.node_digests(everything[2], 3) == everything
        assert tx.drop_nodes([d(0), d(1), d(77)], put) == 0
        assert tx.drop_nodes([d(0), d(1), d(77)], put + 0.001) == 2
        assert set(tx.get_nodes(everything)) == {d(2), d(3), d(4)}
        tx.put_nodes({d(2): b"other"})
        assert tx.get_nodes([d(2)]) == {d(2): b"body 2"}
        assert tx.drop_nodes([], LATER) == 0


def test_spans_and_dropping_states(world: World) -> None:
    with world.begin() as tx:
        for n in range(1, 11):
            tx.commit_state(state(n, generation=(n + 1) // 2, at=1000.0 + n), n - 1)
        tx.commit_state(state(1, "flights.b", branch="dev", at=5.0), 0)
    with world.begin() as tx:
        spans = {
            Span("main", "flights.daily", 10, 5, 1, 1, 1001.0),
            Span("dev", "flights.b", 1, 1, 1, 1, 5.0),
        }
        assert set(tx.spans()) == spans
        assert tx.drop_states([]) == 0
        assert tx.drop_states([Expired("main", "flights.daily", 6, 5, 1004.0)]) == 3  # by time
        assert tx.drop_states([Expired("main", "flights.daily", 6, 3, LATER)]) == 1  # by generation
        assert tx.drop_states([Expired("main", "flights.daily", 6, 9, LATER)]) == 2  # by number
        every = [Expired("main", "flights.daily", 99, 99, LATER), Expired("dev", "flights.b", 99, 99, LATER)]
        assert tx.drop_states(every) == 3
        assert [s.seq for s in tx.history("main", "flights.daily", 99)] == [10]
        assert set(tx.states("dev")) == {"flights.b", "flights.daily"}


def test_build_traces_are_dropped_unless_they_were_put_again(world: World) -> None:
    with world.begin() as tx:
        tx.put_build_trace(d(1), d(2), SCHEMA)
        tx.put_build_trace(d(3), d(4), SCHEMA)
        put = tx.now()
        assert set(tx.builds(LATER)) == {(d(1), d(2)), (d(3), d(4))}
        assert list(tx.builds(put)) == []
        assert tx.drop_builds([d(1), d(3)], put) == 0
        assert tx.drop_builds([d(1), d(9)], LATER) == 1
        assert set(tx.remembered([d(1), d(3)], [])[0]) == {d(3)}


def test_done_work_goes_once_nobody_wants_it(world: World) -> None:
    with world.begin() as tx:
        for job in (0, 1, 2):
            tx.put_job(d(job), stored_job(n=job))
        tx.enqueue("main", "flights.daily", [task(10), task(11), task(12, job=d(1))])
        tx.claim("a1", "driver", ["transform"], max_tasks=2, max_bytes=99, lease_s=9)
        tx.finish("a1", [d(10), d(11)])
        tx.drop_demands("main", "flights.daily", [d(11), d(12)])
        assert tx.drop_done(MANY) == 1  # job 2; the attempt may still speak of task 10
        tx.end_attempt("a1")
        assert tx.drop_done(MANY) == 1
        assert set(tx.tasks([d(10), d(11), d(12)])) == {d(11), d(12)}
        tx.drop_demands("main", "flights.daily")
        assert tx.tasks([d(12)]) == {}
        assert tx.drop_done(MANY) == 3
        assert tx.jobs([d(0), d(1), d(2)]) == {}
        assert tx.drop_done(MANY) == 0


def test_done_work_goes_in_pieces(world: World) -> None:
    with world.begin() as tx:
        tx.enqueue("main", "flights.daily", [task(n) for n in range(5)])
        tx.claim("a1", "driver", ["transform"], max_tasks=9, max_bytes=99, lease_s=9)
        tx.finish("a1", [d(n) for n in range(5)])
        tx.drop_demands("main", "flights.daily")
        tx.end_attempt("a1")
        assert [tx.drop_done(2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_claim_under_way_keeps_its_job(world: World) -> None:
    with world.begin() as tx:
        tx.put_job(d(0), stored_job(n=0))
        tx.enqueue("main", "flights.daily", [task(1)])
        tx.claim("a1", "driver", ["transform"], max_tasks=1, max_bytes=9, lease_s=9)
        tx.drop_demands("main", "flights.daily")
        assert tx.drop_done(MANY) == 0
        assert set(tx.jobs([d(0)])) == {d(0)}


def test_the_oldest_events_go(world: World) -> None:
    with world.begin() as tx:
        tx.put_events([event(str(n)) for n in range(5)])
        tx.last_event()
        assert tx.drop_events(tx.now(), MANY) == 0
        assert tx.drop_events(LATER, 2) == 2
        assert [e.kind for e in tx.events("main", 0)] == ["2", "3", "4"]
        tx.put_events([event("5")])
        assert tx.last_event() == 6
        assert [tx.drop_events(LATER, 3), tx.drop_events(LATER, 3), tx.last_event()] == [3, 1, 6]


def test_old_answers_go(world: World) -> None:
    with world.begin() as tx:
        tx.put_answer(Answer("k", d(1), 200, ""))
        tx.put_answer(Answer("l", d(1), 200, ""))
        assert tx.drop_answers(tx.now(), MANY) == 0
        assert [tx.drop_answers(LATER, 1), tx.drop_answers(LATER, 1), tx.drop_answers(LATER, 1)] == [1, 1, 0]
        assert tx.answer("k") is None


def test_ended_drivers_go_with_their_tokens(world: World) -> None:
    ours: dict[str, Any] = {"scopes": ("driver",), "expires": None}
    with world.begin() as tx:
        tx.put_driver(driver("ended", ended=True, seen=10.0))
        tx.put_driver(driver("just ended", ended=True, seen=20.0))
        tx.put_driver(driver("running", seen=10.0))
        for subject in ("ended", "just ended", "running", "a machine of theirs"):
            tx.put_token(token(f"of {subject}", subject=subject, **ours))
        tx.put_token(token("expired", **ours | {"expires": 14.0}))
        tx.put_token(token("valid", **ours | {"expires": 16.0}))
        tx.put_token(token("a person's", subject="ended", expires=14.0))
        assert tx.drop_drivers(15.0, MANY) == 3
        assert tx.drop_drivers(15.0, MANY) == 0
        left = {"of just ended", "of running", "of a machine of theirs", "valid", "a person's"}
        assert {t.id for t in tx.tokens()} == left
        assert [t.id for t in tx.drivers()] == ["running"]


def test_what_fragments_say(world: World) -> None:
    gone = fragment(2, status="deleted")
    with world.begin() as tx:
        tx.put_traces([trace(1, 1, 3), trace(2, 2)], [fragment(1), gone, fragment(4, attempt="attempt-0")])
    with world.read() as tx:
        assert tx.stored([d(1), d(2), d(3)]) == {
            d(1): Stored("stored", fragment(1).content),
            d(2): Stored("deleted", gone.content),
        }
        assert list(tx.files()) == [
            Files(d(4), "attempt-0", fragment(4).files),
            Files(d(1), "attempt-1", fragment(1).files),
        ]
        assert list(tx.loose_outputs()) == [(d(1), d(3))]
        assert list(tx.loose_heads()) == []


def test_condemned_fragments_are_not_used_and_may_come_back(world: World) -> None:
    with world.begin() as tx:
        tx.put_traces([trace(1, 1)], [fragment(1), fragment(2), fragment(3, status="deleted")])
        tx.condemn([d(1), d(3), d(4)])
        assert tx.traces([d(1)]) == {}
        assert {f.fragment for f in tx.files()} == {d(2)}
        assert tx.referenced_attempts(["attempt-1", "attempt-3"]) == {"attempt-1"}  # its files stay
    with world.begin() as tx:
        assert {id: s.status for id, s in tx.stored([d(1), d(2), d(3)]).items()} == {
            d(1): "condemned",
            d(2): "stored",
            d(3): "deleted",
        }
        tx.put_traces([], [fragment(1, attempt="again")])
        assert tx.fragments([d(1)]) == {d(1): fragment(1, attempt="again")}


def test_changes_are_counted_from_one_collection_to_the_next(world: World) -> None:
    with world.begin() as tx:
        assert (tx.collections(), tx.changes_since_collection()) == (0, 0)
        tx.commit_state(state(1), 0)
    with world.begin() as tx:
        assert tx.changes_since_collection() > 0
        assert tx.begin_collection() == 1
        assert tx.changes_since_collection() == 0
    with world.read() as tx:
        assert (tx.collections(), tx.changes_since_collection()) == (1, 0)


def test_a_collection_begins_between_writers(world: World) -> None:
    """None begins while a writer goes by the number that it was told."""
    about, order = threading.Event(), list[str]()

    def collect() -> int:
        about.set()
        with world.begin() as tx:
            number = tx.begin_collection()
            order.append("collection")
        return number

    with ThreadPoolExecutor(1) as pool:
        with world.begin() as tx:
            assert tx.collections() == 0
            waiting = pool.submit(collect)
            about.wait()
            for n in range(1, 100):
                tx.commit_state(state(n), n - 1)
            assert tx.collections() == 0
            order.append("writer")
        assert waiting.result() == 1
    assert order == ["writer", "collection"]


def test_the_snapshot_of_a_collection_shows_what_was_before_it(world: World) -> None:
    def commit(seq: int) -> int:
        with world.begin() as tx:
            number = tx.collections()
            tx.commit_state(state(seq), seq - 1)
        return number

    assert commit(1) == 0
    with ThreadPoolExecutor(1) as pool, ExitStack() as snapshot:
        with world.begin() as tx:
            tx.begin_collection()
            seen = snapshot.enter_context(world.read())
            assert seen.collections() == 0
            late = pool.submit(commit, 2)
        assert late.result() == 1
        assert [p.number for p in seen.pointers(["state"])] == [1]


def test_a_node_that_somebody_puts_again_stays(postgres: Postgres, stores: dict[str, Store]) -> None:
    """The collection neither waits for the writer nor deletes under its hands."""
    world = World(stores["postgresql"], uuid.uuid4().hex)
    with world.begin() as tx:
        tx.put_nodes({d(1): b"wanted", d(2): b"unwanted"})
    long_ago(postgres, world.namespace)
    with world.begin() as writer:
        writer.put_nodes({d(1): b"wanted"})
        with world.begin() as tx:
            assert tx.drop_nodes([d(1), d(2)], 1.0) == 1
    with world.begin() as tx:
        assert tx.drop_nodes([d(1), d(2)], 1.0) == 0
        assert set(tx.get_nodes([d(1), d(2)])) == {d(1)}


def test_a_node_that_a_collection_deletes_is_put_again(postgres: Postgres, stores: dict[str, Store]) -> None:
    world = World(stores["postgresql"], uuid.uuid4().hex)

    def put() -> None:
        with world.begin() as tx:
            tx.put_nodes({d(1): b"wanted"})

    put()
    long_ago(postgres, world.namespace)
    with ThreadPoolExecutor(1) as pool:
        with world.begin() as tx:
            assert tx.drop_nodes([d(1)], 1.0) == 1
            again = pool.submit(put)
            tx.put_events([event("slow")])
        again.result()
    with world.read() as tx:
        assert tx.get_nodes([d(1)]) == {d(1): b"wanted"}


def long_ago(postgres: Postgres, namespace: str) -> None:
    """All nodes were put in 1970."""
    engine = create_engine(postgres.url())
    with engine.begin() as connection:
        connection.execute(update(tables.nodes).where(tables.nodes.c.namespace == namespace).values(at=0.0))
    engine.dispose()


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/db"])
def test_that_a_node_is_put_again_is_noted_after_a_while(url: str, tmp_path: Path) -> None:
    clock = [1000.0]
    upgrade(url.format(tmp_path))
    store = open_store(url.format(tmp_path), lambda: clock[0])
    for at, nodes in ((1000.0, (1, 2)), (1000.0 + NODE_FRESH_S, (1,)), (1001.0 + NODE_FRESH_S, (2,))):
        clock[0] = at
        with store.begin() as tx:
            tx.put_nodes({d(n): b"x" for n in nodes})
    with store.begin() as tx:
        assert tx.drop_nodes([d(1), d(2)], 1000.5) == 1
        assert set(tx.get_nodes([d(1), d(2)])) == {d(2)}
    store.close()
