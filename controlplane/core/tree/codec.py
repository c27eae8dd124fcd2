"""One node as values and as bytes. Knows the encoding and every check within one node; no store, no
other node.

    version u8 = 1 | level u8 | rows u32 | prefix bytes u32 | key bytes u32          little-endian, as all numbers
    summary: keys digest 32, partitions u64, rows u64, sum1 u64, sum2 u64 prefix: what all keys
    begin with | keys: for each row 0xFF (never a byte of UTF-8) and the rest of its key ids: 32
    bytes per row | rest: 24 bytes per row of a leaf, 64 of an inner node

A leaf's row is an entry: key, fragment id, content (rows, sum1, sum2: u64). An inner node's row is
a child: its last key, its digest, its summary. There is exactly one encoding of given rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain, islice
from operator import lt
from typing import NamedTuple

from controlplane.core.errors import CorruptNode
from controlplane.core.tree.shape import TOP
from controlplane.core.tree.tree_values import KEYS_TAG, NODE_TAG, Entry, Summary, Totals
from dataplane.contract.identity import MASK, Content

VERSION = 1
ID = 32
_HEAD = struct.Struct("<BBIII")
_SUMMARY = struct.Struct("<32s4Q")
_SUMS = struct.Struct("<32x4Q")
_CONTENT = struct.Struct("<3Q")
_PREFIX_SIZE = struct.Struct("<I")
_ID = struct.Struct("32s")
_SEPARATOR = b"\xff"
_BODY = _HEAD.size + _SUMMARY.size


def width(level: int) -> int:
    """Bytes per row of a node's rest column."""
    return _SUMMARY.size if level else _CONTENT.size


class NodeColumns(NamedTuple):
    """Consecutive rows of one level, by column."""

    keys: Sequence[str]
    ids: bytes
    rest: bytes

    def part(self, start: int, stop: int) -> NodeColumns:
        size = len(self.rest) // (len(self.keys) or 1)
        return NodeColumns(
            self.keys[start:stop],
            self.ids[start * ID : stop * ID],
            self.rest[start * size : stop * size],
        )

    def entry(self, i: int) -> Entry:
        """The entry in a row of a leaf."""
        content = Content(*_CONTENT.unpack_from(self.rest, i * _CONTENT.size))
        return Entry(self.keys[i], self.ids[i * ID : (i + 1) * ID], content)

    def entries(self) -> Iterator[Entry]:
        """The entries in the rows of a leaf."""
        contents = map(Content._make, _CONTENT.iter_unpack(self.rest))
        return map(Entry, self.keys, chain.from_iterable(_ID.iter_unpack(self.ids)), contents)


NO_ROWS = NodeColumns((), b"", b"")


class Row(NamedTuple):
    """One row without its key: an entry, or a child node."""

    id: bytes
    rest: bytes


@dataclass(frozen=True)  # no slots: results of verification are kept with the node
class Node:
    """A decoded node. Its own bytes were checked; `verify` also checks what the summary says of the
    rows."""

    digest: bytes
    level: int
    columns: NodeColumns
    summary: bytes
    size_bytes: int  # encoded

    @property
    def keys(self) -> Sequence[str]:
        return self.columns.keys

    @property
    def keys_digest(self) -> bytes:
        return self.summary[:ID]

    def id(self, i: int) -> bytes:
        return self.columns.ids[i * ID : (i + 1) * ID]

    def row_summary(self, i: int) -> bytes:
        return self.columns.rest[i * _SUMMARY.size : (i + 1) * _SUMMARY.size]

    def row_totals(self, i: int) -> Totals:
        """The totals of a child of an inner node."""
        _, partitions, *sums = _SUMMARY.unpack_from(self.columns.rest, i * _SUMMARY.size)
        return Totals(partitions, Content(*sums))

    def ids(self) -> Iterator[bytes]:
        return chain.from_iterable(_ID.iter_unpack(self.columns.ids))

    def keys_digests(self) -> Iterator[bytes]:
        """The digests of the keys below each child of an inner node."""
        return (
            self.columns.rest[i : i + ID] for i in range(0, len(self.columns.rest), _SUMMARY.size)
        )

    def blob(self) -> bytes:
        """The bytes that this was decoded from."""
        return _blob(self.level, self.columns, self.summary, *_key_section(self.keys))

    def verify(self) -> Summary:
        """The summary, once found true of the rows. Raises CorruptNode."""
        return self._verified

    @cached_property
    def _verified(self) -> Summary:
        prefix, block = _key_section(self.keys)
        if _summary(self.level, self.columns, prefix, block) != self.summary:
            raise corrupt(self.digest, "its summary is not that of its rows")
        keys, partitions, *sums = _SUMMARY.unpack(self.summary)
        return Summary(keys, Totals(partitions, Content(*sums)))


