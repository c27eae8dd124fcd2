"""A worker's listing of a location, read as a stream, and how that differs from the known one.

All of it happens before the transaction that takes it in, and nothing is held that grows with the
location: new nodes of the tree and changed partitions wait in temporary files.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, TypeAlias

from controlplane.core import tree, wire
from controlplane.core.errors import NotFound
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.ports.lake import ObjectStore
from dataplane.contract.encoding import digest
from dataplane.contract.identity import Content
from dataplane.contract.source_objects import ListingResult, listing_head, listing_line

IN_MEMORY_BYTES = 1 << 20  # of a temporary file
SOURCES_AT_A_TIME = 500_000
BLOCK_BYTES = 1 << 16  # of text at a time
LINE_BYTES = 64 << 20  # of one line: a partition of some 100,000 objects
LONGEST_PROBLEM = 1_000  # characters
_GZIP = 31

Lines: TypeAlias = Callable[[], Iterator[bytes]]
Changes: TypeAlias = Callable[[], Iterator[tree.EntryChange]]


class Damaged(ValueError):
    """The result that arrived differs from the one that the worker wrote."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The location is as it was when `base` was built."""

    base: bytes

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ListingDiff:
    """What leads from the tree `base` to the tree `root`, which is not stored yet. To be closed."""

    base: bytes
    root: bytes
    digest: bytes
    totals: Content  # objects and bytes under the new root
    columns: tuple[tuple[str, ...] | None, ...]
    all_columns: bool
    changed: int  # partitions
    before: int  # objects under `base`
    # Objects of partitions that are gone; those that only moved count, where a loss is no question
    removed: int
    _records: IO[bytes]  # in order of keys: lines of the listing, and keys (JSON) that are gone

    def edits(self) -> Iterator[tuple[str, tree.Entry | None]]:
        for record in self._all():
            yield (json.loads(record), None) if _is_gone(record) else _edit(record)

    def partitions(self) -> Iterator[SourcePartition]:
        """Those that came or changed. Raises Damaged."""
        for record in self._all():
            if not _is_gone(record):
                yield _partition(record)

    def gone_keys(self) -> Iterator[str]:
        return (json.loads(record) for record in self._all() if _is_gone(record))

    def _all(self) -> Iterator[bytes]:
        self._records.seek(0)
        return iter(self._records)

    def close(self) -> None:
        self._records.close()


Found: TypeAlias = Unchanged | ListingDiff


def is_too_much(removed: int, before: int, deletes_max: float) -> bool:
    """Compares with the share exactly as it is written: 0.29 of 100 objects are 29."""
    return removed > Fraction(str(deletes_max)) * before


def compare(
    nodes: tree.NodeStore, listing: Listing, result: ListingResult, lines: Lines, deletes_max: float
) -> Found:
    """How the location changed. An equal digest is no change, and nothing else is examined. Raises
    Damaged.

    A worker that finds the known digest again reports no partitions. If another listing has become
    known meanwhile, the answer is the same as for a tree that is gone, and the caller requests a
    new listing.

    `deletes_max`: the share of objects up to which it does not matter if they are gone or only
    moved.
    """
    base, (digest, columns, all_columns) = (
        listing.root or tree.EMPTY_ROOT,
        _digest_and_columns(result),
    )
    if "after" in result:
        return _added(nodes, listing, result, lines())
    if listing.root is not None and listing.digest == digest:
        return Unchanged(base)
    if "partitions" not in result and "file" not in result:
        return Unchanged(b"")
    with ExitStack() as files:
        records = files.enter_context(_temporary())
        with _temporary() as file:
            draft = DraftNodes(nodes, file)
            root = _build(draft, _checked(lines(), digest))
            changes = partial(tree.diff, draft, base, root)
            changed, removed, shrunk = _record(changes(), lines(), records)
            before, after = (tree.totals(draft, tree_root).content for tree_root in (base, root))
            if is_too_much(removed, before.rows, deletes_max):
                removed = min(removed, lost(changes, changed) + shrunk)
        files.pop_all()
    return ListingDiff(
        base,
        root,
        digest,
        totals=after,
        columns=columns,
        all_columns=all_columns,
        changed=changed,
        before=before.rows,
        removed=removed,
        _records=records,
    )


