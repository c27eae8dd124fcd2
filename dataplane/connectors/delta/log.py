"""The log of a Delta table as its protocol describes it: which files a version has, under which
schema.

Read here, because a file's deletion vector decides about its rows, and no library at hand gives the
vector's identity without reading the vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from dataplane.contract.delta_log import LOG, NO_VERSION, LogFiles, actions_in, commit_name
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure

# Of an `add`, but statistics
_OF_FILES = ("path", "partitionValues", "size", "modificationTime", "deletionVector")

Action: TypeAlias = tuple[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class Head:
    """A version of a table without its files: the protocol and the metadata as they stand in the
    log."""

    version: int
    protocol: Mapping[str, Json]
    metadata: Mapping[str, Json]

    @property
    def fields(self) -> Sequence[Json]:
        """The columns, as Spark's JSON has them."""
        fields: Sequence[Json] = json.loads(self.metadata["schemaString"])["fields"]
        return fields

    @property
    def partition_columns(self) -> Sequence[str]:
        columns: Sequence[str] = self.metadata["partitionColumns"]
        return columns

    @property
    def mapping(self) -> str:
        """How columns are found in files: by the name that they have (`none`), by another one, or
        by an id."""
        return str(
            (self.metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
        )


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A version of a table with the `add` action of each of its files."""

    head: Head
    files: tuple[Mapping[str, Json], ...]


def snapshot(root: Path, version: int | None = None) -> TableSnapshot:
    """The table in the folder `root`; the newest version, or a given one. TaskFailure if there is
    no table, or its log cannot be read."""
    files: dict[tuple[str, str], Mapping[str, Json]] = {}
    head, segment = _Heading(), _segment(root, version)
    for kind, action in segment.actions(("protocol", "metaData", "add", "remove")):
        match kind:
            case "add":
                files[_identity(action)] = action
            case "remove":
                files.pop(_identity(action), None)
            case _:
                head.take(kind, action)
    return TableSnapshot(head.at(segment.version, root), tuple(files.values()))


def head(root: Path, version: int | None = None) -> Head:
    """As `snapshot`, without the files."""
    heading, last = _Heading(), _segment(root, version)
    for kind, action in last.actions(("protocol", "metaData")):
        heading.take(kind, action)
    return heading.at(last.version, root)


def local_place(root: Path, path: str) -> Path:
    """Where a file lies whose path (a part of a URI) stands in the log."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise TaskFailure(
            "not-supported", f"a file of the Delta table {root} lies elsewhere: {path}"
        )
    return root / unquote(parts.path)


@dataclass(frozen=True, slots=True)
class VersionActions:
    """The actions of one version. `at_ms`: when it was committed, by the commit's own word; that of
    its file where it has none."""

    version: int
    all: tuple[Action, ...]
    at_ms: int

    def actions(self, *kinds: str) -> list[Mapping[str, Json]]:
        return [action for kind, action in self.all if kind in kinds]


def read_commit(root: Path, version: int) -> VersionActions:
    """TaskFailure where the log does not have it any more, or it cannot be read."""
    path = root / LOG / commit_name(version)
    try:
        actions = tuple(_of_json(path, ("metaData", "add", "remove", "cdc", "commitInfo")))
        at_ms = int(path.stat().st_mtime * 1000)
    except FileNotFoundError as e:
        message = f"version {version} is not in the log of the Delta table {root} any more"
        raise TaskFailure("versions-expired", message) from e
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise _unreadable(root, f"{path.name}: {e}") from e
    infos = [action for kind, action in actions if kind == "commitInfo"]
    times = [info.get(name) for name in ("inCommitTimestamp", "timestamp") for info in infos]
    return VersionActions(version, actions, next((t for t in times if isinstance(t, int)), at_ms))


def commit_digest(root: Path, version: int) -> str | None:
    """A hash (hex) of a version's commit; None where the log does not have it any more."""
    path = root / LOG / commit_name(version)
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as e:
        raise _unreadable(root, f"{path.name}: {e}") from e


def commits_after(root: Path, version: int) -> frozenset[int]:
    """Versions after this one whose commits the log has."""
    return frozenset(v for v in LogFiles.of(_names(root)).commits if v > version)


def first_version(root: Path) -> int:
    """The first version of which the log has the commit, and which it can be read up to, as all
    after it."""
    files = LogFiles.of(_names(root))
    first = files.newest
    while first - 1 in files.commits:
        first -= 1
    if first == 0:
        return 0
    return min((v for v in files.checkpoints if v >= first), default=files.newest)


