"""Changes of rows, computed by processes of the data plane.

Rows of both sides are compared first, within bounds of memory, disk and time, a few comparisons at
a time. The result is a file then, and no process waits for its reader. Where one side has no files,
rows are a stream as records are.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from controlplane.core.errors import NotCompared
from controlplane.lake import bounded_process
from controlplane.lake.bounded_process import GRACE_S, LOOK_S, Allowance
from controlplane.ports.records import RequestedChanges
from controlplane.services.queries.adapter.record_streams import CHUNK, Piped, rendering_of
from dataplane.contract.predicates import as_json
from dataplane.contract.schemas import Json

COMMAND = (sys.executable, "-P", "-m", "dataplane.fragments.file_changes")
AT_ONCE = 2
MEMORY_BYTES = 1 << 30
DISK_BYTES = 20 << 30
TIMEOUT_S = 600.0
REFUSED = 3
LESS = "ask for fewer generations"


class ChangeRenderer:
    """`RenderChanges` over one lake. `stopping`: this process ends, and so do comparisons."""

    def __init__(
        self, lake_uri: str, stopping: threading.Event, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._lake, self._stopping, self._timeout_s = lake_uri, stopping, timeout_s
        self._user_limits = threading.BoundedSemaphore(AT_ONCE)

    def __call__(self, selection: RequestedChanges) -> Iterator[bytes]:
        if selection.before and selection.after:
            return Closable(lambda is_closed: self._compared(selection, is_closed))
        request = request_of(self._lake, selection, scratch="", seconds=0)
        return Piped(COMMAND, json.dumps(request).encode())

    def _compared(
        self, changes: RequestedChanges, is_closed: Callable[[], bool]
    ) -> Iterator[bytes]:
        with TemporaryDirectory(prefix="headgate-changes-", ignore_cleanup_errors=True) as scratch:
            rendered = Path(scratch) / "told"
            allowance = Allowance(
                "telling these changes",
                LESS,
                self._timeout_s,
                deadline=time.monotonic() + self._timeout_s,
                disk_bytes=DISK_BYTES,
                is_over=lambda: is_closed() or self._stopping.is_set(),
            )
            with self._turn(allowance):
                self._render(changes, scratch, rendered, allowance)
            with rendered.open("rb") as file:
                while piece := file.read(CHUNK):
                    yield piece

    @contextmanager
    def _turn(self, allowance: Allowance) -> Iterator[None]:
        while not self._user_limits.acquire(timeout=LOOK_S):
            if allowance.is_over() or time.monotonic() > allowance.deadline:
                raise NotCompared(
                    f"other comparisons took all of the {self._timeout_s:g} s; try again later"
                )
        try:
            yield
        finally:
            self._user_limits.release()

    def _render(
        self, changes: RequestedChanges, scratch: str, rendered: Path, allowance: Allowance
    ) -> None:
        request = request_of(
            self._lake, changes, scratch=scratch, seconds=int(self._timeout_s) + GRACE_S
        )
        with rendered.open("wb") as out:
            ended = bounded_process.run(
                COMMAND, json.dumps(request).encode(), scratch, allowance, out
            )
        if ended.code == REFUSED:
            raise NotCompared(f"{ended.last_line}; {LESS}")
        if ended.code:
            raise OSError(
                f"the process that tells changes ended with {ended.code}: {ended.last_line}"
            )


def request_of(lake_uri: str, changes: RequestedChanges, *, scratch: str, seconds: int) -> Json:
    """As `dataplane.fragments.file_changes` reads it."""
    return {
        "lake": lake_uri,
        "before": list(changes.before),
        "after": list(changes.after),
        "schema": changes.schema,
        "columns": list(changes.columns),
        "where": None if changes.where is None else as_json(changes.where),
        "generation": changes.generation,
        "scratch": scratch,
        "memory_bytes": MEMORY_BYTES,
        "seconds": seconds,
        **rendering_of(changes.rendering),
    }


class Closable(Iterator[bytes]):
    """Pieces of a generator that learns of its closing by a flag, since one that runs in another
    thread cannot be closed."""

    def __init__(self, make: Callable[[Callable[[], bool]], Iterator[bytes]]) -> None:
        self._closed = threading.Event()
        self._pieces = make(self._closed.is_set)

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        self._closed.set()
        with suppress(ValueError):  # it is at work, and looks
            self._pieces.close()  # type: ignore[attr-defined]  # a generator's
