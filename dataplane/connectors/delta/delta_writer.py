"""The `write` kind for Delta tables elsewhere: each generation of a dataset is one commit, its
files copied before.

A write compares the table with the generation's fragments and commits the difference, so that an
interrupted write resumes where it ended, and a finished one changes nothing. Files are copied from
the lake as they are; the name of a copy contains the fragment that it holds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from dataplane.connectors.delta.log import snapshot
from dataplane.connectors.files.marker import MARKER, TEMPORARY, take
from dataplane.contract.claims import WriteTask
from dataplane.contract.delta_log import LOG
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import WriteJob
from dataplane.contract.results import FileEntry, WriteAnswer, file_names
from dataplane.contract.schemas import Schema, canonical_schema
from dataplane.fragments.arrow import check_whole
from dataplane.listing.local_files import local_path
from dataplane.storage.lake import Lake
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from deltalake import DeltaTable

TRIES = 5
ABANDONED_S = 86_400.0
THREADS = 4
_COPY = re.compile(r"[0-9a-f]{2}/([0-9a-f]{32})-[0-9]+/([^/]+)")


@contextmanager
def writing(job: WriteJob, lake: Lake) -> Iterator[Callable[[WriteTask], WriteAnswer]]:
    """The function that runs the `write` tasks of a claim."""
    Places.of(os.environ, lake.place("")).check_target(job["path"])
    target = DeltaTarget(Path(local_path(job["path"])), job["owner"], job["schema"], lake)
    target.open()
    yield target.sync


class FileCopies(NamedTuple):
    """A file of a fragment (32 hexadecimal digits), its name in it, and how often it is wanted."""

    fragment: str
    name: str
    copies: int
    entry: FileEntry


@dataclass(frozen=True, slots=True)
class TableChange:
    """Copies to be added (their paths, with the files in the lake), and paths to be removed."""

    adds: Mapping[str, FileEntry]
    removes: tuple[str, ...]


NOTHING = TableChange({}, ())


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """One table, owned. Every method may be repeated."""

    root: Path
    owner: str
    schema: Schema
    lake: Lake

    def open(self) -> None:
        """Make the folder ours. `target-owned` if it is another writer's, `target-occupied` if it
        is a table without any: we would remove all files that we do not know."""
        self.root.mkdir(parents=True, exist_ok=True)
        if not (self.root / MARKER).exists() and (self.root / LOG).exists():
            raise TaskFailure(
                "target-occupied",
                f"there is a Delta table in {self.root} that nothing here has written",
            )
        take(self.root, self.owner)
        sweep_unfinished(self.root, time() - ABANDONED_S)

    def sync(self, task: WriteTask) -> WriteAnswer:
        """Bring the table to a generation. Result: `{rows, bytes, version}`."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        entries = [
            FileCopies(f["id"], name, f["copies"], entry)
            for f in task["fragments"]
            for name, entry in zip(file_names(f["files"]), f["files"], strict=True)
        ]
        for _ in range(TRIES):
            try:
                version = self._once(task["generation"], entries)
            except CommitFailedError:
                continue  # another writer's commit came first: compare again
            except DeltaError as e:
                raise TaskFailure(
                    "target-unreadable", f"the Delta table {self.root}: {e}", "infrastructure"
                ) from e
            rows = sum(file.copies * file.entry["rows"] for file in entries)
            size = sum(file.copies * file.entry["size"] for file in entries)
            return {"rows": rows, "bytes": size, "version": version}
        raise TaskFailure("target-busy", f"others keep committing to {self.root}", "infrastructure")

    def _once(self, generation: int, entries: list[FileCopies]) -> int:
        from deltalake import DeltaTable

        table = DeltaTable(str(self.root)) if DeltaTable.is_deltatable(str(self.root)) else None
        present = (table.transaction_version(self.owner) if table else None) or 0
        if present > generation:
            message = f"{self.root} holds generation {present} of the dataset, which is later than {generation}"
            raise TaskFailure("target-ahead", message)
        relation = "new" if table is None else self._relation(table)
        active = {} if table is None else _active(table)
        change = difference(entries, active, is_replacement=relation == "other")
        if table and present == generation and relation == "same" and change == NOTHING:
            return table.version()
        self._copy(change.adds)
        failpoint("write-delta-copied")
        version = self._commit(table, relation, change, active, generation)
        failpoint("write-delta-committed")
        return version

    def _relation(self, table: DeltaTable) -> str:
        """How the table's schema becomes the wanted one: `same`, `widened` by columns at its end,
        or `other`.

        Also `other` where another writer's deletion vectors take rows out of files: a path is not
        enough to remove such a file.
        """
        if self._has_vectors(table):
            return "other"
        before = canonical_schema(json.loads(table.schema().to_json()))["fields"]
        after = self.schema["fields"]
        if before == after:
            return "same"
        return "widened" if after[: len(before)] == before else "other"

    def _has_vectors(self, table: DeltaTable) -> bool:
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return False
        return any(
            file.get("deletionVector") for file in snapshot(self.root, table.version()).files
        )

    # files

    def _copy(self, adds: Mapping[str, FileEntry]) -> None:
        """Files of which a whole copy is there already are left as they are."""
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda added: self._copy_one(*added), adds.items()))

    def _copy_one(self, path: str, entry: FileEntry) -> None:
        final = self.root / path
        if final.is_file() and final.stat().st_size == entry["size"]:
            return
        final.parent.mkdir(parents=True, exist_ok=True)
        fresh = final.parent / f"{TEMPORARY}{uuid4().hex}"
        try:
            self.lake.fetch(entry["path"], fresh)
            if fresh.stat().st_size != entry["size"]:
                raise OSError(f"{entry['path']} is not there with {entry['size']} bytes")
            check_whole(str(fresh), entry["path"])
            failpoint("write-delta-copying")
            fresh.rename(final)
        finally:
            fresh.unlink(missing_ok=True)

    # commits

    def _commit(
        self,
        table: DeltaTable | None,
        relation: str,
        change: TableChange,
        active: Mapping[str, int],
        generation: int,
    ) -> int:
        from deltalake import DeltaTable
        from deltalake.transaction import (
            CommitProperties,
            Transaction,
            create_table_with_add_actions,
        )

        properties = CommitProperties(
            custom_metadata={"generation": str(generation)},
            # The change holds for the version that it was found for, and no other
            max_commit_retries=0,
            app_transactions=[Transaction(self.owner, generation)],
        )
        if table is None or relation == "other":
            mode: Any = "error" if table is None else "overwrite"
            adds = [_add(path, entry) for path, entry in change.adds.items()]
            create_table_with_add_actions(
                str(self.root), self._schema(), adds, mode=mode, commit_properties=properties
            )
            return DeltaTable(str(self.root)).version()
        if relation == "widened":
            field_count = len(table.schema().fields)
            added = self._schema().fields[field_count:]
            table.alter.add_columns(added, commit_properties=CommitProperties(max_commit_retries=0))
        return self._swap(table, change, active, properties)

    def _swap(
        self, table: DeltaTable, change: TableChange, active: Mapping[str, int], properties: Any
    ) -> int:
        from deltalake.transaction import RemoveAction

        now_ms = int(time() * 1000)
        actions: list[Any] = [_add(path, entry) for path, entry in change.adds.items()]
        actions += [RemoveAction(path, True, now_ms, active[path], {}) for path in change.removes]
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=properties
        )
        return table.version() + 1

    def _schema(self) -> Any:
        from deltalake import Schema as DeltaSchema

        try:
            return DeltaSchema.from_json(json.dumps(self.schema))
        except ValueError as e:
            raise TaskFailure(
                "not-supported", f"a Delta table cannot hold these columns: {e}"
            ) from e


