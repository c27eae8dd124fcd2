"""The process that writes Delta logs, so that others need not load deltalake: `-m
controlplane.lake.publish_child`.

Reads one JSON request a line, answers one JSON line, ends at the end of its input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from controlplane.core.errors import NotFound
from controlplane.lake import log_damage
from controlplane.lake.lake_objects import open_lake, storage_options
from controlplane.lake.table_difference import (
    Add,
    FileKey,
    TableDiff,
    WantedFile,
    WantedFragment,
    difference,
    relation,
    replacement,
    unpublishable,
    wanted_files,
)
from controlplane.ports.lake import ObjectStore
from dataplane.contract.delta_log import LOG, checkpoint_name, commit_name
from dataplane.contract.failpoints import failpoint
from dataplane.contract.results import FileEntry

LAST = 2**63 - 2  # the version after which there is none
FAR = 32_503_680_000_000  # 3000-01-01 in milliseconds: VACUUM is never to delete what we removed
TRIES = 5
APP = "headgate"
OURS = "_frags/"  # starts the paths of files that only we have written
FEED = "delta.enableChangeDataFeed"
CHECKPOINT_INTERVAL = 20  # commits
CHECKPOINTS_KEPT = 50  # of the newest versions, and one in so many of older ones
PROPERTIES = {
    FEED: "true",
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.logRetentionDuration": "interval 3650 days",
}


class CommitRefused(Exception):
    """A table that no further attempt can publish."""


class TablePublication:
    """One request at work on one table. `may_commit` is called after each read of it: False ends
    the work."""

    def __init__(self, request: Mapping[str, Any], may_commit: Callable[[], bool]) -> None:
        self._may_commit = may_commit
        self.notice: str | None = None
        self.lake: ObjectStore = open_lake(request["lake"])
        self.path: str = request["table"]
        self.location = _location(self.lake.uri, self.path)
        self.options = storage_options(self.lake.uri)
        self.schema_json = request["schema"]
        self.schema = _schema(request["schema"])
        fragments = [WantedFragment(f["id"], tuple(f["files"])) for f in request["fragments"]]
        self.generation: int = request["generation"]
        self.is_layout: bool = request["is_layout"]
        self.is_passing: bool = request["is_passing"]
        lake = _address(self.lake.uri) if request["borrows"] else ""
        self.ours = (OURS, f"{lake}/") if lake else (OURS,)
        self.files_by_key: dict[FileKey, WantedFile] = wanted_files(self.path, fragments, lake)
        self.commit = CommitProperties(
            custom_metadata={"generation": self.generation, "dataset": request["dataset"]},
            # The difference holds for the version that it was taken from, and no other
            max_commit_retries=0,
            app_transactions=[Transaction(APP, self.generation)],
        )

    def run(self) -> int:
        """Commit until the table is as wanted; a commit of another writer in between means another
        try."""
        for _ in range(TRIES):
            try:
                return self._once()
            except CommitFailedError as e:
                conflict = e
        raise OSError(f"others keep committing to {self.location}: {conflict}")

    def _ask(self) -> None:
        if not self._may_commit():
            raise EOFError("nobody waits for this publication any more")

    def _once(self) -> int:
        if not self._is_there():
            return -1 if self.is_passing else self._first()
        try:
            table = self._open()
            _active(table)
        except DeltaError:
            log = log_damage.examine(self.lake, self.path)
            if log.damage is None:
                raise
            return -1 if self.is_passing else self._made_again(log)
        if self.is_passing and (table.transaction_version(APP) or 0) > self.generation:
            return table.version()
        match relation(json.loads(table.schema().to_json()), self.schema_json):
            case occupant if occupant == "other" or _is_foreign(table):
                return self._overwrite(table, _active(table))
            case "widened":
                self._widen(table)
        return self._swap(table, difference(self.files_by_key, _active(table)))

    def _is_there(self) -> bool:
        return DeltaTable.is_deltatable(self.location, self.options)

    def _first(self) -> int:
        try:
            return self._create(difference(self.files_by_key, {}))
        except DeltaError as e:
            if self._is_there():
                raise CommitFailedError("another writer has made the table") from e
            raise

    def _create(self, change: TableDiff) -> int:
        self._link(change.adds)
        self._ask()
        failpoint("publish-before-log")
        self._make(self.location, change.adds, self.options)
        failpoint("publish-after-log")
        return self._open().version()

    def _make(
        self, location: str, adds: Iterable[Add], options: Mapping[str, str] | None = None
    ) -> None:
        create_table_with_add_actions(
            location,
            self.schema,
            [_add(a) for a in adds],
            mode="error",
            configuration=PROPERTIES,
            commit_properties=self.commit,
            storage_options=dict(options or {}),
        )

    def _overwrite(self, table: DeltaTable, active: Mapping[str, int]) -> int:
        """Write the entry that the library would write, but over the version that was read, and no
        other: the library overwrites the newest version of that moment."""
        change = replacement(self.files_by_key, active)
        self._link(change.adds)
        version, metadata, logged = table.version() + 1, table.metadata(), _logged(table)
        removes = {logged[p]: active[p] for p in change.removes}
        feed = metadata.configuration.get(FEED, "true")
        entry, _ = self._again(str(metadata.id), change.adds, removes, feed=feed)
        self._ask()
        failpoint("publish-before-log")
        if not self.lake.put_if_absent(f"{self.path}/{LOG}/{commit_name(version)}", entry):
            raise CommitFailedError("another writer has committed")
        failpoint("publish-after-log")
        return version

    def _again(
        self,
        table_id: str | None,
        adds: Iterable[Add],
        removes: Mapping[str, int],
        *,
        feed: str = "true",
        with_checkpoint: bool = False,
    ) -> tuple[bytes, bytes]:
        """The entry of the log: that of a new table in a temporary folder, and the removed files.
        `feed`: the value of its property. `with_checkpoint`: with a checkpoint of it."""
        with TemporaryDirectory(prefix="headgate-") as folder:
            self._make(folder, adds)
            log = Path(folder) / LOG
            actions = [json.loads(line) for line in (log / commit_name(0)).read_text().splitlines()]
            for action in actions:
                if "commitInfo" in action:
                    action["commitInfo"] |= {
                        "operation": "WRITE",
                        "operationParameters": {"mode": "Overwrite"},
                    }
                if "metaData" in action:
                    action["metaData"]["configuration"][FEED] = feed
                    action["metaData"]["id"] = table_id or action["metaData"]["id"]
            actions += [{"remove": _remove(path, size)} for path, size in removes.items()]
            entry = "".join(f"{json.dumps(action)}\n" for action in actions).encode()
            if not with_checkpoint:
                return entry, b""
            (log / commit_name(0)).write_bytes(entry)
            DeltaTable(folder).create_checkpoint()
            return entry, (log / checkpoint_name(0)).read_bytes()

    def _made_again(self, log: log_damage.DeltaLog) -> int:
        """Give an unreadable table a next version that needs none of those before: an entry with
        all that the table holds, and a checkpoint of it. The rest of the log stays, so that
        evidence is not lost. Files of the table that the rest of the log names are removed in that
        entry, for readers that follow it.
        """
        folder, version = f"{self.path}/{LOG}", log.newest + 1
        if version > LAST:
            raise OSError(
                f"no version can follow {folder}/{commit_name(log.newest)}: remove that file"
            )
        adds = difference(self.files_by_key, {}).adds
        self._link(adds)
        paths = {add.path for add in adds}
        removes = {path: size for path, size in log.files.items() if _plain(path) not in paths}
        entry, checkpoint = self._again(log.table_id, adds, removes, with_checkpoint=True)
        self._ask()
        failpoint("publish-before-log")
        if not self.lake.put_if_absent(f"{folder}/{commit_name(version)}", entry):
            raise CommitFailedError("another writer has committed")
        failpoint("publish-after-log")
        self.lake.put_if_absent(f"{folder}/{checkpoint_name(version)}", checkpoint)
        # It may name a checkpoint that is not there
        self.lake.delete_prefix(log_damage.hint(self.path))
        self.notice = f"{folder}: {log.damage}: made anew as version {version}, with the same rows"
        return version

    def _open(self) -> DeltaTable:
        return DeltaTable(self.location, storage_options=self.options)

    def _widen(self, table: DeltaTable) -> None:
        """A commit of metadata alone: rows that are there already show NULL in the new columns."""
        count = len(table.schema().fields)
        self._ask()
        table.alter.add_columns(
            self.schema.fields[count:], commit_properties=CommitProperties(max_commit_retries=0)
        )

    def _swap(self, table: DeltaTable, change: TableDiff) -> int:
        if not change.adds and not change.removes:
            return table.version()
        self._link(change.adds)
        if _lacks_feed(table):
            self._ask()
            table.alter.set_table_properties(
                {FEED: "true"}, commit_properties=CommitProperties(max_commit_retries=0)
            )
        sizes, is_change = (
            _active(table),
            not (self.is_layout and _same_rows(table, change, self.ours)),
        )
        actions: list[AddAction | RemoveAction] = [
            _add(a, is_change=is_change) for a in change.adds
        ]
        actions += [RemoveAction(p, is_change, FAR, sizes[p], {}) for p in change.removes]
        self._ask()
        failpoint("publish-before-log")
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=self.commit
        )
        failpoint("publish-after-log")
        version = table.version() + 1
        self._thin_checkpoints(version)
        return version

    def _thin_checkpoints(self, version: int) -> None:
        """Delete the checkpoint that is not kept beside that of `version`, if there is one. Each
        checkpoint names all files, so that the checkpoints of a stream would outgrow its rows.
        Commits stay, so each version can be read: from the kept checkpoint before it."""
        old = superseded_checkpoint(version)
        if old is not None:
            self.lake.delete_prefix(f"{self.path}/{LOG}/{checkpoint_name(old)}")

    def _link(self, adds: Iterable[Add]) -> None:
        for add in adds:
            if add.source:
                self.lake.link(add.source, f"{self.path}/{add.path}")


def superseded_checkpoint(version: int) -> int | None:
    """The version whose checkpoint goes once `version` has one: it is beyond the newest
    `CHECKPOINTS_KEPT`, and none of the kept ones. Example: 19 for 1019, and none for 1999, as 999
    is kept.

    The library makes the checkpoint of the version before each multiple of the interval."""
    number, rest = divmod(version + 1, CHECKPOINT_INTERVAL)
    old = number - CHECKPOINTS_KEPT
    if rest or old < 1 or old % CHECKPOINTS_KEPT == 0:
        return None
    return old * CHECKPOINT_INTERVAL - 1


def _address(lake: str) -> str:
    """What addresses of borrowed files begin with, before the library escapes them for the log."""
    parts = urlsplit(lake)
    return f"file://{unquote(parts.path)}" if parts.scheme == "file" else lake


def _plain(path: str) -> str:
    """A path of the log; an address as it is without escapes."""
    return unquote(path) if "://" in path else path


def _location(lake: str, path: str) -> str:
    parts = urlsplit(lake)
    return f"{unquote(parts.path) if parts.scheme == 'file' else lake}/{path}"


def _schema(schema: Any) -> Schema:
    if not schema["fields"]:
        raise CommitRefused("a table needs at least one column")
    if bad := unpublishable(schema):
        raise CommitRefused(f"a Delta table cannot hold the type {bad}")
    try:
        return Schema.from_json(json.dumps(schema))
    except ValueError as e:
        raise CommitRefused(str(e)) from e


def _is_foreign(table: DeltaTable) -> bool:
    """The table was remade from outside into one that holds none of our files, or that nothing may
    be removed from."""
    metadata = table.metadata()
    return (
        bool(metadata.partition_columns) or metadata.configuration.get("delta.appendOnly") == "true"
    )


def _lacks_feed(table: DeltaTable) -> bool:
    """A table of an earlier version of ours. The library would give tables that need a feature of
    readers one more, which few readers have."""
    protocol, properties = table.protocol(), table.metadata().configuration
    return FEED not in properties and protocol.min_reader_version == 1


def _active(table: DeltaTable) -> dict[str, int]:
    actions = table.get_add_actions()
    paths = map(_plain, actions.column("path").to_pylist())
    return dict(zip(paths, actions.column("size_bytes").to_pylist(), strict=True))


def _logged(table: DeltaTable) -> dict[str, str]:
    """The active paths, as they stand in the log."""
    return {_plain(path): path for path in table.get_add_actions().column("path").to_pylist()}


def _remove(path: str, size: int) -> dict[str, Any]:
    """`path` as it stands in the log."""
    action = {"path": path, "deletionTimestamp": FAR, "dataChange": True}
    return {**action, "extendedFileMetadata": True, "partitionValues": {}, "size": size}


def _same_rows(table: DeltaTable, change: TableDiff, ours: tuple[str, ...]) -> bool:
    """Added and removed files have the same number of rows, all in files of ours: readers of
    changes may skip the commit. Commits of others may have left other rows than ours."""
    if not all(path.startswith(ours) for path in change.removes):
        return False
    actions = table.get_add_actions()
    paths = map(_plain, actions.column("path").to_pylist())
    rows = dict(zip(paths, actions.column("num_records").to_pylist(), strict=True))
    return sum(a.entry["rows"] for a in change.adds) == sum(
        rows[path] or 0 for path in change.removes
    )


def _add(add: Add, *, is_change: bool = True) -> AddAction:
    return AddAction(
        add.path, add.entry["size"], {}, int(time() * 1000), is_change, _stats(add.entry)
    )


def _stats(entry: FileEntry) -> str:
    return json.dumps(entry["stats"] or {"numRecords": entry["rows"]}, allow_nan=False)


def answer(line: str, may_commit: Callable[[], bool]) -> dict[str, Any]:
    try:
        publication = TablePublication(json.loads(line), may_commit)
        return {"version": publication.run(), "notice": publication.notice}
    except (CommitRefused, ValueError) as e:
        return {"refused": str(e)}
    except (OSError, DeltaError, NotFound) as e:
        return {"fault": f"{type(e).__name__}: {e}"}


def main() -> None:
    with os.fdopen(os.dup(1), "w") as out, suppress(EOFError):
        os.dup2(2, 1)  # what a library prints must not look like an answer

        def may_commit() -> bool:
            """The end of the input, in place of an answer, is a no."""
            print(json.dumps("ready"), file=out, flush=True)
            return bool(sys.stdin.readline())

        for line in iter(sys.stdin.readline, ""):
            print(json.dumps(answer(line, may_commit)), file=out, flush=True)


if __name__ == "__main__":
    main()