def _added(
    nodes: tree.NodeStore, listing: Listing, result: ListingResult, lines: Iterator[bytes]
) -> Found:
    """What a growing listing has more than the one before it."""
    base, (own, columns, all_columns) = listing.root or tree.EMPTY_ROOT, _digest_and_columns(result)
    last = tree.last(nodes, base)
    if (last.key if last else None) != result["after"]:
        raise Damaged("it does not go on where the listing before it ended")
    if listing.root is not None and not result["objects"]:
        return Unchanged(base)
    with ExitStack() as files:
        records = files.enter_context(_temporary())
        with _temporary() as file:
            draft = DraftNodes(nodes, file)
            root, changed = _extended(draft, base, result["after"], _checked(lines, own), records)
            totals = tree.totals(draft, root).content
        files.pop_all()
    new_digest = digest("added/1", before=listing.digest, more=own)
    all_known_columns = tuple(dict.fromkeys((*listing.columns, *columns)))
    every = all_columns and listing.all_columns
    return ListingDiff(
        base,
        root,
        new_digest,
        totals=totals,
        columns=all_known_columns,
        all_columns=every,
        changed=changed,
        before=listing.objects,
        removed=0,
        _records=records,
    )


def _extended(
    draft: DraftNodes, base: bytes, after: str | None, lines: Iterator[bytes], records: IO[bytes]
) -> tuple[bytes, int]:
    """The root with these lines at the end, and their number; they are written down, too."""
    edits = []
    try:
        for line in lines:
            records.write(line)
            edits.append(_edit(line))
        if edits and after is not None and edits[0][0] <= after:
            raise Damaged(f"{edits[0][0]!r} does not come after {after!r}")
        return tree.edit(draft, base, edits), len(edits)
    except Damaged:
        raise
    except (
        ValueError,
        TypeError,
        AttributeError,
    ) as e:  # no line of a listing, or keys out of order
        raise Damaged(str(e)) from e


def _temporary() -> IO[bytes]:
    return SpooledTemporaryFile(IN_MEMORY_BYTES)


# --- lines ----------------------------------------------------------------------------------------


def lines_of(result: ListingResult, lake: ObjectStore, prefix: str) -> Iterator[bytes]:
    """The lines of a listing, each with its end. Raises Damaged; their contents are not checked."""
    if "file" not in result:
        return map(listing_line, result["partitions"])
    return _lines(_unzipped(lake, f"{prefix}/{result['file']}"))


def _unzipped(lake: ObjectStore, path: str) -> Iterator[bytes]:
    unzip = zlib.decompressobj(wbits=_GZIP)
    try:
        for piece in lake.stream(path):
            while piece:
                yield unzip.decompress(piece, BLOCK_BYTES)
                piece = unzip.unconsumed_tail
        yield unzip.flush()
    except (NotFound, zlib.error) as e:
        raise Damaged(str(e)) from e
    if not unzip.eof:
        raise Damaged("it is cut short")


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    started: list[bytes] = []
    size = 0
    for block in blocks:
        *ends, rest = block.split(b"\n")
        for end in ends:
            yield b"".join((*started, end, b"\n"))
            started.clear()
            size = 0
        started.append(rest)
        size += len(rest)
        if size > LINE_BYTES:
            raise Damaged(f"a line of it has more than {LINE_BYTES} bytes")
    if any(started):
        raise Damaged("its last line has no end")


def _digest_and_columns(
    result: ListingResult,
) -> tuple[bytes, tuple[tuple[str, ...] | None, ...], bool]:
    """Digest, columns and whether these are all."""
    try:
        columns = tuple(None if names is None else tuple(names) for names in result["columns"])
        return bytes.fromhex(result["digest"]), columns, result["all_columns"]
    except (KeyError, TypeError, ValueError) as e:
        raise Damaged(f"it is no result of a listing: {e!r}") from e


