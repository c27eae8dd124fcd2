"""Reading files of an external Delta table with Spark, through Delta's own code.

The files that one job reads become a table of their own: a log of one version, with the protocol
and columns of the table that was listed, which adds just these files by links, with their deletion
vectors, under one more partition column: the label. So vectors and column mapping are honoured by
who knows best, no other file is looked at, and the log of the table may meanwhile move on.
"""

from __future__ import annotations

import base64
import itertools
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from dataplane.connectors.delta.delta_listing import PHYSICAL, root_of, version_of
from dataplane.connectors.delta.log import Head, head
from dataplane.contract.delta_log import LOG, commit_name
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Json, Schema, canonical_schema, struct_of
from dataplane.contract.source_objects import NESTED, SourceObject
from dataplane.storage.source_copies import local_file
from dataplane.task_failures import TaskFailure

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_ID = "delta.columnMapping.id"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_UUID_TEXT = 20  # characters at the end of the name of a file of vectors


@contextmanager
def reading(session: SparkSession, job: SourceJob) -> Iterator[DeltaReading]:
    """TaskFailure where Spark cannot read Delta tables, or the table is not there."""
    if EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        message = (
            "Spark has no Delta here: put its jars into the folder of HEADGATE_JARS (docs/delta.md)"
        )
        raise TaskFailure("delta-missing", message)
    session.conf.set("spark.databricks.delta.snapshotPartitions", "1")  # a log of one commit
    root = root_of(job)
    with TemporaryDirectory(prefix="headgate-delta-") as scratch:
        yield DeltaReading(session, root, head(root, job["settings"].get("version")), Path(scratch))


@dataclass(frozen=True, slots=True)
class DeltaReading:
    """One table; `head` as it was when reading began."""

    session: SparkSession
    root: Path
    head: Head
    scratch: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def schema(self, objects: Sequence[SourceObject]) -> Schema:
        """The table's columns, as far as one of these has them; of no file at all, all of them."""
        have = {name for source in objects for name in source["columns"] or ()}
        return canonical_schema(
            struct_of(f for f in self.head.fields if not objects or f["name"] in have)
        )

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Files that are gone, and those whose columns have other names by now."""
        return frozenset(source["name"] for source in objects if not self._is_as_listed(source))

    def _is_as_listed(self, source: SourceObject) -> bool:
        columns, path = source["columns"] or [], Path(local_file(source["uri"]))
        names = {f["name"] for f in self.head.fields}
        if any(name not in names for name in columns if NESTED not in name):
            return False
        if version_of(self.head, source) != source["version"]:
            return False
        vector = source["detail"]["vector"]
        places = [path, *filter(None, [vector_file(self.root, vector) if vector else None])]
        return all(p.is_file() for p in places) and path.stat().st_size == source["size"]

    def may_pass(self, _: TaskError) -> bool:
        return False

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """Rows with all the table's columns, and the label."""
        folder = self.scratch / f"table-{next(self._numbers)}"
        (folder / LOG).mkdir(parents=True)
        actions = [
            self._protocol(),
            self._metadata(),
            *(self._add(folder, *labelled) for labelled in objects),
        ]
        text = "".join(f"{json.dumps(action)}\n" for action in actions)
        (folder / LOG / commit_name(0)).write_text(text)
        return self.session.read.format("delta").load(str(folder))

    # the table of these files

    def _protocol(self) -> Json:
        return {
            "protocol": {
                name: value for name, value in self.head.protocol.items() if value is not None
            }
        }

    def _metadata(self) -> Json:
        fields, configuration = (
            [*self.head.fields],
            dict(self.head.metadata.get("configuration") or {}),
        )
        mapping: dict[str, Json] = {}
        if self.head.mapping != "none":
            last = int(configuration["delta.columnMapping.maxColumnId"]) + 1
            configuration["delta.columnMapping.maxColumnId"] = str(last)
            mapping = {PHYSICAL: LABEL, _ID: last}
        label = {"name": LABEL, "type": "string", "nullable": True, "metadata": mapping}
        schema = {"type": "struct", "fields": [*fields, label]}
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [*self.head.partition_columns, LABEL],
            "configuration": configuration,
        }
        return {"metaData": metadata}

    def _add(self, folder: Path, label: str, source: SourceObject) -> Json:
        name = f"{label}-{next(self._numbers)}.parquet"
        (folder / name).symlink_to(local_file(source["uri"]))
        detail = source["detail"]
        add: dict[str, Json] = {
            "path": name,
            "partitionValues": {**detail["values"], LABEL: label},
            "size": source["size"],
            "modificationTime": source["modified_ms"],
            "dataChange": True,
        }
        if detail["vector"]:
            add["deletionVector"] = self._vector(detail["vector"])
        return {"add": add}

    def _vector(self, vector: Mapping[str, Json]) -> Json:
        """A deletion vector, by the absolute place of its file."""
        descriptor = {
            name: value
            for name, value in vector.items()
            if value is not None and name != "maxRowIndex"
        }
        file = vector_file(self.root, vector)
        return (
            descriptor
            if file is None
            else {**descriptor, "storageType": "p", "pathOrInlineDv": file.as_uri()}
        )


def vector_file(root: Path, vector: Mapping[str, Json]) -> Path | None:
    """The file that a deletion vector lies in; None if it lies in the log itself."""
    place = str(vector["pathOrInlineDv"])
    match vector["storageType"]:
        case "u":
            folder, encoded = place[:-_UUID_TEXT], place[-_UUID_TEXT:]
            name = uuid.UUID(bytes=base64.b85decode(encoded.translate(str.maketrans(_Z85, _B85))))
            return root / folder / f"deletion_vector_{name}.bin"
        case "p":
            return Path(local_file(place))
        case _:
            return None
