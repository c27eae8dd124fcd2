"""Queries that Spark answers in a process of its own behind TCP, as in a pod: two replicas of a
service share it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from controlplane.core.errors import (
    QueriesBusy,
    QueryCancelled,
    QueryCrashed,
    QueryLimit,
    QueryRefused,
)
from controlplane.services.queries import queries
from controlplane.services.queries.adapter.spark_pod_pool import SparkPodPool
from controlplane.services.queries.port import PodPlace
from controlplane.services.queries.queries import Queries, QueryRequest
from controlplane.services.queries.running_queries import Cancel
from tests.e2e.workspace import until
from tests.servers.ports import free_port
from tests.slices import in_turn
from tests.spark.query_world import SparkWorld
from tests.spark.test_queries import ENDLESS, LARGE, descendants, is_running
from tests.unit.diffs.world import rows
from tests.unit.queries.test_processes import Late, peak_mb
from tests.unit.queries.world import page_of

# Takes turns with `test_queries`: one of both asks Spark at each commit. Callers, turns and ends of
# a process are asked of unit/queries/test_query_pod.
pytestmark = in_turn(1, 2)

TOKEN = "of this pod"
SECRET = "of somebody else"
COMMAND = (sys.executable, "-P", "-m", "dataplane", "query")


class Pod:
    """`QueryPods` of one process."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        (folder / "token").write_text(TOKEN)
        told = {
            "HEADGATE_TOKEN_FILE": str(folder / "token"),
            "HEADGATE_LAKE": str(folder),
            "HEADGATE_MEMORY_BYTES": str(1 << 30),
            "HEADGATE_DISK_BYTES": str(4 << 30),
            "HEADGATE_IDLE_S": "600",
            "HEADGATE_PORT": str(port),
        }
        others = {"HEADGATE_TOKEN": SECRET, "HEADGATE_SECRET_SHOP_PASSWORD": SECRET}
        self.process = subprocess.Popen(COMMAND, env=os.environ | told | others)
        self.place = PodPlace("127.0.0.1", port, TOKEN)

    def look(self) -> PodPlace:
        return self.place

    @property
    def below(self) -> list[int]:
        """The process that answers, its JVM, and what Spark runs for a moment, such as `chmod`."""
        return descendants(self.process.pid)

    def close(self) -> None:
        """Of the pools: it goes on."""


class Replica(SparkWorld):
    """A service over the same lake and store."""

    def __init__(self, folder: Path, pod: Pod) -> None:
        super().__init__(folder)
        self.spark = SparkPodPool(str(folder), self.pool, pod)
        self.queries = Queries(self.pool, self.queries.results, spark=self.spark)
        self.pod = pod


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    folder = tmp_path_factory.mktemp("pod")
    pod = Pod(folder)
    world = Replica(folder, pod)
    try:
        world.commit({"": rows((1, "a"))})
        world.commit({"a": rows((1, "a"), (2, "b")), "b": rows((3, "b"))})
        yield world
    finally:
        world.spark.close()
        world.pool.close()
        world.store.close()
        pod.process.terminate()
        assert pod.process.wait() == 0


@contextmanager
def another(world: Replica) -> Iterator[SparkPodPool]:
    with closing(SparkPodPool(str(world.folder), world.pool, world.pod)) as pool:
        yield pool


def warm(world: Replica) -> list[int]:
    world.ask("SELECT uuid()")
    return world.pod.below