def difference(
    entries: Iterable[FileCopies],
    active: Mapping[str, int],
    *,
    is_replacement: bool,
) -> TableChange:
    """The change from the active paths (with their sizes) to these files, each so many times. With
    the flag set, at fresh paths, in place of all active ones. No path is added that is active."""
    copies: dict[tuple[str, str], list[str]] = {}
    for path in () if is_replacement else sorted(active):
        if name_match := _COPY.fullmatch(path):
            copies.setdefault((name_match[1], name_match[2]), []).append(path)
    adds: dict[str, FileEntry] = {}
    keeping: set[str] = set()
    for id, name, needed, entry in entries:
        reused = [p for p in copies.get((id, name), ()) if active[p] == entry["size"]][:needed]
        keeping.update(reused)
        free = (p for n in count() if (p := f"{id[:2]}/{id}-{n}/{name}") not in active)
        adds.update(dict.fromkeys(islice(free, needed - len(reused)), entry))
    return TableChange(adds, tuple(sorted(active.keys() - keeping)))


def _active(table: DeltaTable) -> dict[str, int]:
    actions = table.get_add_actions()
    return dict(
        zip(
            actions.column("path").to_pylist(),
            actions.column("size_bytes").to_pylist(),
            strict=True,
        )
    )


def _add(path: str, entry: FileEntry) -> Any:
    from deltalake.transaction import AddAction

    stats = json.dumps(entry["stats"] or {"numRecords": entry["rows"]}, allow_nan=False)
    return AddAction(path, entry["size"], {}, int(time() * 1000), True, stats)


def sweep_unfinished(root: Path, before_s: float) -> None:
    """Remove the files that an interrupted copy left behind before a point in time."""
    for left in root.glob(f"*/*/{TEMPORARY}*"):
        if left.stat().st_mtime < before_s:
            left.unlink(missing_ok=True)
