"""Iceberg tables that pyiceberg writes into a SQL catalogue of a folder, and the jobs that read
them. pyiceberg writes no files of deletes: they are written here.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap

from dataplane.connectors.iceberg.iceberg_listing import partitions
from dataplane.connectors.iceberg.null_projection import keep_nulls
from dataplane.contract.source_objects import ListedPartition
from tests.unit.listing.location import list_job

NAME = "shop.orders"


class IcebergTables:
    """A catalogue in SQLite, and tables below the folder."""

    def __init__(self, folder: Path) -> None:
        keep_nulls()  # pyiceberg writes NULL as it reads it
        self.folder, self.uri = folder, f"sqlite:///{folder}/catalog.db"
        self.catalog = SqlCatalog("default", uri=self.uri, warehouse=f"file://{folder}/warehouse")
        self.catalog.create_namespace("shop")

    def close(self) -> None:
        self.catalog.engine.dispose()

    def create(self, rows: pa.Table, **options: Any) -> Table:
        table = self.catalog.create_table(NAME, rows.schema, **options)
        table.append(rows)
        return table

    def job(self, **settings: Any) -> Any:
        """A job of any kind that reads the table."""
        named = {"catalog.uri": self.uri, "table": NAME, **settings}
        return list_job(f"iceberg:{NAME}", connector="iceberg", settings=named)

    def listed(self, **settings: Any) -> dict[str, ListedPartition]:
        return {p["key"]: p for p in partitions(self.job(**settings))}


def rows_of(*ids: int, **columns: Any) -> pa.Table:
    """A row for each id, with its name; `columns` stand in place of both."""
    return pa.table(columns or {"id": list(ids), "name": [f"n{id}" for id in ids]})


def sources(listed: Mapping[str, ListedPartition]) -> dict[str, str]:
    return {key: partition["source"] for key, partition in listed.items()}


def data_paths(table: Table) -> list[str]:
    return sorted(task.file.file_path for task in table.scan().plan_files())


# --- deletes ------------------------------------------------------------------------------------


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_rows(table: Table, positions: Mapping[str, Sequence[int]], kind: str = "PARQUET") -> str:
    """Delete rows of data files of one partition by position, by a Parquet file or (PUFFIN) by
    deletion vectors. The path of the file of deletes."""
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.{kind.lower()}"
    content = _puffin(positions) if kind == "PUFFIN" else _position_file(positions)
    with table.io.new_output(path).create() as file:
        file.write(content)
    partitions_of = {t.file.file_path: t.file.partition for t in table.scan().plan_files()}
    partition = partitions_of[next(iter(positions))]
    commit_deletes(
        table, path, DataFileContent.POSITION_DELETES, kind, len(content), partition=partition
    )
    return path


def commit_deletes(
    table: Table,
    path: str,
    content: DataFileContent,
    kind: str,
    size: int = 1,
    partition: Record | None = None,
) -> None:
    """A snapshot that adds one file of deletes to the present one."""
    table.refresh()
    before, io = table.current_snapshot(), table.io
    assert before is not None
    id, sequence = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat(kind),
        partition=partition or Record(),
        record_count=1,
        file_size_in_bytes=size,
        equality_ids=[1] if content == DataFileContent.EQUALITY_DELETES else None,
    )
    entry = ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=id, data_file=file
    )
    place = f"{table.location()}/metadata/{uuid.uuid4()}"
    output = io.new_output(f"{place}-m.avro")
    with _DeleteManifest(table.spec(), table.schema(), output, id, "deflate") as manifest:
        manifest.add_entry(entry)
    newest = io.new_output(f"{place}-list.avro")
    with write_manifest_list(2, newest, id, before.snapshot_id, sequence(), "deflate") as manifests:
        manifests.add_manifests([*before.manifests(io), manifest.to_manifest_file()])
    facts: dict[str, Any] = {
        "snapshot-id": id,
        "parent-snapshot-id": before.snapshot_id,
        "sequence-number": sequence(),
        "manifest-list": f"{place}-list.avro",
        "summary": Summary(Operation.DELETE),
        "schema-id": table.schema().schema_id,
    }
    snapshot = Snapshot(**facts)
    named: dict[str, Any] = {"ref-name": "main", "type": "branch", "snapshot-id": id}
    reference = SetSnapshotRefUpdate(**named)
    with table.transaction() as transaction:
        transaction._apply((AddSnapshotUpdate(snapshot=snapshot), reference))


def _position_file(positions: Mapping[str, Sequence[int]]) -> bytes:
    pairs = [(path, place) for path, places in positions.items() for place in places]
    names, places = zip(*pairs, strict=True)
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"file_path": names, "pos": places}), sink)
    return bytes(sink.getvalue())


def _puffin(positions: Mapping[str, Sequence[int]]) -> bytes:
    return puffin_file({path: vector(BitMap(places)) for path, places in positions.items()})


def vector(bitmap: BitMap, *, key: int = 0, count: int = 1) -> bytes:
    """A blob of deleted positions. `key`: of its bitmap; `count`: the number of bitmaps that it
    says to have."""
    content = bytes.fromhex("d1d33964") + count.to_bytes(8, "little") + key.to_bytes(4, "little")
    content += bitmap.serialize()
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")


def puffin_file(vectors: Mapping[str, bytes], **more: Any) -> bytes:
    """https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type

    `vectors`: blobs by the data file. `more`: further properties of each blob in the footer."""
    content, blobs = bytearray(b"PFA1"), []
    for path, blob in vectors.items():
        place = {"offset": len(content), "length": len(blob)}
        ids = {"fields": [], "snapshot-id": -1, "sequence-number": -1}
        properties = {"referenced-data-file": path}
        kind = {"type": "deletion-vector-v1", "properties": properties}
        blobs.append({**kind, **place, **ids, **more})
        content += blob
    footer = json.dumps({"blobs": blobs}).encode()
    size = len(footer).to_bytes(4, "little")
    return bytes(content) + b"PFA1" + footer + size + bytes(4) + b"PFA1"
