"""Checks of the database: trees, the fragments that entries name, the counts of states, files in
the lake.

Streams: memory holds a window of nodes and one number for each node. Changes nothing, and repairs
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.memos import misread_in
from controlplane.core.model.retention import Files, Pointer, PointerKind, Stored
from controlplane.core.model.tasks import Fragment
from controlplane.operations.upkeep.orphans import unknown_tables
from controlplane.operations.upkeep.pointers import with_roots
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx
from dataplane.contract.results import FileEntry

LIMIT = 1_000  # findings that are reported
A_TIME = 500  # files whose fragments are looked up together
OF_DATASETS: tuple[PointerKind, ...] = ("state", "building", "build")
# Trees that may be of listings, or of written rows
OTHERS: tuple[PointerKind, ...] = ("input", "target", "task")

AGAIN = "headgate fsck --repair: what is still wanted is made again; older generations go in time"
RESTORE = "restore the database from a backup; the files in the lake are untouched"
FIXES = {
    "corrupt-node": RESTORE,
    "content-differs": RESTORE,
    "file-damaged": "headgate fsck --contents --repair: what is still wanted is made again",
    "file-gone": AGAIN,
    "file-size-differs": AGAIN,
    "fragment-missing": AGAIN,
    "fragment-not-stored": AGAIN,
    "head-without-state": RESTORE,
    "pack-gone": "headgate fsck --repair: nothing is lost, and packs are made again",
    "source-missing": "headgate refresh DATASET: the next listing writes it again",
    "table-unknown": "delete the folder; or nothing: it goes when a service starts after a crash",
    "totals-differ": RESTORE,
    "types-misread": "nothing: it has been read anew since, or could not be, which `headgate status` says",
    "trace-without-fragment": "nothing: the task runs again when its result is wanted",
}
REPAIRED = frozenset(code for code, fix in FIXES.items() if fix == AGAIN)

Damages: TypeAlias = Callable[[Iterable[Fragment]], Iterator[tuple[Fragment, str, str]]]
"""Reads fragments, and gives those that are not as they were written: with the file, and what is
wrong with it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One inconsistency: a stable code, its place, a description, and its remedy."""

    code: str
    where: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class RowCheck:
    """All rows of the lake are to be read: those of one dataset's fragments, or of all."""

    damages: Damages
    dataset: str | None = None

    def damaged(self, tx: Tx) -> Iterator[tuple[Fragment, str, str]]:
        return self.damages(self._fragments(tx))

    def _fragments(self, tx: Tx) -> Iterator[Fragment]:
        for some in _by_files(of for of in tx.traces.files() if of.files):
            by_id = tx.traces.fragments(some)
            yield from (f for f in by_id.values() if self.dataset in (None, f.home))


def _by_files(stored: Iterable[Files]) -> Iterator[list[bytes]]:
    """Fragments in batches of A_TIME files, or of one fragment with more."""
    batch: list[bytes] = []
    size = 0
    for of in stored:
        if batch and size + len(of.files) > A_TIME:
            yield batch
            batch, size = [], 0
        batch.append(of.fragment)
        size += len(of.files)
    if batch:
        yield batch


def fsck(
    store: Store,
    namespace: str,
    lake: ObjectStore | None = None,
    *,
    limit: int = LIMIT,
    reading: RowCheck | None = None,
    types: bool = False,
) -> tuple[Finding, ...]:
    """The first `limit` findings of one snapshot; none if all is well. With the lake, missing files
    are found, too; with a `reading` their rows are compared with the measures of when they were
    written. `types`: also values that an earlier version misread."""
    audited: set[int] = set()  # tree nodes, so that none is looked at twice
    with store.read(namespace) as tx:
        trees = (_datasets(tx, audited), _listings(tx, audited), _others(tx, audited))
        of_lake = (_files(tx, lake), _tables(tx, lake, namespace))
        findings = chain(
            _heads(tx),
            *trees,
            _traces(tx),
            *of_lake,
            _contents(tx, reading),
            _misread(tx, types=types),
        )
        return tuple(islice(findings, limit))


def _finding(code: str, where: object, what: str) -> Finding:
    return Finding(code, str(where), what, FIXES[code])


def _heads(tx: Tx) -> Iterator[Finding]:
    for branch, dataset, seq in tx.upkeep.loose_heads():
        yield _finding(
            "head-without-state", f"{branch}/{dataset}", f"its newest state {seq} is not there"
        )


# --- trees ----------------------------------------------------------------------------------------


def _datasets(tx: Tx, audited: set[int]) -> Iterator[Finding]:
    for pointer, nodes in with_roots(tx, tx.upkeep.pointers(OF_DATASETS)):
        is_whole = True
        for audit_step in tree.audit(nodes, pointer.root, audited):
            if isinstance(audit_step, CorruptNode):
                is_whole = False
                yield _finding("corrupt-node", pointer, str(audit_step))
            else:
                yield from _entries(tx, pointer, audit_step)
        if is_whole and pointer.holder == "state":
            yield from _totals(nodes, pointer)


def _entries(tx: Tx, pointer: Pointer, entries: tuple[tree.Entry, ...]) -> Iterator[Finding]:
    stored = tx.traces.stored(dict.fromkeys(e.fragment for e in entries))
    for entry in entries:
        yield from _entry(f"{pointer}, partition {entry.key!r}", entry, stored.get(entry.fragment))