def corrupt(digest: bytes, why: str) -> CorruptNode:
    return CorruptNode(f"tree node {digest.hex()}: {why}")


def leaf_columns(entries: Iterable[Entry]) -> NodeColumns:
    """Raises ValueError where a fragment id is not 32 bytes or a number does not fit."""
    keys, fragments, contents = zip(*entries, strict=True)
    if set(map(len, fragments)) != {ID}:
        raise ValueError("a fragment id has 32 bytes")
    try:
        rest = struct.pack(f"<{3 * len(keys)}Q", *chain.from_iterable(contents))
    except struct.error as error:
        raise ValueError("a content is three whole numbers from 0 to 2^64 - 1") from error
    return NodeColumns(keys, b"".join(fragments), rest)


def check_columns(columns: NodeColumns) -> NodeColumns:
    """Rows of a leaf that the caller put into columns. Raises ValueError if these do not have the
    same length."""
    keys, ids, rest = columns
    if (len(ids), len(rest)) != (len(keys) * ID, len(keys) * _CONTENT.size):
        raise ValueError(
            f"{len(ids)} bytes of ids and {len(rest)} of contents are not those of {len(keys)} rows"
        )
    return NodeColumns(tuple(keys), bytes(ids), bytes(rest))


def leaf_row(entry: Entry) -> Row:
    """As `leaf_columns`, for one entry."""
    columns = leaf_columns((entry,))
    return Row(columns.ids, columns.rest)


def join(parts: Sequence[NodeColumns]) -> NodeColumns:
    if not parts:
        return NO_ROWS
    if len(parts) == 1:
        return parts[0]
    keys, ids, rest = zip(*parts, strict=True)
    return NodeColumns(tuple(chain.from_iterable(keys)), b"".join(ids), b"".join(rest))


def encode(level: int, columns: NodeColumns) -> tuple[Row, bytes]:
    """The node of these rows (at least one, keys ascending): its row in the parent, and its
    bytes."""
    prefix, block = _key_section(columns.keys)
    summary = _summary(level, columns, prefix, block)
    blob = _blob(level, columns, summary, prefix, block)
    return Row(node_digest(blob), summary), blob


def _blob(level: int, columns: NodeColumns, summary: bytes, prefix: bytes, block: bytes) -> bytes:
    head = _HEAD.pack(VERSION, level, len(columns.keys), len(prefix), len(block))
    return b"".join((head, summary, prefix, block, columns.ids, columns.rest))


def node_digest(blob: bytes) -> bytes:
    digest = sha256(NODE_TAG)
    digest.update(blob)
    return digest.digest()


ParsedKeys = dict[tuple[int, bytes], Sequence[str]]
"""Keys by the bytes that hold them: old and new versions of a leaf mostly have the same, parsed and
checked once."""


def decode(digest: bytes, blob: bytes, parsed: ParsedKeys) -> Node:
    """The node with this digest. Raises CorruptNode, naming it, unless the bytes are exactly what
    `encode` gives.

    Whether the summary is true of the rows is left to `Node.verify`: it depends on the writer of
    the node, not on how the bytes were kept, and nothing that is looked up depends on it.
    """
    if node_digest(blob) != digest:
        raise corrupt(digest, "its bytes have another digest")
    try:
        return _decode(digest, blob, parsed)
    except ValueError as error:
        raise corrupt(digest, str(error)) from error


