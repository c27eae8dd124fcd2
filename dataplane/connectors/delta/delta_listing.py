"""The files of an external Delta table as source objects: listed without a JVM, identified by what
decides their rows.

A file of such a table never changes, so its path identifies its bytes; where a table is recreated
at the same place, with files of the same names, its log has other sizes and times. The rest of a
row's identity is in the log: the rows that a deletion vector takes out, the values of partition
columns, and, under column mapping, which column has which name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dataplane.connectors.delta.log import (
    Head,
    TableSnapshot,
    head,
    local_place,
    snapshot,
    vector_id,
)
from dataplane.connectors.files.footers import malformed
from dataplane.connectors.files.marker import MARKER
from dataplane.contract.delta_log import LOG
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ConnectJob, ListJob, SourceJob
from dataplane.contract.keys import key_of
from dataplane.contract.schemas import Json, fields_within
from dataplane.contract.source_objects import NESTED, ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.listing.local_files import THREADS, local_path
from dataplane.listing.version_cache import FileReading, Seen, Versions, cache_file, look
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "delta:"
FOOTER = FileReading("delta-footer", {})
PHYSICAL = "delta.columnMapping.physicalName"
_SHARE = 500  # files whose footers are read before they are remembered


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """Each file of the table is a partition; its key is the path below the table's folder."""
    places = Places.of(os.environ)
    places.check_source(str(root_of(job)))
    table = snapshot(root_of(job), job["settings"].get("version"))
    for _ in places.of_files(str(local_place(root_of(job), f["path"])) for f in table.files):
        """A log may name a file anywhere."""
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    objects = sorted(objects_of(root_of(job), table, cache), key=lambda pair: pair[0].encode())
    for key, source in objects:
        yield listed(key, [source], ())


def check(job: ConnectJob) -> None:
    """Check that there is a table to read, or that no other table occupies the place of one to
    write. TaskFailure gives the reason."""
    root = Path(local_path(job["place"]))
    places = Places.of(os.environ)
    places.check_target(str(root)) if job["writes"] else places.check_source(str(root))
    if not job["writes"]:
        head(root, job["settings"].get("version"))
    elif (root / LOG).exists() and not (root / MARKER).exists():
        raise TaskFailure(
            "target-occupied", f"there is a Delta table in {root} that nothing here has written"
        )


def root_of(job: ListJob | SourceJob) -> Path:
    """The folder of the table that a job of any kind is about."""
    return Path(local_path(job["location"]))


def objects_of(
    root: Path, table: TableSnapshot, cache: Versions
) -> Iterator[tuple[str, SourceObject]]:
    """The files of a version, each with a key."""
    paths = [str(local_place(root, f["path"])) for f in table.files]
    footers = _footers(paths, cache)
    for path, action in zip(paths, table.files, strict=True):
        columns = own_columns(table.head, footers[path])
        name = unquote(action["path"])
        key = key_of(name, None)
        assert key is not None, "without a template every name is a key"
        source: SourceObject = {
            "name": name,
            "uri": Path(path).as_uri(),
            "size": action["size"],
            "modified_ms": action["modificationTime"],
            "version": "",
            "columns": columns,
            "detail": {
                "values": action.get("partitionValues") or {},
                "vector": action.get("deletionVector"),
            },
        }
        yield key, {**source, "version": version_of(table.head, source)}


def version_of(head: Head, source: SourceObject) -> str:
    """The identity of the rows that a file gives. Its `columns` go by their present names."""
    detail, columns = source["detail"], source["columns"] or ()
    text_digest = digest(
        "delta-object/2",
        file=[source["size"], source["modified_ms"]],
        vector=vector_id(detail["vector"]),
        values={str(name): value for name, value in detail["values"].items()},
        mapping=None if head.mapping == "none" else _named_by(head.fields, columns),
    )
    return KIND + text_digest.hex()


def _named_by(fields: Iterable[Json], columns: Iterable[str]) -> dict[str, Json]:
    """The names in files of these columns, and of the fields in them."""
    names = {name for name in columns if NESTED not in name}
    return {f["name"]: _physical_names(f) for f in fields if f["name"] in names}


def _physical_names(field: Json) -> Json:
    return [physical(field), _names_within(field["type"])]


def _names_within(kind: Json) -> Json:
    if isinstance(kind, Mapping) and kind["type"] == "map":
        return [_names_within(kind["keyType"]), _names_within(kind["valueType"])]
    if isinstance(kind, Mapping) and kind["type"] == "array":
        return _names_within(kind["elementType"])
    return {f["name"]: _physical_names(f) for f in fields_within(kind)}


def physical(field: Json) -> str:
    """The name that a column has in files."""
    return str(field["metadata"].get(PHYSICAL, field["name"]))


# --- columns --------------------------------------------------------------------------------------


def own_columns(head: Head, footer: Sequence[str]) -> list[str]:
    """The table's columns that a file has, followed by the fields in each; partition columns are in
    every file.

    `footer`: columns and fields by the names in the file. Where columns go by ids, each file is
    taken to have all.
    """
    have = set(footer)
    is_by_id = head.mapping == "id"

    def walk(fields: Iterable[Json], place: str, named: str) -> Iterator[str]:
        for f in fields:
            inner, name = place + physical(f), named + f["name"]
            if is_by_id or inner in have or (not place and f["name"] in head.partition_columns):
                yield name
                yield from walk(fields_within(f["type"]), inner + NESTED, name + NESTED)

    return list(walk(head.fields, "", ""))


def _footers(paths: Sequence[str], cache: Versions) -> dict[str, Sequence[str]]:
    """Columns in files by path: remembered, or read. TaskFailure for a file that is not there."""
    column_names: dict[str, Sequence[str]] = {}
    with ThreadPoolExecutor(THREADS) as threads:
        for start in range(0, len(paths), _SHARE):
            some = paths[start : start + _SHARE]
            stamps = {path: _looked_at(path) for path in some}
            cached = cache.unchanged(FOOTER, stamps)
            began_ns, fresh = cache.now_ns(), [path for path in stamps if path not in cached]
            read = zip(fresh, threads.map(_footer, fresh), strict=True)
            new = {path: Seen(stamps[path], "", columns) for path, columns in read}
            cache.keep(FOOTER, [(path, footer, began_ns) for path, footer in new.items()])
            column_names |= {
                path: footer.columns or [] for path, footer in {**cached, **new}.items()
            }
    return column_names


def _looked_at(path: str) -> Any:
    try:
        return look(path)
    except OSError as e:
        raise TaskFailure(
            "path-not-found", f"a file of the Delta table is not there: {path}", "infrastructure"
        ) from e


def _footer(path: str) -> list[str]:
    import pyarrow
    from pyarrow.parquet import read_schema

    try:
        return list(_paths(read_schema(path), ""))
    except (pyarrow.ArrowException, OSError) as e:
        raise _malformed(path) from e


def _malformed(path: str) -> TaskFailure:
    """Raises OSError for a file that cannot be opened at all."""
    with open(path, "rb") as file:
        return malformed(file, path, "parquet")


def _paths(fields: Iterable[pa.Field], place: str) -> Iterator[str]:
    from pyarrow import types

    for field in fields:
        kind = field.type
        yield place + field.name
        while types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
        if types.is_struct(kind):
            yield from _paths(kind, place + field.name + NESTED)
