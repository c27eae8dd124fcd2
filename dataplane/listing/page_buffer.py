"""What an object store tells of the objects in it, page by page as Arrow tables, and a digest over all of it.

No Python value is made of an object before somebody wants it, and what is more than a few pages waits in a temporary
file. Does not belong here: asking a store, which objects are wanted.
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


class Told(NamedTuple):
    """One object."""

    path: str
    size: int
    modified_ms: int
    etag: str | None


def told(page: pa.RecordBatch) -> Iterator[Told]:
    """The objects of a page."""
    import pyarrow as pa

    times = page.column("last_modified").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    names = (page.column(name).to_pylist() for name in ("path", "size", "e_tag"))
    for path, size, etag, modified in zip(*names, times.to_pylist(), strict=True):
        yield Told(path, size, modified_by(modified), etag)


class Pages:
    """Takes pages, then gives their objects. To be closed."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._file: IO[bytes] = self._open.enter_context(_temporary())
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._seen, self._is_timed = sha256(), False

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, page: pa.RecordBatch) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._writer = self._open.enter_context(pa.ipc.new_stream(self._file, page.schema))
        self._writer.write_batch(page)
        self._seen.update(page.serialize())
        self._is_timed |= not all(page.column("e_tag").to_pylist())

    @property
    def text(self) -> str:
        """Of what was told; empty where a time is all that tells of a change, and two may fall into one tick of it."""
        return "" if self._is_timed else self._seen.hexdigest()

    def objects(self) -> Iterator[Told]:
        import pyarrow as pa

        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        for page in pa.ipc.open_stream(self._file):
            yield from told(page)


def _temporary() -> IO[bytes]:
    return SpooledTemporaryFile(IN_MEMORY_BYTES)