def lone_child(blob: bytes) -> bytes | None:
    """The child's digest, if this is an inner node with one child only: no root of a canonical
    tree."""
    _, level, count, prefix_size, block_size = _HEAD.unpack_from(blob)
    start = _BODY + prefix_size + block_size
    return blob[start : start + ID] if level and count == 1 else None


def row_ids(digest: bytes, blob: bytes) -> tuple[int, list[bytes]]:
    """The level of a node and the ids of its rows, without a look at its keys. Raises CorruptNode
    for other bytes."""
    if node_digest(blob) != digest:
        raise corrupt(digest, "its bytes have another digest")
    _, level, count, prefix_size, block_size = _HEAD.unpack_from(blob)
    start = _BODY + prefix_size + block_size
    return level, list(chain.from_iterable(_ID.iter_unpack(blob[start : start + count * ID])))


def _decode(digest: bytes, blob: bytes, parsed: ParsedKeys) -> Node:
    if len(blob) < _BODY:
        raise ValueError("it is cut short")
    version, level, count, prefix_size, block_size = _HEAD.unpack_from(blob)
    if version != VERSION:
        raise ValueError(f"version {version} is unknown")
    if level > TOP:
        raise ValueError(f"no node has level {level}")
    ids = _BODY + prefix_size + block_size
    rest = ids + count * ID
    if count == 0 or len(blob) != rest + count * width(level):
        raise ValueError(f"{len(blob)} bytes do not hold {count} rows")
    at = prefix_size, blob[_BODY:ids]
    keys = parsed.get(at) or parsed.setdefault(at, _parse_keys(*at))
    if len(keys) != count:
        raise ValueError(f"{len(keys)} keys for {count} rows")
    return Node(
        digest,
        level,
        NodeColumns(keys, blob[ids:rest], blob[rest:]),
        blob[_HEAD.size : _BODY],
        len(blob),
    )


def _key_section(keys: Sequence[str]) -> tuple[bytes, bytes]:
    """Prefix and key bytes. The many keys without a line feed are joined as one text."""
    prefix = _shared_prefix(keys[0], keys[-1])
    text = "\n" + "\n".join(keys)
    if text.count("\n") == len(keys):
        return prefix.encode(), text.encode().replace(("\n" + prefix).encode(), _SEPARATOR)
    return prefix.encode(), b"".join(_SEPARATOR + key[len(prefix) :].encode() for key in keys)


def _parse_keys(prefix_size: int, section: bytes) -> Sequence[str]:
    prefix, block = section[:prefix_size], section[prefix_size:]
    if block[:1] != _SEPARATOR:
        raise ValueError("its keys do not begin with a separator")
    if b"\n" in section:
        keys = tuple((prefix + suffix).decode() for suffix in block.split(_SEPARATOR)[1:])
    else:
        keys = tuple(block.replace(_SEPARATOR, b"\n" + prefix).decode().split("\n")[1:])
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise ValueError("its keys do not ascend")
    if _shared_prefix(keys[0], keys[-1]).encode() != prefix:
        raise ValueError("its prefix is not what its keys share")
    return keys


def _shared_prefix(a: str, b: str) -> str:
    same = next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
    return a[:same]


def _summary(level: int, columns: NodeColumns, prefix: bytes, block: bytes) -> bytes:
    if level:
        below = b"".join(
            columns.rest[i : i + ID] for i in range(0, len(columns.rest), _SUMMARY.size)
        )
        sums = [sum(column) & MASK for column in zip(*_SUMS.iter_unpack(columns.rest), strict=True)]
    else:
        below = _PREFIX_SIZE.pack(len(prefix)) + prefix + block
        numbers = struct.unpack(f"<{3 * len(columns.keys)}Q", columns.rest)
        sums = [len(columns.keys), *(sum(numbers[i::3]) & MASK for i in range(3))]
    return _SUMMARY.pack(sha256(KEYS_TAG + bytes((level,)) + below).digest(), *sums)
