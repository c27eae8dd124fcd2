"""The lines of one listing on their way to the control plane: inline while they are few, else in a
file of the lake."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import (
    ListedPartition,
    ListingResult,
    columns_of,
    listing_line,
)

INLINE_BYTES = 400_000  # of lines that a report carries itself
BLOCK_BYTES = 1 << 18
MOST_COLUMNS = 1000  # distinct lists of columns that a report names
MOST_COLUMNS_BYTES = 200_000


class ListingColumns:
    """The distinct own columns of objects, in the order in which they first come, as long as they
    are not too many."""

    def __init__(self) -> None:
        self._column_lists: dict[tuple[str, ...] | None, None] = {}
        self._bytes = 0
        self.is_all = True

    def add(self, columns: list[str] | None) -> None:
        key = None if columns is None else tuple(columns)
        if key in self._column_lists:
            return
        self._bytes += sum(map(len, key or ()))
        if len(self._column_lists) < MOST_COLUMNS and self._bytes <= MOST_COLUMNS_BYTES:
            self._column_lists[key] = None
        else:
            self.is_all = False

    def lists(self) -> list[list[str] | None]:
        return [None if columns is None else list(columns) for columns in self._column_lists]


class ListingWriter:
    """Takes partitions in order of their keys. The file, if there is one, appears whole when
    `result` is called.

    Without a place for a file the result holds all partitions itself.
    """

    def __init__(
        self, place: Callable[[], Path] | None, most_inline_bytes: int = INLINE_BYTES
    ) -> None:
        self._place, self._most_inline_bytes = place, most_inline_bytes
        self._digest, self._columns = sha256(), ListingColumns()
        self._objects = self._bytes = 0
        self._partitions: list[ListedPartition] = []
        self._inline_bytes = 0
        self._file: _File | None = None

    def add(self, partition: ListedPartition) -> None:
        line = listing_line(partition)
        self._digest.update(line)
        self._objects += partition["content"][0]
        self._bytes += partition["content"][1]
        for source in partition["objects"]:
            self._columns.add(columns_of(source))
        if self._file is None:
            self._hold(partition, len(line))
        else:
            self._file.write(line)

    def _hold(self, partition: ListedPartition, size: int) -> None:
        self._partitions.append(partition)
        self._inline_bytes += size
        if self._place is not None and self._inline_bytes > self._most_inline_bytes:
            self._file = _File(self._place())
            for held in self._partitions:
                self._file.write(listing_line(held))
            self._partitions.clear()

    def result(self) -> ListingResult:
        summary: ListingResult = {
            "digest": self._digest.hexdigest(),
            "objects": self._objects,
            "bytes": self._bytes,
            "columns": self._columns.lists(),
            "all_columns": self._columns.is_all,
        }
        if self._file is None:
            return {**summary, "partitions": self._partitions}
        return {**summary, "file": self._file.finish()}

    def close(self) -> None:
        """Leave nothing behind that was not finished."""
        if self._file is not None:
            self._file.close()


def written_listing(
    partitions: Iterable[ListedPartition], job: ListJob, place: Callable[[], Path] | None
) -> ListingResult:
    """The listing of these partitions. Where the job has a listing as `known`, the new one is added
    to it."""
    with closing(ListingWriter(place)) as writer:
        for partition in partitions:
            writer.add(partition)
        listing = writer.result()
    before = job.get("known")
    return listing if before is None else {**listing, "after": before["key"]}


class _File:
    """A gzip file of lines under a hidden name until it is whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._hidden = path, path.with_name(f".{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self._hidden.open("wb")
        self._zip = zlib.compressobj(level=1, wbits=31)
        self._block: list[bytes] = []
        self._size = 0

    def write(self, line: bytes) -> None:
        self._block.append(line)
        self._size += len(line)
        if self._size >= BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._file.write(self._zip.compress(b"".join(self._block)))
        self._block.clear()
        self._size = 0

    def finish(self) -> str:
        self._flush()
        self._file.write(self._zip.flush())
        self._file.close()
        os.replace(self._hidden, self._path)
        return self._path.name

    def close(self) -> None:
        self._file.close()
        self._hidden.unlink(missing_ok=True)
