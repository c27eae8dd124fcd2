"""Positions of deleted rows in one data file, as its files of deletes have them.

pyiceberg's own reading holds the positions of all data files that a file of deletes names, and
unpacks vectors without a bound: a hostile file of some hundred bytes would fill the memory of a
Spark worker.

https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import ParquetFileFormat, Scanner
from pyiceberg.io import FileIO
from pyiceberg.table.deletion_vector import PROPERTY_REFERENCED_DATA_FILE
from pyiceberg.table.puffin import PuffinBlobMetadata, PuffinFile
from pyroaring import BitMap

from dataplane.task_failures import TaskFailure

MOST_POSITIONS = 1 << 25  # of one data file: 256 MiB in memory
PUFFIN_BYTES = 64 << 20
_COUNT = slice(8, 16)  # behind the length of the vector and its magic number
_KEY = slice(16, 20)
_CHECKSUM_BYTES = 4


def deleted_positions(
    files: FileIO, path: str, deletes: Sequence[Sequence[str]]
) -> list[pa.ChunkedArray]:
    """The deleted positions of the data file `path`, an array (int64) for each file that has
    some.

    `deletes`: paths of these files, and their formats. TaskFailure for one that is damaged or too
    large.
    """
    arrays, count = list[pa.ChunkedArray](), 0
    for place, kind in deletes:
        batches = list[Any]()
        for batch in _batches(files, path, place, kind):
            count += len(batch)
            if count > MOST_POSITIONS:
                raise _too_large(place, f"deletes more than {MOST_POSITIONS:,} rows of {path}")
            batches.append(batch)
        arrays.append(pa.chunked_array(batches, pa.int64()))
    return [array for array in arrays if len(array)]


def _batches(files: FileIO, path: str, place: str, kind: str) -> Iterator[Any]:
    with files.new_input(place).open() as file:
        if kind == "PUFFIN":
            yield from _of_vectors(file, path, place)
            return
        fragment = ParquetFileFormat().make_fragment(file)
        is_here = pc.field("file_path") == path
        for batch in Scanner.from_fragment(fragment, columns=["pos"], filter=is_here).to_batches():
            yield batch.column("pos").cast(pa.int64())


def _of_vectors(file: Any, path: str, place: str) -> Iterator[Any]:
    content = file.read(PUFFIN_BYTES + 1)
    if len(content) > PUFFIN_BYTES:
        raise _too_large(place, f"has more than {PUFFIN_BYTES >> 20} MiB")
    puffin = PuffinFile(content)
    for blob in puffin.footer.blobs:
        if blob.properties.get(PROPERTY_REFERENCED_DATA_FILE) == path:
            yield _of_vector(puffin, blob, place)


def _of_vector(puffin: PuffinFile, blob: PuffinBlobMetadata, place: str) -> Any:
    if blob.compression_codec is not None:  # the format allows none here
        raise _damaged(place, "is compressed")
    payload = puffin.get_blob_payload(blob)
    count = int.from_bytes(payload[_COUNT], "little")
    if count == 0:
        return pa.array([], pa.int64())
    # A key stands for 2**32 positions
    if count > 1 or int.from_bytes(payload[_KEY], "little"):
        raise _too_large(place, "deletes rows behind the first 4,294,967,296 of a file")
    bitmap = BitMap.deserialize(payload[_KEY.stop : -_CHECKSUM_BYTES])
    # A run of positions takes some bytes, however long it is
    if len(bitmap) > MOST_POSITIONS:
        raise _too_large(place, f"deletes more than {MOST_POSITIONS:,} rows of a file")
    return pa.array(bitmap.to_array(), pa.uint32()).cast(pa.int64())


def _damaged(place: str, reason: str) -> TaskFailure:
    message = f"the deletion vector in {place} {reason}"
    return TaskFailure("unreadable", f"{message}: the file is damaged", "infrastructure")


def _too_large(place: str, reason: str) -> TaskFailure:
    message = f"the file of deletes {place} {reason}, which is more than is read"
    return TaskFailure("not-supported", f"{message}: compact the table")
