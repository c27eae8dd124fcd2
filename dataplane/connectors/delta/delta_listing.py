"""The files of an external Delta table as source objects: listed without a JVM, identified by what
decides their rows.

A file of such a table never changes, so its path identifies its bytes; where a table is recreated
at the same place, with files of the same names, its log has other sizes and times. The rest of a
row's identity is in the log: the rows that a deletion vector takes out, the values of partition
columns, and, under column mapping, which column has which name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
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
from dataplane.contract.jobs import LINK, ConnectJob, ListJob, SourceJob
from dataplane.contract.keys import key_of
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import NESTED, ListedPartition, SourceObject
from dataplane.listing import table_columns
from dataplane.listing.listed_partitions import listed
from dataplane.listing.local_files import local_path
from dataplane.listing.table_columns import footers, identities_of
from dataplane.listing.version_cache import FileReading, Versions, cache_file, look
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "delta:"
LINKED = "all"  # the key of the partition of a table whose files are linked
FOOTER = FileReading("delta-footer", {})
PHYSICAL = "delta.columnMapping.physicalName"


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """Each file of the table is a partition; its key is the path below the table's folder. Files
    that are linked are one partition."""
    places = Places.of(os.environ)
    places.check_source(str(root_of(job)))
    table = snapshot(root_of(job), job["settings"].get("version"))
    for _ in places.of_files(str(local_place(root_of(job), f["path"])) for f in table.files):
        """A log may name a file anywhere."""
    is_linked = job["settings"].get(LINK)
    if is_linked:
        _require_plain(root_of(job), table)
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    objects = sorted(objects_of(root_of(job), table, cache), key=lambda pair: pair[0].encode())
    if is_linked and objects:
        yield listed(LINKED, [source for _, source in objects], ())
        return
    for key, source in objects:
        yield listed(key, [source], ())


def _require_plain(root: Path, table: TableSnapshot) -> None:
    """Check that the rows of the table are those of its files. Raises TaskFailure."""
    features = {
        "column mapping": table.head.mapping != "none",
        "partition columns": bool(table.head.partition_columns),
        "deletion vectors": any(file.get("deletionVector") for file in table.files),
    }
    if present := [name for name, is_present in features.items() if is_present]:
        message = f"the Delta table {root} has {', '.join(present)}, so its files cannot be linked"
        raise TaskFailure("link-refused", f"{message}; read or import it without links")


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
    columns_in = footers(FOOTER, paths, cache, _looked_at, _footer)
    for path, action in zip(paths, table.files, strict=True):
        columns = own_columns(table.head, columns_in[path])
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
        mapping=None if head.mapping == "none" else identities_of(head.fields, columns, physical),
    )
    return KIND + text_digest.hex()


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

    def is_own(field: Json, place: str) -> bool:
        if head.mapping == "id" or place in have:
            return True
        return NESTED not in place and field["name"] in head.partition_columns

    return table_columns.own_columns(head.fields, physical, is_own)


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
