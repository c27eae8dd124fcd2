"""Streams of committed records, rendered by a process of the data plane, so that Arrow never lives in this one.

Does not belong here: which files make up a generation; HTTP.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from controlplane.ports.records import Rendering, WantedRows
from dataplane.contract.predicates import as_json
from dataplane.contract.schemas import Json

COMMAND = (sys.executable, "-P", "-m", "dataplane.fragments.records")
CHUNK = 65_536


class RecordRenderer:
    """`RenderRecords` over one lake."""

    def __init__(self, lake_uri: str) -> None:
        self._lake = lake_uri

    def __call__(self, wanted: WantedRows) -> Iterator[bytes]:
        """JSON is one array of objects; decimals, times and binary values (base64) are text in it."""
        return Piped(COMMAND, json.dumps(request_of(self._lake, wanted)).encode())


def request_of(lake_uri: str, wanted: WantedRows) -> Json:
    """As `dataplane.fragments.records` reads it."""
    return {
        "lake": lake_uri,
        "paths": list(wanted.files),
        "schema": wanted.schema,
        "columns": list(wanted.columns),
        "where": None if wanted.where is None else as_json(wanted.where),
        "offset": wanted.offset,
        "limit": wanted.limit,
        "cell_bytes": wanted.cell_bytes,
        **rendering_of(wanted.rendering),
    }


def rendering_of(rendering: Rendering) -> Json:
    return {"format": rendering.format, "compression": rendering.compression or rendering.coding or None}


class Piped(Iterator[bytes]):
    """The output of a process that is sent a request: it starts when the first piece is asked for, and waits while
    nobody takes what it wrote. `close` ends it at once, also from another thread than the one that waits for a
    piece."""

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