class _Heading:
    """The last protocol and metadata."""

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, Json]] = {}

    def take(self, kind: str, action: Mapping[str, Json]) -> None:
        self._last[kind] = action

    def at(self, version: int, root: Path) -> Head:
        if missing := {"protocol", "metaData"} - self._last.keys():
            raise _unreadable(root, f"it has no {min(missing)} up to version {version}")
        return Head(version, self._last["protocol"], self._last["metaData"])


def _identity(action: Mapping[str, Json]) -> tuple[str, str]:
    """A file with another deletion vector is another entry."""
    return action["path"], vector_id(action.get("deletionVector"))


def vector_id(vector: Mapping[str, Json] | None) -> str:
    """The identity of a deletion vector; empty where there is none."""
    return (
        f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"
        if vector
        else ""
    )


# --- files of the log -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Segment:
    """The files of the log that make one version: a checkpoint's, if there is any, and the commits
    after it."""

    version: int
    checkpoint: tuple[Path, ...]
    commits: tuple[Path, ...]

    def actions(self, kinds: Sequence[str]) -> Iterator[Action]:
        """Actions of these kinds, in order. TaskFailure for a file that cannot be read."""
        for path in (*self.checkpoint, *self.commits):
            try:
                yield from _actions(path, kinds)
            except (OSError, ValueError, KeyError, TypeError) as e:
                raise _unreadable(path.parent.parent, f"{path.name}: {e}") from e


def _segment(root: Path, version: int | None) -> _Segment:
    files = LogFiles.of(_names(root))
    if files.newest == NO_VERSION:
        raise TaskFailure("path-not-found", f"there is no Delta table in {root}")
    last = files.newest if version is None else version
    if last > files.newest:
        words = f"the Delta table {root} has no version {last}: its newest is {files.newest}"
        raise TaskFailure("version-missing", f"{words}; correct `version`")
    base = files.base(last)
    versions = range(base + 1, last + 1)
    missing = next((v for v in versions if v not in files.commits), None)
    if missing is not None:
        raise _unreadable(
            root, f"version {missing} is not in its log (any more), which version {last} is made of"
        )
    checkpoint = (root / LOG / name for name in files.checkpoints.get(base, ()))
    return _Segment(last, tuple(checkpoint), tuple(root / LOG / files.commits[v] for v in versions))


def _names(root: Path) -> list[str]:
    try:
        return [path.name for path in (root / LOG).iterdir()]
    except FileNotFoundError as e:
        raise TaskFailure("path-not-found", f"there is no Delta table in {root}") from e
    except PermissionError as e:
        raise TaskFailure("permission-denied", f"{root / LOG}: {e.strerror}") from e
    except OSError as e:
        raise _unreadable(root, str(e)) from e


def _actions(path: Path, kinds: Sequence[str]) -> Iterator[Action]:
    if path.suffix == ".json":
        yield from _of_json(path, kinds)
    else:
        yield from _of_parquet(path, kinds)


def _of_json(path: Path, kinds: Sequence[str]) -> Iterator[Action]:
    """A commit, or a checkpoint of the second kind."""
    with path.open("rb") as file:
        for row in actions_in(file):
            yield from _chosen(path, row, kinds)


def _of_parquet(path: Path, kinds: Sequence[str]) -> Iterator[Action]:
    from pyarrow.parquet import ParquetFile  # slow to import, and most workers' tasks need none

    columns = [f"add.{name}" for name in _OF_FILES] if "add" in kinds else []
    columns += [kind for kind in (*kinds, "sidecar") if kind not in ("add", "remove")]
    with ParquetFile(path) as file:
        for batch in file.iter_batches(columns=columns):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield from _chosen(path, row, kinds)


def _chosen(path: Path, row: Mapping[str, Json], kinds: Sequence[str]) -> Iterator[Action]:
    for kind, action in row.items():
        if action is not None and kind in kinds:
            yield kind, action
        elif action is not None and kind == "sidecar":
            yield from _actions(path.parent / "_sidecars" / unquote(action["path"]), kinds)


def _unreadable(root: Path, why: str) -> TaskFailure:
    return TaskFailure(
        "unreadable", f"the log of the Delta table {root} cannot be read: {why}", "infrastructure"
    )