def _entry(where: str, entry: tree.Entry, fragment: Stored | None) -> Iterator[Finding]:
    name = f"fragment {entry.fragment.hex()}"
    if fragment is None:
        yield _finding("fragment-missing", where, f"{name} is not there")
    elif fragment.status != "stored":
        yield _finding("fragment-not-stored", where, f"{name} is {fragment.status}")
    elif fragment.content != entry.content:
        yield _finding(
            "content-differs", where, f"{name} has {fragment.content} and not {entry.content}"
        )


def _totals(nodes: tree.NodeStore, pointer: Pointer) -> Iterator[Finding]:
    try:
        totals = tree.totals(nodes, pointer.root)
    except CorruptNode:
        return  # of a node that another pointer led to, and that was reported there
    counted, recorded = (totals.partitions, totals.content.rows), (pointer.partitions, pointer.rows)
    if counted != recorded:
        what = f"it says {recorded[0]} partitions and {recorded[1]} rows; its tree has {counted[0]} and {counted[1]}"
        yield _finding("totals-differ", pointer, what)


def _listings(tx: Tx, audited: set[int]) -> Iterator[Finding]:
    """Each with its own entries, even where two have nodes in common."""
    for pointer, nodes in with_roots(tx, tx.upkeep.pointers(["listing"])):
        its: set[int] = set()
        for audit_step in tree.audit(nodes, pointer.root, its):
            if isinstance(audit_step, CorruptNode):
                yield _finding("corrupt-node", pointer, str(audit_step))
            else:
                yield from _sources(tx, pointer, audit_step)
        audited |= its


def _sources(tx: Tx, pointer: Pointer, entries: tuple[tree.Entry, ...]) -> Iterator[Finding]:
    id = bytes.fromhex(pointer.name)
    listing = tx.listings.get([id]).get(id)
    if listing is None or listing.look is not None:  # a plan's has what differs from the shared one
        return
    stored = tx.listings.partitions(id, [e.key for e in entries])
    for entry in entries:
        part = stored.get(entry.key)
        if part is None or part.source != entry.fragment:
            is_there = "another one is there" if part else "nothing is there"
            what = f"the source objects {entry.fragment.hex()} are to be there; {is_there}"
            yield _finding("source-missing", f"{pointer}, partition {entry.key!r}", what)


def _others(tx: Tx, audited: set[int]) -> Iterator[Finding]:
    for pointer, nodes in with_roots(tx, tx.upkeep.pointers(OTHERS)):
        for audit_step in tree.audit(nodes, pointer.root, audited):
            if isinstance(audit_step, CorruptNode):
                yield _finding("corrupt-node", pointer, str(audit_step))


# --- memory and files -----------------------------------------------------------------------------


def _traces(tx: Tx) -> Iterator[Finding]:
    for task, fragment in tx.traces.loose_outputs():
        yield _finding(
            "trace-without-fragment",
            f"trace {task.hex()}",
            f"fragment {fragment.hex()} is not there",
        )


def _misread(tx: Tx, *, types: bool) -> Iterator[Finding]:
    for dataset, partition, answer in tx.traces.footers() if types else ():
        for column in misread_in(answer):
            what = f"column {column['column']} is {column['have']} in the file, and was read as {column['read']}"
            yield _finding(
                "types-misread", f"{dataset}, partition {partition!r}, {column['file']}", what
            )


def _files(tx: Tx, lake: ObjectStore | None) -> Iterator[Finding]:
    if lake is None:
        return
    for of, file, size in lost_files(tx, lake):
        where = f"fragment {of.fragment.hex()}, {file['path']}"
        if size is None:
            yield _finding(
                "pack-gone" if of.is_pack else "file-gone", where, "the file is not there"
            )
        else:
            code = "pack-gone" if of.is_pack else "file-size-differs"
            yield _finding(code, where, f"the file has {size} bytes and not {file['size']}")


def _tables(tx: Tx, lake: ObjectStore | None, namespace: str) -> Iterator[Finding]:
    if lake is not None:
        for path in unknown_tables(tx, lake, namespace):
            yield _finding("table-unknown", path, "no branch that is known of has a table here")


def _contents(tx: Tx, reading: RowCheck | None) -> Iterator[Finding]:
    if reading is None:
        return
    for fragment, path, what in reading.damaged(tx):
        yield _finding(
            "file-damaged", f"fragment {fragment.id.hex()} of {fragment.home}, {path}", what
        )


def lost_files(tx: Tx, lake: ObjectStore) -> Iterator[tuple[Files, FileEntry, int | None]]:
    """Files of stored fragments that are not there (None), or that have another size: this one."""
    named = (of for of in tx.traces.files() if of.files)
    for attempt, fragments in groupby(named, key=lambda of: of.attempt):
        sizes: dict[str, dict[str, int]] = {}  # by folder: what one attempt wrote there
        for of in fragments:
            for file in of.files:
                folder = _folder(file["path"], attempt)
                if folder not in sizes:
                    sizes[folder] = lake.sizes(folder)
                size = sizes[folder].get(file["path"])
                if size != file["size"]:
                    yield of, file, size


def _folder(path: str, attempt: str) -> str:
    """`<namespace>/<flow>/<dataset>/_frags/<aa>/<attempt>`."""
    before, separator, _ = path.partition(f"/{attempt}/")
    return f"{before}{separator}".rstrip("/") if separator else path.rpartition("/")[0]
