"""Made-up contents of partitions: ids that differ for every (tree, partition), cheap to make by the
million.

An entry depends on its tree's name and its own number alone, so one can be told without making the
others. Does not belong here: trees, and what the entries stand for.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import shake_256

from benchmarks.planning.graph import key
from controlplane.core.tree import Entry, NodeColumns

CHUNK = 8192
ROWS = 1000  # of each partition
OBJECT_BYTES = 100_000
_ID, _SUMS, _NUMBERS = 32, 16, struct.Struct("<3Q")
_OBJECT, _ROWS = _NUMBERS.pack(1, OBJECT_BYTES, 0), struct.pack("<Q", ROWS)


def partitions(name: str, count: int) -> Iterator[NodeColumns]:
    """A dataset's entries, in key order."""
    for chunk, keys in _chunks(count):
        yield NodeColumns(
            keys, _bytes("ids", name, chunk, len(keys) * _ID), _contents(name, chunk, len(keys))
        )


def objects(name: str, count: int) -> Iterator[NodeColumns]:
    """A listing's entries, in key order: one source object behind each partition."""
    for chunk, keys in _chunks(count):
        yield NodeColumns(keys, _bytes("ids", name, chunk, len(keys) * _ID), _OBJECT * len(keys))


def ids(name: str, chunk: int) -> Sequence[bytes]:
    """The ids of the entries of `objects` or `partitions` with CHUNK * chunk <= number < CHUNK *
    (chunk + 1)."""
    every = _bytes("ids", name, chunk, CHUNK * _ID)
    return tuple(every[at : at + _ID] for at in range(0, len(every), _ID))


def partition(name: str, number: int) -> Entry:
    """One entry of `partitions`."""
    chunk, place = divmod(number, CHUNK)
    ids = _bytes("ids", name, chunk, (place + 1) * _ID)
    return NodeColumns(
        (key(number),), ids[-_ID:], _contents(name, chunk, place + 1)[-_NUMBERS.size :]
    ).entry(0)


def _chunks(count: int) -> Iterator[tuple[int, Sequence[str]]]:
    for first in range(0, count, CHUNK):
        yield first // CHUNK, _keys(first)[: count - first]


@lru_cache(maxsize=16)
def _keys(first: int) -> Sequence[str]:
    """Of a whole chunk. Trees of a few chunks, one after the other, share them."""
    return tuple(key(number) for number in range(first, first + CHUNK))


def _contents(name: str, chunk: int, count: int) -> bytes:
    """Of so many first entries of a chunk: equal numbers of rows, and sums as if of different
    ones."""
    sums, numbers = (
        array("Q", _bytes("sums", name, chunk, count * _SUMS)),
        array("Q", _ROWS * 3 * count),
    )
    numbers[1::3], numbers[2::3] = sums[::2], sums[1::2]
    return numbers.tobytes()


def _bytes(kind: str, name: str, chunk: int, size: int) -> bytes:
    """A longer output of the hash begins with the shorter one."""
    return shake_256(f"{kind}\n{name}\n{chunk}".encode()).digest(size)
