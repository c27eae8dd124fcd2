"""PostgreSQL goes away, or the line to it is cut, at any moment: nothing is lost or half done, and
nobody restarts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import NamedTuple

import psycopg
import pytest

from controlplane.core import tree
from controlplane.core.errors import StaleState
from controlplane.operations.upkeep.collect import collect
from controlplane.ports.store import Store
from controlplane.store import open_store, upgrade
from tests.servers.postgres import Postgres, running
from tests.servers.wire import Cut, Wire
from tests.store.conftest import World
from tests.store.examples import SCHEMA, d, event, fragment, state, task, trace
from tests.store.planner import check_everything, entries

DATASET = "flights.daily"
GONE = r"closed|terminat|refused"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """Its own, so that nobody else misses it."""
    with running() as own:
        yield own


@pytest.fixture(scope="module")
def store(server: Postgres) -> Iterator[Store]:
    upgrade(server.url())
    opened = open_store(server.url())
    yield opened
    opened.close()


@pytest.fixture
def world(store: Store) -> World:
    return World(store, uuid.uuid4().hex)


def commit(world: World, seq: int = 1) -> None:
    """A pass that has something of everything: nodes, a state, memory, tasks, events."""
    with world.begin() as tx:
        root = tree.build(tx.nodes, entries(700, seq))
        tx.states.commit(state(seq, root=root, inputs={}, partitions=700), seq - 1)
        tx.traces.put_build(d(seq), root, SCHEMA)
        tx.traces.put([trace(seq, seq)], [fragment(seq)])
        tx.queue.enqueue("main", DATASET, [task(seq)])
        tx.events.put([event("dataset.committed")])


def seen(world: World) -> list[object]:
    """What `commit` left, part by part."""
    with world.read() as tx:
        states = tx.states.newest("main")
        partitions = [e.key for s in states.values() for e in tree.scan(tx.nodes, s.root)]
        numbers = [d(n) for n in range(9)]
        remembered = [
            tx.traces.remembered(numbers, [])[0],
            tx.traces.hits(numbers),
            tx.traces.fragments(numbers),
        ]
        return [
            states,
            partitions,
            *remembered,
            tx.queue.demands("main", DATASET),
            tx.events.newer("main", 0),
        ]


# --- the server ends, and starts again ------------------------------------------------------------


def test_between_two_reads_of_one_snapshot(world: World, server: Postgres) -> None:
    commit(world)
    before = seen(world)

    def plan(during: Callable[[], object]) -> None:
        with world.read() as tx:
            (found,) = tx.states.newest("main").values()
            during()
            list(tree.scan(tx.nodes, found.root))

    with pytest.raises(OSError, match=GONE):
        plan(server.stop)
    server.start()
    with pytest.raises(OSError, match=GONE):
        plan(lambda: restart(server))  # a snapshot never goes on in another server
    plan(lambda: None)
    assert seen(world) == before


def restart(server: Postgres) -> None:
    server.stop()
    server.start()


def test_while_rows_are_streamed(world: World, server: Postgres) -> None:
    with world.begin() as tx:
        tx.traces.put([trace(n, n) for n in range(5_000)], [])

    def read(during: Callable[[], object]) -> int:
        with world.read() as tx:
            outputs = tx.traces.loose_outputs()
            next(outputs)
            during()
            return sum(1 for _ in outputs)

    with pytest.raises(OSError, match=GONE):
        read(server.stop)
    server.start()
    assert read(lambda: None) == 4_999


def test_before_a_commit(world: World, server: Postgres) -> None:
    commit(world)
    before = seen(world)

    def write() -> None:
        with world.begin() as tx:
            tx.states.commit(state(2), 1)
            server.stop()

    with pytest.raises(OSError, match=GONE):
        write()
    server.start()
    assert seen(world) == before
    commit(world, 2)
    assert seen(world) != before


def test_while_many_write(world: World, server: Postgres) -> None:
    """Each writer tries again until it is done; what was told as kept is kept, once."""
    start = server.start

    def write(number: int) -> int:
        faults = 0
        for seq in count(1):
            if seq > 30:
                return faults
            while True:
                try:
                    with world.begin() as tx:
                        tx.states.commit(state(seq, f"flights.d{number}"), seq - 1)
                    break
                except StaleState:
                    break  # it was kept after all, although its commit was not answered
                except OSError:
                    faults += 1
        return faults

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, number) for number in range(4)]
        for _ in range(2):
            server.stop()
            start()
        assert sum(w.result() for w in writers) > 0
    with world.read() as tx:
        assert {s.seq for s in tx.states.newest("main").values()} == {30}
        assert [len(tx.states.history("main", f"flights.d{n}", 99)) for n in range(4)] == [30] * 4


def test_a_server_that_ends_idle_transactions(server: Postgres) -> None:
    """As hosted ones do. Its word for that, where it is still heard, is none of those for lost
    connections."""
    url = server.create(f"t{uuid.uuid4().hex}")
    upgrade(url)
    impatient = open_store(f"{url}?options=-c%20idle_in_transaction_session_timeout%3D1000")

    def think() -> None:
        with impatient.begin() as tx:
            tx.events.put([event("thought")])
            tx.events.last()
            while is_there(server, "idle in transaction"):
                """Think on."""
            tx.events.put([event("of nothing")])

    with pytest.raises(OSError, match=r"closed|timeout"):
        think()
    with impatient.read() as tx:
        assert tx.events.newer("main", 0) == ()
    impatient.close()


def is_there(server: Postgres, activity: str) -> bool:
    """Whether some session is in this state."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE state = %s"
    with psycopg.connect(
        f"host=127.0.0.1 port={server.port} user=test dbname=postgres"
    ) as connection:
        row = connection.execute(asked, [activity]).fetchone()
    return bool(row and row[0])


