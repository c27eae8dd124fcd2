"""Object metadata from an object store, page by page as Arrow tables, and a digest over all of it.

An object becomes a Python value only when it is read. Pages beyond the first few wait in a
temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple

from dataplane.storage.source_stores import modified_by

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY_BYTES = 1 << 22


class StoredObject(NamedTuple):
    """One object."""

    path: str
    size: int
    modified_ms: int
    etag: str | None


def stored_objects(page: pa.RecordBatch) -> Iterator[StoredObject]:
    """The objects of a page."""
    import pyarrow as pa

    times = page.column("last_modified").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    names = (page.column(name).to_pylist() for name in ("path", "size", "e_tag"))
    for path, size, etag, modified in zip(*names, times.to_pylist(), strict=True):
        yield StoredObject(path, size, modified_by(modified), etag)


class Pages:
    """Takes pages, then gives their objects. To be closed."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._file: IO[bytes] = self._open.enter_context(_temporary())
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._digest, self._is_timed = sha256(), False

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, page: pa.RecordBatch) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._writer = self._open.enter_context(pa.ipc.new_stream(self._file, page.schema))
        self._writer.write_batch(page)
        self._digest.update(page.serialize())
        self._is_timed |= not all(page.column("e_tag").to_pylist())

    @property
    def text(self) -> str:
        """The digest of the listed objects; empty where only a time shows a change: two may fall
        into one tick."""
        return "" if self._is_timed else self._digest.hexdigest()

    def objects(self) -> Iterator[StoredObject]:
        import pyarrow as pa

        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        for page in pa.ipc.open_stream(self._file):
            yield from stored_objects(page)


def _temporary() -> IO[bytes]:
    return SpooledTemporaryFile(IN_MEMORY_BYTES)