def environment(pid: int) -> bytes:
    """Nothing of one that has ended meanwhile: Spark starts and ends processes as it likes."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_rows_are_those_of_duckdb(world: Replica) -> None:
    sql = "SELECT v, count(*) AS n, max(k) AS most FROM shop.totals GROUP BY v ORDER BY v"
    found = world.ask(sql)
    assert found["rows"] == world.ask(sql, engine="duckdb")["rows"] == [["a", 1, 1], ["b", 2, 3]]
    assert found["generations"] == {"shop.totals": 2}
    assert world.rows("SELECT k FROM shop.totals@1 WHERE v = :v", {"v": "a"}) == [[1]]
    assert sorted(world.arrow("SELECT * FROM shop.totals").column("k").to_pylist()) == [1, 2, 3]


def test_results_are_read_where_they_lie(world: Replica) -> None:
    """The pod has another disk, and is asked for rows only."""
    before = asked(world)
    first = world.ask("SELECT id FROM range(25)", page_rows=10)
    assert [row[0] for row in first["rows"]] == list(range(10))
    second = page_of(world.ctx, world.queries, first["result"], 10, 10)
    assert [row[0] for row in second["rows"]] == list(range(10, 20))
    assert asked(world) == before + 1


def asked(world: Replica) -> int:
    """Questions that the process had."""
    with world.spark.session("ada", Cancel(), timeout_s=60) as session:
        return session._held().question_number


def test_what_is_refused_is_told_at_its_place(world: Replica) -> None:
    with pytest.raises(QueryRefused) as refused:
        world.ask("SELECT k FROM shop.totals@1 JOIN shop.totals USING (k) WHERE nothing > 1")
    (problem,) = refused.value.problems
    assert (problem.line, problem.column) == (1, 62)
    with pytest.raises(QueryRefused):
        world.ask("SELECT java_method('java.lang.System', 'getenv', 'HOME')")


def test_the_process_has_no_secrets(world: Replica) -> None:
    environments = list(filter(None, map(environment, warm(world))))
    assert environments
    for one in environments:
        assert SECRET.encode() not in one
        assert b"HEADGATE_TOKEN" not in one


def test_a_deadline_ends_the_query_and_the_process_goes_on(world: Replica) -> None:
    first = warm(world)
    with pytest.raises(QueryLimit, match=r"longer than"):
        world.ask(ENDLESS, timeout_s=1.0)
    assert world.rows("SELECT 2") == [[2]]
    assert world.pod.below[0] == first[0]


def test_a_cancelled_query_ends_and_the_process_goes_on(world: Replica) -> None:
    first, cancel = warm(world), Cancel()
    threading.Timer(0.5, cancel.cancel).start()
    with pytest.raises(QueryCancelled):
        queries.answer(
            world.ctx, world.queries, "main", QueryRequest(ENDLESS, engine="spark"), cancel=cancel
        )
    assert world.rows("SELECT 3") == [[3]]
    assert world.pod.below[0] == first[0]


def test_a_query_that_is_cancelled_before_it_is_asked(world: Replica) -> None:
    first = warm(world)
    with pytest.raises(QueryCancelled):
        queries.answer(
            world.ctx,
            world.queries,
            "main",
            QueryRequest(ENDLESS, engine="spark", timeout_s=9),
            cancel=Late(),
        )
    assert world.rows("SELECT 7") == [[7]]
    assert world.pod.below[0] == first[0]


def test_replicas_take_turns(world: Replica) -> None:
    first = warm(world)
    asked = QueryRequest(LARGE, limit=None, engine="spark")
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    with another(world) as pool:
        theirs = Queries(world.pool, world.queries.results, spark=pool)
        with pytest.raises(QueriesBusy, match="other replicas"):
            queries.answer(
                world.ctx,
                theirs,
                "main",
                QueryRequest("SELECT 41", engine="spark", timeout_s=0.1),
                cancel=Cancel(),
            )
        stream.pieces.close()
        found = queries.answer(
            world.ctx, theirs, "main", QueryRequest("SELECT 42", engine="spark"), cancel=Cancel()
        ).answer()
        assert found["rows"] == [[42]]
    assert world.rows("SELECT 43") == [[43]]
    assert world.pod.below[0] == first[0]


def test_a_service_that_ends_amid_an_answer_leaves_no_query(world: Replica) -> None:
    first = warm(world)
    with another(world) as pool:
        theirs = Queries(world.pool, world.queries.results, spark=pool)
        asked = QueryRequest(LARGE, limit=None, engine="spark")
        stream = queries.stream(world.ctx, theirs, "main", asked, cancel=Cancel())
        next(stream.pieces)
        (child,) = pool._busy
        child.transport._connection.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined]  # as the kernel does
        until(lambda: not any(map(is_running, first)), lambda: "its process and its JVM have ended")
        with suppress(QueryCrashed):
            list(stream.pieces)
    assert world.rows("SELECT 5") == [[5]]


def test_a_crash_costs_its_query_only(world: Replica) -> None:
    first = warm(world)
    stream = queries.stream(
        world.ctx,
        world.queries,
        "main",
        QueryRequest(LARGE, limit=None, engine="spark"),
        cancel=Cancel(),
    )
    os.kill(first[0], signal.SIGKILL)
    with pytest.raises(QueryCrashed, match="-9"):
        list(stream.pieces)
    until(lambda: not any(map(is_running, first)), lambda: "its JVM has ended, too")
    assert world.rows("SELECT 6") == [[6]]


def test_memory_does_not_grow_with_the_rows(world: Replica) -> None:
    """A million rows of 200 MB, which the pod's own process only passes on."""
    warm(world)
    before = peak_mb(world.pod.process.pid), peak_mb(os.getpid())
    asked = QueryRequest(LARGE, limit=None, engine="spark")
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    assert sum(map(len, stream.pieces)) > 200_000_000
    assert peak_mb(world.pod.process.pid) - before[0] < 20
    assert peak_mb(os.getpid()) - before[1] < 30
