"""A few warm processes that answer queries: started when there is a query, ended with this process.

Another user gets a new process, and a process is replaced after some number of questions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from controlplane.core.errors import (
    EngineUnavailable,
    QueriesBusy,
    QueryCancelled,
    QueryCrashed,
    QueryLimit,
    QueryRefused,
    RowsUnreadable,
)
from controlplane.core.query_problems import problem_at
from controlplane.drivers.transport import ChildEnded, LocalProcess
from controlplane.services.queries.adapter.query_child import QueryChild
from controlplane.services.queries.adapter.user_limits import ENDS, QueryBounds, UserLimits
from controlplane.services.queries.port import Cancellation, PageBounds, Pieces, RowsPage
from dataplane.contract.query_protocol import (
    GRACE_S,
    Compared,
    FileForm,
    Inspected,
    QueryQuestion,
    QueryTable,
    Ran,
    Refusal,
)
from dataplane.contract.schemas import Json

AT_ONCE = 2
EACH = 1  # of one user: another one's query finds a process
WAITING = 10
MEMORY_BYTES = 1 << 30
DISK_BYTES = 4 << 30
MOST_REQUESTED = 600  # questions, of which a query has three
SLOWEST_S = 2 * GRACE_S  # after the deadline: the kernel is first
CANCELLED = "the query was cancelled"
CRASHED = "the process that answered the query ended ({code}); nothing else is affected, and another one is there"


class QueryPool:
    """`QueryEngine` over one lake. Safe to use from many threads."""

    def __init__(
        self,
        lake: str,
        *,
        at_once: int = AT_ONCE,
        each: int = EACH,
        waiting: int = WAITING,
        memory_bytes: int = MEMORY_BYTES,
        disk_bytes: int = DISK_BYTES,
    ) -> None:
        self._lake, self._bytes = lake, (memory_bytes, disk_bytes)
        self._most = at_once
        self._free = threading.Condition()
        self._user_limits = UserLimits(QueryBounds(at_once, each, waiting), self._free)
        self._idle = list[QueryChild]()
        self._busy = set[QueryChild]()
        self._is_closed = False

    @property
    def lock(self) -> threading.Condition:
        return self._free

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def version(self) -> str:
        return f"duckdb {version('duckdb')}"

    @contextmanager
    def session(
        self, user: str, cancellation: Cancellation, *, timeout_s: float
    ) -> Iterator[PooledSession]:
        deadline = time.monotonic() + timeout_s
        with self._user_limits.turn(user, deadline, timeout_s):
            session = self._session(user, cancellation, deadline, timeout_s)
            try:
                yield session
            finally:
                session.end()

    def _session(
        self, user: str, cancellation: Cancellation, deadline: float, timeout_s: float
    ) -> PooledSession:
        return PooledSession(self, user, cancellation, deadline, timeout_s)

    def _made(self) -> QueryChild:
        return QueryChild(LocalProcess(self._lake, *self._bytes))

    def take(self, user: str) -> QueryChild:
        """A warm process of this user's, else a new one, in place of another user's."""
        with self._free:
            child = self._warm(user)
            if child is None:
                child = self._made()
                child.user = user
            self._busy.add(child)
            if self._is_closed:
                child.kill()
            return child

    def _warm(self, user: str) -> QueryChild | None:
        for child in [child for child in self._idle if not child.is_alive]:
            self._idle.remove(child)
            child.close()
        for child in self._idle:
            if child.user == user:
                self._idle.remove(child)
                return child
        if len(self._idle) + len(self._busy) >= self._most and self._idle:
            self._idle.pop(0).close()
        return None

    def put_back(self, child: QueryChild, *, is_sound: bool) -> None:
        is_sound = is_sound or child.settle()
        with self._free:
            self._busy.discard(child)
            child.is_unwanted = False
            if (
                is_sound
                and child.is_alive
                and child.question_number < MOST_REQUESTED
                and not self._is_closed
            ):
                self._keep(child)
                return
        child.close()

    def _keep(self, child: QueryChild) -> None:
        """For the next query."""
        self._idle.append(child)

    def close(self) -> None:
        """End all, also those that have work."""
        with self._free:
            self._is_closed = True
            idle, self._idle = self._idle, []
            for child in self._busy:
                child.kill()
        self._user_limits.close()
        for child in idle:
            child.close()


class PooledSession:
    """`QuerySession`. Its process is put back where the last answer was read whole."""

    def __init__(
        self,
        pool: QueryPool,
        user: str,
        cancellation: Cancellation,
        deadline: float,
        timeout_s: float,
    ) -> None:
        self._pool, self._user, self._cancellation = pool, user, cancellation
        self._deadline, self._timeout_s = deadline, timeout_s
        self._child: QueryChild | None = None
        self._is_sound = True
        # A process that had nothing to do for long ends just when it is asked
        self._is_second = False

    def inspect(self, sql: str) -> Inspected:
        question: QueryQuestion = {"ask": "inspect", "sql": sql}
        answer = self._answer(question, sql)
        return {"references": answer["references"], "is_repeatable": answer["is_repeatable"]}

    def page(self, path: Path, offset: int, bounds: PageBounds) -> RowsPage:
        question: QueryQuestion = {
            "ask": "page",
            "path": str(path),
            "offset": offset,
            "limit": bounds.rows,
            "page_bytes": bounds.page_bytes,
            "cell_bytes": bounds.cell_bytes,
            "order": bounds.order,
        }
        pieces = list[bytes]()
        answer = self._answer(question, "", pieces.append)
        return RowsPage(answer["columns"], answer["rows"], answer["cut"], tuple(pieces))

    def as_file(self, path: Path, to: Path, form: FileForm, generations: Mapping[str, int]) -> None:
        question: QueryQuestion = {
            "ask": "file",
            "path": str(path),
            "to": str(to),
            "form": form,
            "generations": dict(generations),
        }
        self._answer(question, "")

    def records(self, request: Json) -> Generator[bytes, None, None]:
        """A body of committed rows. Raises RowsUnreadable, after some pieces perhaps."""
        yield from self._ask({"ask": "records", "request": request}, "")

    def compare(self, first: Path, other: Path, samples: int) -> Compared:
        answer = self._answer(
            {"ask": "compare", "one": str(first), "other": str(other), "samples": samples}, ""
        )
        return {"rows": answer["rows"], "only": answer["only"], "samples": answer["samples"]}

    def run(
        self,
        sql: str,
        parameters: Json,
        tables: Sequence[QueryTable],
        limit: int | None,
        settings: Mapping[str, Json] | None = None,  # noqa: ARG002  # of Spark's
    ) -> Pieces:
        question: QueryQuestion = {
            "ask": "run",
            "sql": sql,
            "parameters": parameters,
            "tables": list(tables),
            "limit": limit,
            "seconds": self._left_s(),
        }
        answer = yield from self._ask(question, sql)
        ran: Ran = {"rows": answer["rows"], "more": answer["more"]}
        return ran

    def _left_s(self) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise self._too_long()
        return left_s

    def end(self) -> None:
        with self._pool.lock:
            child, self._child = self._child, None
        if child is not None:
            self._pool.put_back(child, is_sound=self._is_sound)

    def _kill(self) -> None:
        with self._pool.lock:  # so that the process is still ours
            if self._child is not None:
                self._child.stop()

    def _answer(
        self, question: QueryQuestion, sql: str, take: Callable[[bytes], object] = len
    ) -> Json:
        """`take`: gets the pieces, of which most answers have none."""
        answer = self._ask(question, sql)
        while True:
            try:
                take(next(answer))
            except StopIteration as end:
                return end.value

    def _ask(self, question: QueryQuestion, sql: str) -> Generator[bytes, None, Json]:
        """The process is killed by a cancellation; and here, where a reader of pieces has left."""
        child = self._held()
        self._is_sound = False  # until the answer is here
        try:
            answer = yield from child.ask(question, self._deadline + SLOWEST_S)
        except ChildEnded as ended:
            if not ended.was_idle or self._is_second:
                raise self._why(ended) from None
            self._is_second = True
            self.end()
            return (yield from self._ask(question, sql))
        self._is_sound = True
        if (refusal := answer.get("refusal")) is not None:
            raise self._error_of(refusal, sql)
        return answer

    def _error_of(self, refusal: Refusal, sql: str) -> Exception:
        if refusal["kind"] == "stopped":
            return QueryCancelled(CANCELLED)
        return _error_of(refusal, sql)

    def _held(self) -> QueryChild:
        child = self._child
        if child is None:
            child = self._take_child()
            with self._pool.lock:
                self._child = child
            self._cancellation.then(self._kill)
        return child

    def _take_child(self) -> QueryChild:
        return self._pool.take(self._user)

    def _why(self, ended: ChildEnded) -> Exception:
        if self._cancellation.is_cancelled:
            return QueryCancelled(CANCELLED)
        if ended.is_overdue:
            return self._too_long()
        if self._pool.is_closed:
            return QueriesBusy(ENDS)
        return QueryCrashed(CRASHED.format(code=ended.message))

    def _too_long(self) -> QueryLimit:
        return QueryLimit(
            f"the query takes longer than {self._timeout_s:g} s; narrow it, or allow more time"
        )


def _error_of(refusal: Refusal, sql: str) -> Exception:
    match refusal["kind"]:
        case "limit":
            return QueryLimit(refusal["message"])
        case "lake":
            return RowsUnreadable(f"cannot read rows: {refusal['message']}")
        case "none":
            return EngineUnavailable(refusal["message"])
        case _:
            code = "unknown-table" if refusal["kind"] == "unknown" else "query-refused"
            return QueryRefused(problem_at(sql, refusal["at"], code, refusal["message"]))
