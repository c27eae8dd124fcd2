"""Made-up contents of partitions: ids that differ for every (tree, partition), cheap to make by the million.

An entry depends on its tree's name and its own number alone, so one can be told without making the others. Does not
belong here: trees, and what the entries stand for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from hashlib import shake_256
from itertools import chain, repeat

from benchmarks.planning.graph import key
from controlplane.core.tree import Entry
from dataplane.contract import Content

CHUNK = 8192
ROWS = 1000  # of each partition
OBJECT_BYTES = 100_000
_ID, _SUMS = struct.Struct("<32s"), struct.Struct("<QQ")
_OBJECT = Content(1, OBJECT_BYTES, 0)

# Named tuples by the constructor that they inherit: a third of the time of their own.
_entry = partial(tuple.__new__, Entry)
_content = partial(tuple.__new__, Content)


def partitions(name: str, count: int) -> Iterator[Entry]:
    """A dataset's entries, in key order."""
    for chunk, keys in _chunks(count):
        sums = struct.unpack(f"<{2 * len(keys)}Q", _bytes("sums", name, chunk, len(keys) * _SUMS.size))
        contents = map(_content, zip(repeat(ROWS), sums[::2], sums[1::2], strict=False))
        yield from map(_entry, zip(keys, _ids(name, chunk, len(keys)), contents, strict=True))


def objects(name: str, count: int) -> Iterator[Entry]:
    """A listing's entries: one source object behind each partition."""
    for chunk, keys in _chunks(count):
        yield from map(_entry, zip(keys, _ids(name, chunk, len(keys)), repeat(_OBJECT), strict=False))


def ids(name: str, chunk: int) -> Sequence[bytes]:
    """The ids of the entries of `objects` or `partitions` with CHUNK * chunk <= number < CHUNK * (chunk + 1)."""
    return tuple(_ids(name, chunk, CHUNK))


def partition(name: str, number: int) -> Entry:
    """One entry of `partitions`."""
    chunk, place = divmod(number, CHUNK)
    one, two = _SUMS.unpack_from(_bytes("sums", name, chunk, (place + 1) * _SUMS.size), place * _SUMS.size)
    return Entry(key(number), ids(name, chunk)[place], Content(ROWS, one, two))


def _chunks(count: int) -> Iterator[tuple[int, Sequence[str]]]:
    for first in range(0, count, CHUNK):
        yield first // CHUNK, _keys(first)[: count - first]


@lru_cache(maxsize=16)
def _keys(first: int) -> Sequence[str]:
    """Of a whole chunk. Trees of a few chunks, one after the other, share them."""
    return tuple(key(number) for number in range(first, first + CHUNK))


def _ids(name: str, chunk: int, count: int) -> Iterator[bytes]:
    return chain.from_iterable(_ID.iter_unpack(_bytes("ids", name, chunk, count * _ID.size)))


def _bytes(kind: str, name: str, chunk: int, size: int) -> bytes:
    """A longer output of the hash begins with the shorter one."""
    return shake_256(f"{kind}\n{name}\n{chunk}".encode()).digest(size)