# --- the line is cut at each message --------------------------------------------------------------


class Try(NamedTuple):
    """One namespace, seen over the line and from nearby, and whether the work in it failed."""

    distant: World
    near: World
    has_failed: bool


def _fails(work: Callable[[], object]) -> bool:
    """Only as the port says."""
    try:
        work()
    except OSError:
        return True
    return False


@dataclass(frozen=True)
class Far:
    """A store at the end of a line that can be cut, and the same database seen from nearby."""

    distant: Store
    nearby: Store
    wire: Wire

    def tries(
        self, cut: Cut, work: Callable[[World], object], prepare: Callable[[World], object]
    ) -> Iterator[Try]:
        """Do it in fresh namespaces, cut at the first message, at the second, ... until it does not
        come so far."""
        for message in count(1):
            namespace = uuid.uuid4().hex
            distant, near = World(self.distant, namespace), World(self.nearby, namespace)
            prepare(near)
            self.wire.cut_at(message, cut)
            has_failed = _fails(partial(work, distant))
            is_over = not self.wire.is_cut
            self.wire.cut_at(None)
            yield Try(distant, near, has_failed)
            if is_over:
                return


@pytest.fixture
def far(server: Postgres, store: Store) -> Iterator[Far]:
    wire = Wire(server.port)
    distant = open_store(server.url().replace(f":{server.port}/", f":{wire.port}/"))
    yield Far(distant, store, wire)
    distant.close()
    wire.close()


@pytest.mark.parametrize(("cut", "lost_answers"), [("unheard", False), ("unanswered", True)])
def test_a_commit_that_is_cut_at_any_message(far: Far, cut: Cut, lost_answers: bool) -> None:
    outcomes = set()
    for distant, near, has_failed in far.tries(cut, commit, lambda _: None):
        left = {bool(part) for part in seen(near)}
        assert len(left) == 1, "half of it was kept"
        outcomes.add((has_failed, *left))
        if not any(left):
            commit(distant)
        assert all(seen(near))
    assert outcomes == {(True, False), (False, True), *([(True, True)] if lost_answers else [])}


LATER = 1e11


def superseded(world: World) -> None:
    """Twelve generations."""
    with world.begin() as tx:
        for seq in range(1, 13):
            root = tree.build(tx.nodes, entries(20, seq))
            tx.states.commit(state(seq, root=root, inputs={}, partitions=20), seq - 1)


def collected(world: World) -> None:
    collect(world.store, world.namespace, now=LATER, generations=1)


@pytest.mark.parametrize("cut", ["unheard", "unanswered"])
def test_a_collection_that_is_cut_at_any_message(far: Far, cut: Cut) -> None:
    for distant, near, _ in far.tries(cut, collected, superseded):
        check_everything(near)
        collected(distant)
        with near.read() as tx:
            assert (
                len(tx.upkeep.node_digests(b"", 99))
                == len(tx.states.history("main", DATASET, 99))
                == 8
            )
