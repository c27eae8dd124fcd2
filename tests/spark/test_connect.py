"""Spark Connect sessions: a real server, and a real client in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import EngineUnavailable, GenerationGone, NotFound, QueriesBusy
from controlplane.core.model.answers.spark_sessions import NewSparkSessionAnswer
from controlplane.services.sessions import sessions as spark_sessions
from controlplane.services.sessions.adapter.servers import IDLE_S, LocalServers
from controlplane.services.sessions.sessions import SparkSessions
from tests.e2e.workspace import until
from tests.store.examples import branch, state
from tests.unit.diffs.world import SCHEMA, Kept, rows

HOUR_S = 3_600.0
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

url, queries, is_stopped = json.loads(sys.argv[1])
spark = SparkSession.builder.remote(url).create()
found = [[list(row) for row in spark.sql(sql).collect()] for sql in queries]
twice = udf(lambda k: 2 * k, "long")
found.append([row[0] for row in spark.table("`shop.totals`").select(twice("k").alias("k")).orderBy("k").collect()])
if is_stopped:
    spark.stop()
json.dump(found, sys.stdout)
"""
NEWEST = "SELECT k, v FROM `shop.totals` ORDER BY k"


class World(Kept):
    """A dataset of two generations, and servers for it."""

    def __init__(self, folder: Path, idle_s: float = IDLE_S) -> None:
        super().__init__(folder)
        self.servers = LocalServers(str(folder), most=2, idle_s=idle_s)
        self.sessions = SparkSessions(self.servers)
        self.commit({"": rows((1, "a"))})
        self.commit({"a": rows((1, "a"), (2, "b")), "b": rows((3, "b"))})

    def open(self, *wanted: str, on: str = "main", ttl_s: float = HOUR_S) -> NewSparkSessionAnswer:
        return spark_sessions.begin(self.ctx, self.sessions, on, wanted, None, ttl_s, token="t")

    def end(self, id: str) -> None:
        spark_sessions.end(self.ctx, self.sessions, id)

    def pid(self, id: str) -> int:
        return self.servers._processes[id].popen.pid

    def scratch(self, id: str) -> Path:
        return Path(self.servers._processes[id].scratch)

    def ids(self) -> set[str]:
        return {entry["id"] for entry in spark_sessions.listing(self.ctx, self.sessions)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("sessions"))
    yield found
    found.servers.close()
    found.store.close()


@pytest.fixture(scope="module")
def opened(world: World) -> NewSparkSessionAnswer:
    return world.open("shop.*", "shop.totals@1")


def run(url: str, *queries: str, is_stopped: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLIENT, json.dumps([url, queries, is_stopped])]
    environ = {**os.environ, "GRPC_VERBOSITY": "NONE"}
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=300, check=False
    )


def read(url: str, *queries: str, is_stopped: bool = False) -> Any:
    done = run(url, *queries, is_stopped=is_stopped)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_client_finds_datasets_as_views(world: World, opened: NewSparkSessionAnswer) -> None:
    assert opened["views"] == [
        {"name": "shop.totals", "generation": 2},
        {"name": "shop.totals@1", "generation": 1},
    ]
    newest, first, doubled = read(opened["url"], NEWEST, "SELECT k FROM `shop.totals@1`")
    assert newest == [[1, "a"], [2, "b"], [3, "b"]]
    assert first == [[1]]
    assert doubled == [2, 4, 6]  # a Python function runs on the server


def test_it_shows_what_was_there_when_it_was_opened(
    world: World, opened: NewSparkSessionAnswer
) -> None:
    assert read(opened["url"], "SELECT count(*) FROM `shop.totals`")[0] == [[3]]
    world.commit({"a": rows((1, "a"))})
    assert read(opened["url"], "SELECT count(*) FROM `shop.totals`")[0] == [[3]]


def test_a_branch_shows_its_own_rows(world: World) -> None:
    with world.store.begin() as tx:
        tx.branches.create(branch("dev"))
        first, seq = (
            tx.states.history("main", "shop.totals", 10)[-1],
            tx.states.newest("dev")["shop.totals"].seq,
        )
        tx.states.commit(
            state(seq + 1, "shop.totals", branch="dev", root=first.root, schema=SCHEMA), seq
        )
    one = world.open(on="dev")
    assert read(one["url"], NEWEST)[0] == [[1, "a"]]
    world.end(one["id"])


def test_it_ends_when_its_client_no_longer_calls(tmp_path: Path) -> None:
    world = World(tmp_path, idle_s=3.0)
    id = world.open()["id"]
    until(lambda: not world.sessions.is_open(id), lambda: "the session is gone")
    world.servers.close()
    world.store.close()


def test_nobody_else_is_let_in(opened: NewSparkSessionAnswer) -> None:
    token = opened["url"].partition("token=")[2].partition(";")[0]
    refused = run(opened["url"].replace(token, "wrong"), NEWEST)
    assert refused.returncode != 0
    assert "Invalid authentication token" in refused.stderr


def test_its_secret_stands_in_no_command_line_and_no_list(
    world: World, opened: NewSparkSessionAnswer
) -> None:
    token = opened["url"].partition("token=")[2].partition(";")[0]
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert token not in lines
    assert token not in json.dumps(spark_sessions.listing(world.ctx, world.sessions))


def test_a_client_that_stops_its_session_ends_the_server(world: World) -> None:
    one = world.open()
    read(one["url"], is_stopped=True)
    until(lambda: one["id"] not in world.ids(), lambda: "the session is gone")


def test_it_ends_when_its_time_is_over_and_leaves_nothing(world: World) -> None:
    id = world.open(ttl_s=0.1)["id"]
    until(lambda: not world.sessions.is_open(id), lambda: "the session is gone")
    with pytest.raises(NotFound, match="no Spark session"):
        world.end(id)


def test_there_are_so_many_and_no_more_and_one_that_is_killed_makes_room(
    world: World, opened: NewSparkSessionAnswer
) -> None:
    id = world.open()["id"]
    with pytest.raises(QueriesBusy, match="2 Spark sessions are open"):
        world.open()
    pid, scratch = world.pid(id), world.scratch(id)
    os.kill(pid, signal.SIGKILL)
    until(lambda: world.ids() == {opened["id"]}, lambda: "the session is gone")
    assert not scratch.exists()
    until(lambda: not is_running(pid), lambda: "its JVM has ended")


def is_running(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("shop.none", NotFound, "shop.none"),
        ("shop.totals@99", NotFound, "no generation 99"),
        ("../etc/passwd", NotFound, "names no dataset"),
    ],
)
def test_what_is_not_there_is_told_before_spark_starts(
    world: World, name: str, error: type[Exception], words: str
) -> None:
    before = world.ids()
    with pytest.raises((error, GenerationGone), match=words):
        world.open(name)
    assert world.ids() == before


def test_a_file_that_is_lost_is_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(EngineUnavailable, match="is not there"):
        world.open()
    assert world.ids() == set()
    world.store.close()


def test_its_user_ends_it(world: World, opened: NewSparkSessionAnswer) -> None:
    """The last test of this session."""
    pid = world.pid(opened["id"])
    world.end(opened["id"])
    assert opened["id"] not in world.ids()
    until(lambda: not is_running(pid), lambda: "its JVM has ended")
