"""The data files of a snapshot as source objects, each identified by what decides its rows: the
file, the files of deletes that apply to it, and which field ids have which names.

A data file never changes: its path and size identify its bytes. Its footer says which fields it
has, so that an added column reads no file again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet
from pyiceberg.conversions import to_json
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from dataplane.connectors.files.footers import malformed
from dataplane.connectors.iceberg.open_table import IcebergTable, open_table
from dataplane.connectors.iceberg.table_files import MetadataFiles, table_errors
from dataplane.connectors.iceberg.table_types import field_id
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.keys import key_of
from dataplane.contract.schemas import Field, Json
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.listed_partitions import listed
from dataplane.listing.table_columns import footers, identities_of, own_columns
from dataplane.listing.version_cache import FileReading, Stamp, Versions, cache_file
from dataplane.storage.source_stores import uri_of
from dataplane.task_failures import TaskFailure

KIND = "iceberg:"
_FORMATS = (FileFormat.PARQUET, FileFormat.PUFFIN)  # the latter holds deletion vectors


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """Each data file is a partition; its key is the path below the table's location."""
    table = open_table(job, job["location"])
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    with table_errors(table.name):
        sources = sorted(_objects(table, cache), key=lambda pair: pair[0].encode())
    for key, source in sources:
        yield listed(key, [source], ())


def check(job: ConnectJob) -> None:
    """Check that there is a table with the snapshot. TaskFailure gives the reason."""
    open_table(job, job["place"])


# --- planning -----------------------------------------------------------------------------------


def planned_files(table: IcebergTable) -> list[FileScanTask]:
    """The data files of the snapshot, each with its deletes. TaskFailure for a file that is not
    read, by its name."""
    if table.snapshot is None:
        return []
    bounds, paths = ListingBounds.of(os.environ), set[str]()

    def check_entry(listed_file: ManifestEntry) -> bool:
        bounds.count()
        _check_file(table, listed_file.data_file)
        path = listed_file.data_file.file_path
        if listed_file.data_file.content == DataFileContent.DATA and path in paths:
            message = f"the Iceberg table {table.name} names {path} twice"
            raise TaskFailure("unreadable", f"{message}: its manifests are damaged")
        paths.add(path)
        return True

    files = MetadataFiles(table.files)
    manifests = table.snapshot.manifests(files)  # type: ignore[arg-type]  # it opens files alone
    planner = ManifestGroupPlanner(table.metadata, files)  # type: ignore[arg-type]
    return list(planner.plan_files(manifests, check_entry))


def _check_file(table: IcebergTable, file: DataFile) -> None:
    table.files.check_place(file.file_path)
    if file.content == DataFileContent.EQUALITY_DELETES:
        message = f"{file.file_path} deletes rows by equality, which is not read"
        way_out = "compact the table, for example by rewrite_data_files in Spark"
        raise TaskFailure("not-supported", f"{message}: {way_out}")
    if file.file_format not in _FORMATS:
        message = f"{file.file_path} is a file of {file.file_format.value}, which is not read"
        raise TaskFailure("not-supported", f"{message}: rewrite it as Parquet")


# --- source objects -----------------------------------------------------------------------------


def _objects(table: IcebergTable, cache: Versions) -> Iterator[tuple[str, SourceObject]]:
    tasks = planned_files(table)
    sizes = {task.file.file_path: task.file.file_size_in_bytes for task in tasks}
    mapping = table.metadata.properties.get("schema.name-mapping.default", "")
    reading = FileReading("iceberg-footer", {"mapping": mapping})
    ids_in = footers(
        reading,
        list(sizes),
        cache,
        lambda path: Stamp(sizes[path], 0, 0, 0),
        partial(_ids_in_file, table, sizes),
    )
    for task in tasks:
        yield _object(table, task, ids_in[task.file.file_path])


def _ids_in_file(table: IcebergTable, sizes: dict[str, int], path: str) -> list[str]:
    """The ids of all fields in a file. One without ids has those that the table gives its names."""
    input_file = table.files.new_input(path)
    if len(input_file) != sizes[path]:
        message = f"{path} has {len(input_file)} bytes, and {sizes[path]} in the table's manifest"
        raise TaskFailure("unreadable", message)
    with input_file.open() as file:
        try:
            arrow = pyarrow.parquet.read_schema(file)
        except (pyarrow.ArrowException, OSError) as e:
            raise malformed(file, path, "parquet") from e  # type: ignore[arg-type]  # a file of bytes
    schema = pyarrow_to_schema(
        arrow, table.metadata.name_mapping(), format_version=table.metadata.format_version
    )
    return sorted(map(str, schema.field_ids))


def _object(
    table: IcebergTable, task: FileScanTask, ids: Sequence[str]
) -> tuple[str, SourceObject]:
    path, partition = task.file.file_path, _identity_values(table, task.file)
    name = path.removeprefix(f"{table.metadata.location.rstrip('/')}/")
    fields, own_ids = table.fields, {*ids, *_filled(table, task.file, partition)}
    source: SourceObject = {
        "name": name,
        "uri": _uri(table, path),
        "size": task.file.file_size_in_bytes,
        "modified_ms": 0,
        "version": "",
        "columns": own_columns(fields, field_id, lambda field, _: field_id(field) in own_ids),
        "detail": {
            "path": path,
            "rows": task.file.record_count,
            "spec": task.file.spec_id,
            "partition": partition,
            "deletes": sorted([d.file_path, d.file_format.value] for d in task.delete_files),
        },
    }
    key = key_of(name, None)
    assert key is not None, "without a template every name is a key"
    return key, {**source, "version": version_of(fields, source)}


def _uri(table: IcebergTable, location: str) -> str:
    """Locations are plain texts; URIs have their parts encoded."""
    scheme, bucket, path = table.files.parse_location(location)
    if scheme == "file":
        return Path(path).as_uri()
    return uri_of(f"s3://{bucket}", path.removeprefix(f"{bucket}/"))


def _identity_values(table: IcebergTable, file: DataFile) -> list[Json]:
    """The values of the file's partition, for columns that may be in the partition alone."""
    schema, values = table.metadata.schema(), list[Json]()
    for place, field in enumerate(table.metadata.specs()[file.spec_id].fields):
        kind = schema.find_type(field.source_id) if field.source_id in schema.field_ids else None
        part = file.partition[place] if isinstance(field.transform, IdentityTransform) else None
        if part is not None and isinstance(kind, PrimitiveType):
            values.append(to_json(kind, part))
        else:
            values.append(None)
    return values


def _filled(table: IcebergTable, file: DataFile, partition: Sequence[Json]) -> Iterator[str]:
    """Ids of columns that have values in a file which lacks them."""
    for field in table.schema.fields:
        if field.initial_default is not None:
            yield str(field.field_id)
    keys = table.metadata.specs()[file.spec_id].fields
    yield from (str(k.source_id) for k, v in zip(keys, partition, strict=True) if v is not None)


def version_of(fields: Sequence[Field], source: SourceObject) -> str:
    """The identity of the rows that a file gives. Its `columns` go by their present names."""
    detail = source["detail"]
    text_digest = digest(
        "iceberg-object/1",
        file=[detail["path"], source["size"]],
        deletes=detail["deletes"],
        ids=identities_of(fields, source["columns"] or (), field_id),
    )
    return KIND + text_digest.hex()