def _checked(lines: Iterator[bytes], digest: bytes) -> Iterator[bytes]:
    """The lines; Damaged after the last if they are not those that the worker digested."""
    hasher = sha256()
    for line in lines:
        hasher.update(line)
        yield line
    if hasher.digest() != digest:
        raise Damaged("its digest is not the one that was reported")


def _edit(line: bytes) -> tuple[str, tree.Entry]:
    try:
        key, source, content = listing_head(line)
        wire.listed_head(key, source, content)
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        raise Damaged(f"a line of it is none of a listing: {e}"[:LONGEST_PROBLEM]) from e
    return key, tree.Entry(key, source, content)


def _partition(line: bytes) -> SourcePartition:
    key, source, _ = listing_head(line)
    try:
        objects = json.loads(line)["objects"]
        source_objects = tuple(
            wire.source_object(source_object, f"an object of {key!r}") for source_object in objects
        )
    except (ValueError, TypeError, RecursionError) as e:
        raise Damaged(str(e)) from e
    return SourcePartition(key, source, source_objects)


def _is_gone(record: bytes) -> bool:
    return record.startswith(b'"')


# --- trees ----------------------------------------------------------------------------------------


class DraftNodes:
    """A NodeStore over another one: new nodes go to a temporary file."""

    def __init__(self, below: tree.NodeStore, file: IO[bytes]) -> None:
        self._below, self._file = below, file
        self._places: dict[bytes, tuple[int, int]] = {}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        for id, body in nodes.items():
            if id not in self._places:
                self._places[id] = (self._file.seek(0, os.SEEK_END), len(body))
                self._file.write(body)

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        own = {
            digest: self._read(*self._places[digest])
            for digest in digests
            if digest in self._places
        }
        others = [digest for digest in digests if digest not in own]
        return {**self._below.get_nodes(others), **own} if others else own

    def _read(self, place: int, size: int) -> bytes:
        self._file.seek(place)
        return self._file.read(size)


def _build(draft: DraftNodes, lines: Iterator[bytes]) -> bytes:
    try:
        return tree.build(draft, (entry for _, entry in map(_edit, lines)))
    except Damaged:
        raise
    except (
        ValueError,
        TypeError,
        AttributeError,
    ) as e:  # no line of a listing, or keys out of order
        raise Damaged(str(e)) from e


def _record(
    changes: Iterator[tree.EntryChange], lines: Iterator[bytes], records: IO[bytes]
) -> tuple[int, int, int]:
    """Write the changes to the records. Returns the number of changes, of objects that are gone,
    and how many of these from partitions of several. Such ones may be dealt out in other ways, so
    of them fewer ones are gone ones."""
    changed = removed = several = 0
    for key, before, after in changes:
        changed += 1
        records.write(json.dumps(key).encode() + b"\n" if after is None else _line_of(key, lines))
        was, now = (entry.content.rows if entry else 0 for entry in (before, after))
        if max(was, now) > 1:
            several += was - now
        elif after is None:
            removed += was
    return changed, removed + max(several, 0), max(several, 0)


def _line_of(key: str, lines: Iterator[bytes]) -> bytes:
    """The next line with this key; others are passed over unread."""
    start = b'{"key":%b,' % json.dumps(key).encode()
    line = next((line for line in lines if line.startswith(start)), None)
    if line is None:
        raise Damaged(f"no line of it has the key {key!r}")
    return line


def lost(changes: Changes, changed: int, at_a_time: int = SOURCES_AT_A_TIME) -> int:
    """Objects that are gone and came back under no other key. Sources are compared in shares that
    fit into memory."""
    shares = changed // at_a_time + 1
    return sum(_lost_of_share(changes, share, shares) for share in range(shares))


def _lost_of_share(changes: Changes, share: int, shares: int) -> int:
    def is_mine(entry: tree.Entry) -> bool:
        return _short(entry) % shares == share

    arrived = {_short(c.after) for c in changes() if c.after is not None and is_mine(c.after)}
    removed = (
        c.before
        for c in changes()
        if c.after is None and c.before is not None and is_mine(c.before)
    )
    return sum(entry.content.rows for entry in removed if _short(entry) not in arrived)


def _short(entry: tree.Entry) -> int:
    return int.from_bytes(entry.fragment[:8], "big")
