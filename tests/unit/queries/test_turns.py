"""Turns of queries: nobody's keep another's from starting. Each query is a thread that holds its
turn until it is told to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.core.errors import QueriesBusy
from controlplane.services.queries import queries
from controlplane.services.queries.adapter.user_limits import QueryBounds, UserLimits
from controlplane.services.queries.queries import QueryRequest
from controlplane.services.queries.running_queries import Cancel
from tests.unit.queries.world import world_in

LONG_S = 600.0


class Line:
    """`began`: queries in the order in which they got their turns. A query `ada-1` is of ada."""

    def __init__(self, at_once: int, each: int, waiting: int) -> None:
        self.free = threading.Condition()
        self.turns = UserLimits(QueryBounds(at_once, each, waiting), self.free)
        self.began = list[str]()
        self.refused = dict[str, str]()
        self.ends = dict[str, threading.Event]()
        self.threads = list[threading.Thread]()

    def come(self, name: str) -> None:
        """Back once it has its turn, waits for it, or is refused."""
        user, before = user_of(name), self.waiting(user_of(name))
        self.ends[name] = threading.Event()
        self.threads.append(threading.Thread(target=self._hold, args=(name,)))
        self.threads[-1].start()
        self._until(lambda: name in (*self.began, *self.refused) or self.waiting(user) > before)

    def end(self, name: str, *, then: str = "") -> None:
        """Back once `then` has its turn."""
        self.ends[name].set()
        self._until(lambda: not then or then in self.began)

    def waiting(self, user: str) -> int:
        with self.free:
            return sum(1 for one, _ in self.turns._waiting if one == user)

    def close(self) -> None:
        self.turns.close()
        for event in self.ends.values():
            event.set()
        for thread in self.threads:
            thread.join()

    def _hold(self, name: str) -> None:
        try:
            with self.turns.turn(user_of(name), time.monotonic() + LONG_S, LONG_S):
                self.began.append(name)
                self.ends[name].wait()
        except QueriesBusy as e:
            self.refused[name] = str(e)

    def _until(self, is_so: Callable[[], bool]) -> None:
        with self.free:
            while not is_so():
                self.free.wait(0.01)


def user_of(name: str) -> str:
    return name.partition("-")[0]


@contextmanager
def line_of(at_once: int = 2, each: int = 1, waiting: int = 4) -> Iterator[Line]:
    line = Line(at_once, each, waiting)
    try:
        yield line
    finally:
        line.close()


def test_another_users_query_starts_at_once_past_those_that_wait() -> None:
    with line_of() as line:
        for name in ("ada-1", "ada-2", "ada-3", "bob-1"):
            line.come(name)
        assert line.began == ["ada-1", "bob-1"]
        line.end("ada-1", then="ada-2")
        line.end("ada-2", then="ada-3")
        assert line.began == ["ada-1", "bob-1", "ada-2", "ada-3"], (
            "one of ada's at a time, while bob's goes on"
        )


def test_who_has_fewest_running_is_next_then_who_came_first() -> None:
    with line_of(at_once=2, each=2, waiting=10) as line:
        for name in ("ada-1", "ada-2", "ada-3", "bob-1", "cat-1"):
            line.come(name)
        assert line.began == ["ada-1", "ada-2"]
        line.end("ada-1", then="bob-1")
        line.end("ada-2", then="ada-3")
        line.end("bob-1", then="cat-1")
        assert line.began == ["ada-1", "ada-2", "bob-1", "ada-3", "cat-1"]


def test_a_user_who_fills_the_line_leaves_a_place_for_others() -> None:
    with line_of(at_once=1, waiting=4) as line:
        for name in (
            "ada-1",
            "ada-2",
            "ada-3",
            "ada-4",
            "bob-1",
            "bob-2",
            "bob-3",
            "cat-1",
            "cat-2",
        ):
            line.come(name)
        assert line.refused == {
            "ada-4": "other queries of yours wait already; try again later",
            "bob-3": "other queries of yours wait already; try again later",
            "cat-2": "other queries wait already; try again later",
        }
        assert line.waiting("cat") == 1
        line.end("ada-1", then="ada-2")
        assert line.waiting("ada") == 1


def test_the_end_of_the_service_ends_all_that_wait() -> None:
    with line_of(at_once=1) as line:
        for name in ("ada-1", "ada-2", "bob-1"):
            line.come(name)
    assert line.refused == dict.fromkeys(("ada-2", "bob-1"), "the service ends; ask again")


@pytest.mark.parametrize(
    ("user", "words"),
    [("ada", "other queries of yours took all"), ("bob", "other queries took all")],
)
def test_who_waited_for_nothing_is_told_for_whom(user: str, words: str) -> None:
    turns = UserLimits(QueryBounds(1, 1, 4), threading.Condition())
    with (
        turns.turn("ada", time.monotonic() + LONG_S, LONG_S),
        pytest.raises(QueriesBusy, match=words),
        turns.turn(user, time.monotonic(), 0.0),
    ):
        pass
    with turns.turn(user, time.monotonic(), 0.0):
        pass  # nothing of it is left


def test_an_endless_query_of_one_user_keeps_no_other_from_asking(tmp_path: Path) -> None:
    with world_in(tmp_path) as world:
        sql = "SELECT range, repeat('x', 100) FROM range(100000000)"
        stream = queries.stream(
            world.ctx, world.queries, "main", QueryRequest(sql, limit=None), cancel=Cancel()
        )
        with pytest.raises(QueriesBusy, match="of yours"):
            world.ask("SELECT 1", timeout_s=0.01)
        with world.pool.session("bob", Cancel(), timeout_s=60) as session:
            assert session.inspect("SELECT 1")["references"] == []
        stream.pieces.close()
        assert world.rows("SELECT 1") == [[1]]
