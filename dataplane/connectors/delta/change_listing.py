"""The change data feed of a Delta table as partitions that never change: the rows of its first
version that can be read, as inserts, then ranges of versions.

The feed has the rows of a version as long as the log has its commit and `VACUUM` leaves its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dataplane.connectors.delta import delta_listing
from dataplane.connectors.delta.delta_listing import root_of
from dataplane.connectors.delta.log import (
    Head,
    VersionActions,
    commit_digest,
    commits_after,
    first_version,
    head,
    local_place,
    read_commit,
    snapshot,
)
from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.schemas import Json, fields_within
from dataplane.contract.source_objects import NESTED, ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.listing.local_files import local_path
from dataplane.listing.version_cache import Versions, cache_file
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure

CHANGES = ("_change_type", "_commit_version", "_commit_timestamp")
DIGITS = 12  # of a partition's number, so that keys come in its order
MOST_FILES = 100  # of the first version in one partition
MOST_VERSIONS = 100  # in one partition
MOST_BYTES = 2**30  # of changes in one partition of more than one version
FEED = "delta.enableChangeDataFeed"


class Reached(NamedTuple):
    """The last version of a table, known by its id, that is listed. `log`: the hash of its
    commit."""

    table: str
    version: int
    log: str | None

    @staticmethod
    def of(source: SourceObject) -> Reached:
        """The last version of an object."""
        detail = source["detail"]
        return Reached(detail["table"], detail["end"], detail["log"])

    def detail(self) -> Mapping[str, Json]:
        """What `of` reads."""
        return {"table": self.table, "end": self.version, "log": self.log}

    def is_rewritten(self, root: Path) -> bool:
        """Whether the log has another commit as this version, such as after a restored backup."""
        return commit_digest(root, self.version) not in (None, self.log)


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """The files of a Delta table, or with `changes` its changes since the listing before."""
    if not job["settings"].get("changes"):
        yield from delta_listing.partitions(job)
        return
    before = job["known"]
    assert before is not None, "a claim says what is known"
    Places.of(os.environ).check_source(str(root_of(job)))
    first = int(before["key"]) + 1 if before["key"] else 1
    reached = Reached.of(before["objects"][-1]) if before["objects"] else None
    for number, objects in enumerate(_new(job, reached), first):
        yield listed(f"{number:0{DIGITS}}", objects, ())


def check(job: ConnectJob) -> None:
    """As `delta_listing.check`. A table that is read with `changes` has the feed."""
    delta_listing.check(job)
    if job["writes"] or not (job.get("settings") or {}).get("changes"):
        return
    table = Path(local_path(job["place"]))
    newest = head(table)
    if not has_feed(newest):
        raise _off(table, newest.version)


def has_feed(table: Head) -> bool:
    """Whether the table records changes."""
    return str((table.metadata.get("configuration") or {}).get(FEED)).lower() == "true"


def change_files(commit: VersionActions) -> list[Mapping[str, Json]]:
    """The actions whose files the feed reads: those of changed rows, or else whole files that were
    added or removed."""
    if cdc := commit.actions("cdc"):
        return cdc
    return [action for action in commit.actions("add", "remove") if action.get("dataChange", True)]


def _new(job: ListJob, reached: Reached | None) -> Iterator[list[SourceObject]]:
    """Objects of new partitions. TaskFailure where versions are lost, unless that is accepted:
    then the listing begins at the first version that can be read again."""
    root = root_of(job)
    newest = head(root)
    if not has_feed(newest):
        raise _off(root, newest.version)
    lost = None if reached is None else _loss(root, newest, reached)
    if lost is not None and not job.get("accept_deletes"):
        raise lost
    if reached is None or lost is not None:
        start = None if lost else job["settings"].get("start")
        version = _first(root, newest) if start is None else _chosen(root, int(start))
        yield from _of_snapshot(root, version)
    else:
        version = reached.version
    yield from _of_ranges(root, version, newest)


def _loss(root: Path, newest: Head, reached: Reached) -> TaskFailure | None:
    """Why changes after a version cannot be read, if they cannot."""
    hint = "`headgate refresh --accept-deletes` begins anew with the rows that the table has"
    if newest.metadata["id"] != reached.table or newest.version < reached.version:
        return TaskFailure("table-recreated", f"the Delta table {root} was made anew; {hint}")
    if reached.is_rewritten(root):
        words = f"version {reached.version} of the Delta table {root} is another commit than before"
        return TaskFailure("table-recreated", f"{words}; {hint}")
    held = commits_after(root, reached.version)
    missing = [v for v in range(reached.version + 1, newest.version + 1) if v not in held]
    if missing:
        words = f"version {missing[0]} is not in the log of the Delta table {root} any more"
        return TaskFailure("versions-expired", f"{words}; {hint}")
    for version in sorted(held):
        if not all(map(_records_changes, read_commit(root, version).actions("metaData"))):
            return _off(root, version, hint)
    return None


def _records_changes(metadata: Mapping[str, Json]) -> bool:
    return has_feed(Head(0, {}, metadata))


def _off(root: Path, version: int, hint: str = "") -> TaskFailure:
    how = hint or f"ALTER TABLE ... SET TBLPROPERTIES ({FEED} = true)"
    words = f"the Delta table {root} has no change data feed at version {version}"
    return TaskFailure("change-feed-off", f"{words}; {how}")


def _first(root: Path, newest: Head) -> int:
    """The first version whose rows can be read, with all changes since."""
    version = first_version(root)
    is_on = has_feed(head(root, version))
    for at in range(version + 1, newest.version + 1):
        commit = read_commit(root, at)
        for metadata in commit.actions("metaData"):
            was_on, is_on = is_on, _records_changes(metadata)
            version = at if is_on and not was_on else version
        needed = (local_place(root, a["path"]) for a in commit.actions("remove", "cdc"))
        if not all(path.is_file() for path in needed):  # VACUUM
            version = at
    return version


def _chosen(root: Path, version: int) -> int:
    """The version that the blueprint says. TaskFailure if the log does not go back to it."""
    first = first_version(root)
    if version < first:
        words = f"the log of the Delta table {root} begins at version {first}"
        raise TaskFailure("versions-expired", f"{words}; correct `version`")
    return version


def _of_snapshot(root: Path, version: int) -> Iterator[list[SourceObject]]:
    """The files of a version, some to a partition."""
    table = snapshot(root, version)
    if not has_feed(table.head):
        raise _off(root, version)
    _check_places(root, table.files)
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    reached = Reached(table.head.metadata["id"], version, commit_digest(root, version))
    at_ms = read_commit(root, version).at_ms
    about = {**reached.detail(), "at_ms": at_ms}
    objects: list[SourceObject] = []
    for _, source in delta_listing.objects_of(root, table, cache):
        objects.append(
            {
                **source,
                "version": f"{source['version']};insert:{version}@{at_ms}",
                "columns": [*(source["columns"] or ()), *CHANGES],
                "detail": {**source["detail"], **about},
            }
        )
        if len(objects) == MOST_FILES:
            yield objects
            objects = []
    if objects:
        yield objects


def _of_ranges(root: Path, version: int, newest: Head) -> Iterator[list[SourceObject]]:
    """Ranges of versions after this one. One ends where the table's metadata changes."""
    table = head(root, version)
    sizes: list[int] = []  # in bytes, of the changes of versions before `at`
    for at in range(version + 1, newest.version + 1):
        commit = read_commit(root, at)
        files, metadata = change_files(commit), commit.actions("metaData")
        _check_places(root, files)
        size = sum(a.get("size") or 0 for a in files)
        is_full = len(sizes) == MOST_VERSIONS or sum(sizes) + size > MOST_BYTES
        if sizes and (metadata or is_full):
            yield [_range(root, table, at - 1, sizes)]
            sizes = []
        for new in metadata:
            table = Head(at, table.protocol, new)
            if not has_feed(table):
                raise _off(root, at)
        sizes.append(size)
    if sizes:
        yield [_range(root, table, newest.version, sizes)]


def _range(root: Path, table: Head, end: int, sizes: Sequence[int]) -> SourceObject:
    """The versions up to `end`, one for each size in bytes."""
    first, id = end - len(sizes) + 1, table.metadata["id"]
    reached = Reached(id, end, commit_digest(root, end))
    return {
        "name": f"{first}-{end}",
        "uri": f"delta:{id}/{first}-{end}",
        "size": sum(sizes),
        "modified_ms": 0,
        "version": f"changes:{id}/{first}-{end}@{reached.log}",
        "columns": [*_columns(table.fields, ""), *CHANGES],
        "detail": {**reached.detail(), "first": first},
    }


def _columns(fields: Sequence[Json], place: str) -> Iterator[str]:
    for field in fields:
        yield place + field["name"]
        yield from _columns(fields_within(field["type"]), place + field["name"] + NESTED)


def _check_places(root: Path, actions: Sequence[Mapping[str, Json]]) -> None:
    """A log may name a file anywhere."""
    places = Places.of(os.environ)
    for _ in places.of_files(str(local_place(root, a["path"])) for a in actions):
        """Those that may not be read are refused."""
