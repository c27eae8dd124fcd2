"""Processes that answer queries: what ends them, and what their end costs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from controlplane.services.queries.adapter.query_memory import memory_bytes
from controlplane.services.queries.queries import QueryRequest
from controlplane.services.queries.running_queries import Cancel
from tests.unit.diffs.world import rows
from tests.unit.queries.world import World, process_of, world_in

ENDLESS = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) = i"
LARGE = "SELECT range, repeat('x', 100) FROM range(100000000)"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with world_in(tmp_path, at_once=1, memory_bytes=200 << 20, disk_bytes=10 << 20) as world:
        world.commit({"": rows((1, "a"))})
        yield world


def pid(world: World) -> int:
    (child,) = world.pool._idle
    return process_of(child).pid


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_none_is_started_before_there_is_a_query(world: World) -> None:
    assert world.pool._idle == []


def test_one_answers_many_queries(world: World) -> None:
    world.ask("SELECT 1")
    first = pid(world)
    with pytest.raises(QueryRefused):
        world.ask("SELECT nothing")
    world.ask("SELECT 2")
    assert pid(world) == first


def test_another_user_gets_another_one(world: World) -> None:
    world.ask("SELECT 1")
    first = pid(world)
    world.ctx = replace(world.ctx, actor="another")
    world.ask("SELECT 1")
    assert pid(world) != first
    assert is_gone(first)


def test_a_query_ends_at_its_deadline_and_the_process_goes_on(world: World) -> None:
    world.ask("SELECT 1")
    first = pid(world)
    with pytest.raises(QueryLimit, match=r"longer than 0\.\d+ s"):
        world.ask(ENDLESS, timeout_s=0.4)
    assert pid(world) == first
    assert world.rows("SELECT 1") == [[1]]


def test_a_process_that_does_not_heed_its_deadline_is_ended_by_the_kernel(world: World) -> None:
    """Here it cannot: it waits for somebody to take its answer."""
    world.ask("SELECT 1")
    asked = QueryRequest(LARGE, limit=None, timeout_s=1.5)
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    (child,) = world.pool._busy
    assert process_of(child).wait() == -signal.SIGALRM
    with pytest.raises(QueryLimit, match="longer"):
        list(stream.pieces)
    assert world.rows("SELECT 1") == [[1]]


def test_a_query_that_takes_too_much_memory(world: World) -> None:
    with pytest.raises(QueryLimit, match="memory"):
        world.ask("SELECT string_agg(repeat('x', 100000) || i, ',') FROM range(1000000) t(i)")
    assert world.rows("SELECT 1") == [[1]]


def test_a_crash_costs_its_query_only(world: World) -> None:
    stream = queries.stream(
        world.ctx, world.queries, "main", QueryRequest(LARGE, limit=None), cancel=Cancel()
    )
    (child,) = world.pool._busy
    os.kill(process_of(child).pid, signal.SIGSEGV)
    with pytest.raises(QueryCrashed, match="-11"):
        list(stream.pieces)
    assert world.rows("SELECT 1") == [[1]]


def test_who_leaves_a_stream_ends_its_query(world: World) -> None:
    stream = queries.stream(
        world.ctx, world.queries, "main", QueryRequest(LARGE, limit=None), cancel=Cancel()
    )
    (child,) = world.pool._busy
    next(stream.pieces)
    stream.pieces.close()
    assert is_gone(process_of(child).pid)
    assert list((world.folder / "results").glob("*.part")) == []


def peak_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def test_memory_does_not_grow_with_the_rows(world: World) -> None:
    """A million rows, of some 200 MB."""
    wide = "SELECT range, repeat('x', 200) FROM range({})"
    world.queries.results._largest = 0  # type: ignore[attr-defined]  # nothing is written
    world.arrow(wide.format(10_000))
    child, ours = pid(world), os.getpid()
    before = peak_mb(child), peak_mb(ours)
    asked = QueryRequest(wide.format(1_000_000), limit=None)
    stream = queries.stream(world.ctx, world.queries, "main", asked, cancel=Cancel())
    size = sum(map(len, stream.pieces))
    assert size > 200_000_000
    assert peak_mb(child) - before[0] < 60
    assert peak_mb(ours) - before[1] < 30


@pytest.mark.parametrize(
    ("said", "expected"),
    [("max\n", 1 << 30), (f"{2 << 30}\n", (2 << 30) // 6), (str(2**63 - 4096), 1 << 30)],
)
def test_a_container_s_limit_is_heeded(tmp_path: Path, said: str, expected: int) -> None:
    (tmp_path / "limit").write_text(said)
    assert memory_bytes((tmp_path / "none", tmp_path / "limit")) == expected


def test_when_memory_is_short_it_is_the_query_that_goes(world: World) -> None:
    world.ask("SELECT 1")
    assert Path(f"/proc/{pid(world)}/oom_score_adj").read_text().strip() == "1000"


def test_a_stream_that_nobody_reads_holds_nothing(world: World) -> None:
    stream = queries.stream(
        world.ctx, world.queries, "main", QueryRequest(LARGE, limit=None), cancel=Cancel()
    )
    (child,) = world.pool._busy
    del stream
    assert is_gone(process_of(child).pid)


class Late(Cancel):
    """Cancels as soon as there is something to cancel."""

    def then(self, work: Callable[[], None]) -> None:
        super().then(work)
        self.cancel()


def test_cancelled(world: World) -> None:
    with pytest.raises(QueryCancelled):
        queries.answer(
            world.ctx, world.queries, "main", QueryRequest(ENDLESS, timeout_s=500), cancel=Late()
        )
    assert world.rows("SELECT 1") == [[1]]


def test_who_leaves_at_the_very_end_costs_nobody_a_process(world: World) -> None:
    """The process is killed after its whole answer, and may live for a moment yet."""
    for _ in range(3):
        cancel = Cancel()
        with world.pool.session("ada", cancel, timeout_s=60) as session:
            session.inspect("SELECT 1")
            cancel.cancel()
        assert world.pool._idle == []


def test_a_process_that_had_nothing_to_do_for_long_is_replaced(world: World) -> None:
    world.ask("SELECT 1")
    (child,) = world.pool._idle
    process = process_of(child)
    assert process.stdin
    process.stdin.close()  # it ends as an idle one does
    process.wait()
    assert world.rows("SELECT 1") == [[1]]


def test_the_queue_is_bounded(tmp_path: Path) -> None:
    with world_in(tmp_path, at_once=1, waiting=1) as world:
        stream = queries.stream(
            world.ctx, world.queries, "main", QueryRequest(LARGE, limit=None), cancel=Cancel()
        )
        with pytest.raises(QueriesBusy, match=r"took all of the 0\.01 s"):
            world.ask("SELECT 1", timeout_s=0.01)
        stream.pieces.close()
        assert world.rows("SELECT 1") == [[1]]


def test_the_end_of_the_pool_ends_what_runs(world: World) -> None:
    stream = queries.stream(
        world.ctx, world.queries, "main", QueryRequest(LARGE, limit=None), cancel=Cancel()
    )
    world.pool.close()
    with pytest.raises(QueriesBusy, match="the service ends"):
        list(stream.pieces)
    with pytest.raises(QueriesBusy, match="the service ends"):
        world.ask("SELECT 1")


PARENT = """
import os, sys
from controlplane.drivers.transport import LocalProcess
from controlplane.services.queries.adapter.query_child import QueryChild
from time import monotonic
process = LocalProcess(sys.argv[1], 1 << 28, 1 << 20)
child = QueryChild(process)
asking = child.ask({"ask": "inspect", "sql": "SELECT 1"}, monotonic() + 60)
try:
    next(asking)
except StopIteration:
    print(process.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_death_of_its_parent_ends_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert parent.stdout.read() == ""  # its end: the child has no part in this pipe
    try:
        process = os.pidfd_open(child)
    except ProcessLookupError:
        return
    try:
        assert select.select([process], [], [], 60)[0], "it lives on"
    finally:
        os.close(process)
