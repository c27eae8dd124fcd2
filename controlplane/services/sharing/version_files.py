"""The files of a version, and those that came and went with versions, page by page.

Roots do not change, so each page is a transaction of its own: none is held while a client takes a
page. A changed partition is reported as all of its old files and all of its new ones: exact, if
coarse, and no row is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from controlplane.core import tree
from controlplane.core.errors import GenerationGone
from controlplane.core.model.roll_ups import change_groups, file_batches, is_span, with_other_rows
from controlplane.core.records.pruning import may_match, of_file
from controlplane.core.s3.part_names import part_name
from controlplane.core.sharing import hints
from controlplane.core.sharing.lines import Kind
from controlplane.core.sharing.sharing_requests import WantedSnapshot
from controlplane.core.tree import EMPTY_ROOT, Entry, EntryChange, NodeCache
from controlplane.ports.store import Store, Tx
from controlplane.services.sharing.recipient_tables import TableVersion, VersionSpan
from dataplane.contract.results import FileEntry

BATCH = 1000  # partitions whose files are read at a time
NODE_BYTES = 64 << 20
EVERY = WantedSnapshot()


class VersionFile(NamedTuple):
    """`name`: in the folder of the version `of` in the S3 view. The last field is the version that
    it came or went with."""

    kind: Kind
    name: str
    entry: FileEntry
    of: int
    version: TableVersion


class VersionFiles:
    """Files of any dataset of one namespace. Safe to use from many threads."""

    def __init__(self, store: Store, namespace: str = "default") -> None:
        self._store, self._namespace = store, namespace
        self._nodes = NodeCache(NODE_BYTES)

    def of_version(
        self, version: TableVersion, request: WantedSnapshot = EVERY
    ) -> Iterator[list[VersionFile]]:
        """Pages of its files: those that may hold rows within the hints, or as many as hold the
        limit's number of rows. Raises GenerationGone if it is collected in the meantime."""
        schema, limit = version.state.schema, request.limit
        condition = hints.condition_of(request.texts, request.tree, schema)
        left, after = limit, None
        while left is None or left > 0:
            with self._store.read(self._namespace) as tx:
                entries = self._page(tx, version.state.root, after)
                if not entries:
                    return
                version_files = list(
                    _files(tx, [("file", entry, version.number) for entry in entries], version)
                )
            if condition is not None:
                version_files = [
                    version_file
                    for version_file in version_files
                    if may_match(condition, of_file(version_file.entry, schema))
                ]
            if left is not None:
                version_files, left = _enough(version_files, left)
            yield version_files
            after = entries[-1].key

    def _page(self, tx: Tx, root: bytes, after: str | None) -> list[Entry]:
        entries = tree.scan(self._nodes.over(tx.nodes), root, start=after or "")
        following = (entry for entry in entries if entry.key != after)
        return next(file_batches(following, BATCH), [])

    def of_span(self, span: VersionSpan) -> Iterator[list[VersionFile]]:
        """Pages of files that came and went, version by version. Raises GenerationGone."""
        for before, version in pairwise([span.before, *span.versions]):
            assert version is not None
            yield from self._changes(before, version)

    def _changes(
        self, before: TableVersion | None, version: TableVersion
    ) -> Iterator[list[VersionFile]]:
        old, after = EMPTY_ROOT if before is None else before.state.root, None
        is_like = before is not None and before.state.schema == version.state.schema
        while True:
            with self._store.read(self._namespace) as tx:
                changes = tree.diff(
                    self._nodes.over(tx.nodes), old, version.state.root, start=after or ""
                )
                page = _page_of(change for change in changes if change.key != after)
                if not page:
                    return
                # Rows that only moved to other files are no change
                rows = with_other_rows(page) if is_like else page
                sides = _sides(rows, 0 if before is None else before.number, version)
                files = list(_files(tx, sides, version))
            yield files
            after = page[-1].key


def _page_of(changes: Iterable[EntryChange]) -> list[EntryChange]:
    """Changes whose files can be read together; those of a span and of its slices are not
    divided."""
    page: list[EntryChange] = []
    for group in change_groups(changes):
        page += group
        if len(page) >= BATCH or is_span(page[-1].key) or len(group) > 1:
            break
    return page


def _sides(
    page: Iterable[EntryChange], before: int, version: TableVersion
) -> list[tuple[Kind, Entry, int]]:
    """The removed and the added files."""
    sides: list[tuple[Kind, Entry, int]] = []
    for _, old, new in page:
        if old is not None:
            sides.append(("remove", old, before))
        if new is not None:
            sides.append(("add", new, version.number))
    return sides


def _files(
    tx: Tx, sides: Sequence[tuple[Kind, Entry, int]], version: TableVersion
) -> Iterator[VersionFile]:
    fragments = tx.traces.fragments({entry.fragment for _, entry, _ in sides})
    for kind, entry, of in sides:
        if entry.fragment not in fragments:
            raise GenerationGone(f"version {of} is not kept any more")
        for number, file in enumerate(fragments[entry.fragment].files):
            yield VersionFile(
                kind, part_name(entry.key, number, entry.fragment.hex()), file, of, version
            )


def _enough(files: list[VersionFile], rows: int) -> tuple[list[VersionFile], int]:
    """The first files that have so many rows, and how many are still wanted."""
    first_files = []
    for file in files:
        if rows <= 0:
            break
        first_files.append(file)
        rows -= file.entry["rows"]
    return first_files, rows
