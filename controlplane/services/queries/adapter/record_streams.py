"""Streams of committed records, rendered by a process of the data plane, so that Arrow never lives
in this one."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress

from controlplane.core.errors import HeadgateError
from controlplane.ports.records import Rendering, WantedRows
from controlplane.services.queries.adapter.query_child import QueryChild
from controlplane.services.queries.adapter.query_pool import MEMORY_BYTES, QueryPool
from dataplane.contract.predicates import as_json
from dataplane.contract.schemas import Json

CHUNK = 65_536
AT_ONCE = 64  # bodies, and pages that show rows: edges have smaller bounds of their own
WARM = 2  # processes that wait for the next body
ALL = ""  # no code of a user's runs in them, so that one may be any user's next
LONGEST_S = 7 * 86_400.0  # of a body, whose reader may take its time


class RecordPool(QueryPool):
    """The processes of `QueryPool`, of which some stay for the next body."""

    def __init__(self, lake_uri: str, *, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__(lake_uri, at_once=AT_ONCE, each=AT_ONCE, memory_bytes=memory_bytes)

    def _keep(self, child: QueryChild) -> None:
        super()._keep(child)
        while len(self._idle) > WARM:
            self._idle.pop(0).close()


class RecordRenderer:
    """`RenderRecords` over one lake."""

    def __init__(self, pool: QueryPool) -> None:
        self._pool = pool

    def __call__(self, selection: WantedRows) -> Iterator[bytes]:
        """JSON is one array of objects; decimals, times and binary values (base64) are text in
        it."""
        return RecordStream(self._pool, request_of(selection))


class RecordStream(Iterator[bytes]):
    """A body from a process of the pool. The request is sent with the first piece, and the process
    waits while no reader takes one. `close` ends it at once, also from another thread than the one
    that waits for a piece."""

    def __init__(self, pool: QueryPool, request: Json) -> None:
        self._pool, self._request = pool, request
        self._lock = threading.Lock()
        self._end: Callable[[], None] = _nothing
        self._pieces = self._answered()
        self.is_cancelled = False

    def then(self, work: Callable[[], None]) -> None:
        """As `Cancellation`: what ends the process."""
        with self._lock:
            self._end = work
            is_late = self.is_cancelled
        if is_late:
            work()

    def __next__(self) -> bytes:
        if self.is_cancelled:
            raise StopIteration
        try:
            return next(self._pieces)
        except HeadgateError as error:
            if self.is_cancelled:
                raise StopIteration from None
            raise OSError(f"cannot read records: {error}") from error

    def _answered(self) -> Generator[bytes, None, None]:
        try:
            with self._pool.session(ALL, self, timeout_s=LONGEST_S) as session:
                yield from session.records(self._request)
        finally:
            self._end = _nothing

    def close(self) -> None:
        with self._lock:
            self.is_cancelled, end = True, self._end
        end()
        with suppress(ValueError):  # it is at work in another thread, and ends with its process
            self._pieces.close()

    def __del__(self) -> None:
        self.close()


def _nothing() -> None:
    """The end of a stream without a process: nothing to do."""


def request_of(rows: WantedRows) -> Json:
    """As `dataplane.fragments.file_records` reads it."""
    return {
        "paths": list(rows.files),
        "schema": rows.schema,
        "columns": list(rows.columns),
        "where": None if rows.where is None else as_json(rows.where),
        "offset": rows.offset,
        "limit": rows.limit,
        "cell_bytes": rows.cell_bytes,
        **rendering_of(rows.rendering),
    }


def rendering_of(rendering: Rendering) -> Json:
    return {
        "format": rendering.format,
        "compression": rendering.compression or rendering.coding or None,
    }


class Piped(Iterator[bytes]):
    """The output of a process that is sent a request: it starts with the first piece, and waits
    while its output is not read. `close` ends it at once, also from another thread than the one
    that waits for a piece."""

    def __init__(self, command: Sequence[str], request: bytes) -> None:
        self._command, self._request = command, request
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self.child: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def __next__(self) -> bytes:
        child = self._started()
        if child is None:
            raise StopIteration
        piece = self._read(child)
        if piece:
            return piece
        code = child.wait()
        if code and not self._is_closed:
            self._errors.seek(0)
            raise OSError(f"cannot read records: {last_line(self._errors.read())}")
        raise StopIteration

    def _read(self, child: subprocess.Popen[bytes]) -> bytes:
        assert child.stdout
        try:
            piece: bytes = child.stdout.read1(CHUNK)  # type: ignore[attr-defined]  # Popen's pipes are buffered
        except ValueError:  # closed meanwhile
            if not self._is_closed:
                raise
            return b""
        return piece

    def _started(self) -> subprocess.Popen[bytes] | None:
        """None once it is closed."""
        with self._lock:
            if self.child is not None or self._is_closed:
                return None if self._is_closed else self.child
            self.child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        assert self.child.stdin
        with suppress(BrokenPipeError):
            self.child.stdin.write(self._request)
        with suppress(BrokenPipeError):
            self.child.stdin.close()
        return self.child

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            child = self.child
        if child is not None:
            child.kill()
            child.wait()
            assert child.stdout
            child.stdout.close()  # waits for who reads, and that ended with the process
        self._errors.close()

    def __del__(self) -> None:
        self.close()


def last_line(text: bytes) -> str:
    return text.decode(errors="replace").strip().rpartition("\n")[2]
