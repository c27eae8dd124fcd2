"""A table as it is now: its metadata, and the snapshot and schema that a component reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from dataplane.connectors.iceberg.table_address import table_address
from dataplane.connectors.iceberg.table_files import TableFiles, open_files, table_errors
from dataplane.connectors.iceberg.table_types import spark_fields
from dataplane.contract.jobs import ConnectorJob, ConnectorSettings
from dataplane.contract.schemas import Field
from dataplane.task_failures import TaskFailure


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """`snapshot`: None while the table has no rows. `schema`: the one that rows are read under."""

    name: str
    metadata: TableMetadata
    files: TableFiles
    snapshot: Snapshot | None
    schema: Schema

    @property
    def fields(self) -> Sequence[Field]:
        """The columns that Spark can hold, as its JSON has them, with their ids."""
        return spark_fields(self.schema)


def open_table(job: ConnectorJob, place: str) -> IcebergTable:
    """`place`: the location of the job. TaskFailure where there is no such table or snapshot, or it
    cannot be read."""
    settings = job.get("settings") or {}
    name = settings.get("table", place)
    with table_errors(name):
        address = table_address(job, place)
        files = open_files(job, address.store or {})
        if address.metadata is not None:
            metadata = TableMetadataUtil.parse_obj(address.metadata)
        else:
            metadata = TableMetadataUtil.parse_raw(files.metadata_text(address.location))
        snapshot = _snapshot(name, metadata, settings)
        schema = _schema(metadata, settings, snapshot)
        return IcebergTable(name, metadata, files, snapshot, schema)


def _snapshot(name: str, metadata: TableMetadata, settings: ConnectorSettings) -> Snapshot | None:
    ref = settings.get("ref", MAIN_BRANCH)
    if "snapshot" in settings:
        id, words = settings["snapshot"], f"no snapshot {settings['snapshot']} (any more)"
    elif ref in metadata.refs:
        id, words = metadata.refs[ref].snapshot_id, f"no snapshot of {ref} (any more)"
    elif ref == MAIN_BRANCH:
        return None
    else:
        id, words = None, f"no branch or tag {ref}"
    snapshot = None if id is None else metadata.snapshot_by_id(id)
    if snapshot is None:
        message = f"the Iceberg table {name} has {words}: correct `snapshot` or `ref`"
        raise TaskFailure("version-missing", message)
    return snapshot


def _schema(
    metadata: TableMetadata, settings: ConnectorSettings, snapshot: Snapshot | None
) -> Schema:
    """A branch is read under the present schema of the table, a tag or snapshot under the one of
    its time (https://iceberg.apache.org/spec/#snapshot-references)."""
    ref = metadata.refs.get(settings.get("ref", MAIN_BRANCH))
    is_fixed = "snapshot" in settings or (ref is not None and ref.snapshot_ref_type == "tag")
    if not is_fixed or snapshot is None or snapshot.schema_id is None:
        return metadata.schema()
    return metadata.schema_by_id(snapshot.schema_id) or metadata.schema()
