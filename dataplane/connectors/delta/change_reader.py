"""Changes of a Delta table as rows in Spark, by Delta's own reading of its change data feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.delta import delta_reader
from dataplane.connectors.delta.change_listing import CHANGES, Reached, change_files
from dataplane.connectors.delta.delta_reader import DeltaReading
from dataplane.connectors.delta.log import head, local_place, read_commit
from dataplane.connectors.source_reader import SourceReader
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Schema, field_of, struct_of
from dataplane.contract.source_objects import SourceObject
from dataplane.storage.source_copies import local_file
from dataplane.task_failures import TaskFailure

SCHEMA_MODE = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"
# Delta refuses versions older than `delta.deletedFileRetentionDuration`, also where no file is gone
AGE_LIMIT = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
TYPES = ("string", "long", "timestamp")


@contextmanager
def reading(session: SparkSession, job: SourceJob) -> Iterator[SourceReader]:
    """As `delta_reader.reading`, or with `changes` of the feed."""
    with delta_reader.reading(session, job) as table:
        yield ChangeReading(table) if job["settings"].get("changes") else table


@dataclass(frozen=True, slots=True)
class ChangeReading:
    """Objects are files of the first version, or ranges of versions after it."""

    table: DeltaReading

    def schema(self, objects: Sequence[SourceObject]) -> Schema:
        """The table's columns at the last version of these, and those of changes."""
        ends = [source["detail"]["end"] for source in objects]
        table = self._at(max(ends)) if ends else self.table
        changes = (field_of(name, kind) for name, kind in zip(CHANGES, TYPES, strict=True))
        return struct_of([*table.schema(objects)["fields"], *changes])

    def changed(self, _: Sequence[SourceObject]) -> frozenset[str]:
        """Empty: versions never change. If one is gone, `rows` fails."""
        return frozenset()

    def may_pass(self, error: TaskError) -> bool:
        return self.table.may_pass(error)

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """TaskFailure where the table does not have these versions any more."""
        self._require_table({Reached.of(source) for _, source in objects})
        ranges = [labelled for labelled in objects if "first" in labelled[1]["detail"]]
        parts = [self._of_range(label, source) for label, source in ranges]
        files = [labelled for labelled in objects if "first" not in labelled[1]["detail"]]
        for version in sorted({source["detail"]["end"] for _, source in files}):
            some = [labelled for labelled in files if labelled[1]["detail"]["end"] == version]
            parts.append(self._of_files(version, some))
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)

    def _require_table(self, versions: set[Reached]) -> None:
        id, root = self.table.head.metadata["id"], self.table.root
        if any(reached.table != id or reached.is_rewritten(root) for reached in versions):
            raise TaskFailure("table-recreated", f"the Delta table {root} was made anew")

    def _at(self, version: int) -> DeltaReading:
        read_commit(self.table.root, version)  # is refused in words if it is gone
        return replace(self.table, head=head(self.table.root, version))

    def _of_files(self, version: int, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        for _, source in objects:
            self._require(Path(local_file(source["uri"])), version)
        at_ms = objects[0][1]["detail"]["at_ms"]
        values = (F.lit("insert"), F.lit(version).cast("long"), F.timestamp_millis(F.lit(at_ms)))
        rows = self._at(version).rows(objects)
        return rows.withColumns(dict(zip(CHANGES, values, strict=True)))

    def _of_range(self, label: str, source: SourceObject) -> DataFrame:
        first, end = source["detail"]["first"], source["detail"]["end"]
        root = self.table.root
        times = []
        for version in range(first, end + 1):
            commit = read_commit(root, version)
            times.append(commit.at_ms)
            for action in change_files(commit):
                self._require(local_place(root, action["path"]), version)
        # Columns by the names that they had then, also if they were renamed since
        self.table.session.conf.set(SCHEMA_MODE, "endVersion")
        self.table.session.conf.set(AGE_LIMIT, "false")
        changes = (
            self.table.session.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", first)
            .option("endingVersion", end)
            .load(str(root))
        )
        # Spark takes the time of the commit's file, which a copy of the table changes
        at_ms = F.get(F.lit(times), (F.col("_commit_version") - first).cast("int"))
        own = {"_commit_timestamp": F.timestamp_millis(at_ms), LABEL: F.lit(label)}
        return changes.withColumns(own)

    def _require(self, path: Path, version: int) -> None:
        if not path.is_file():
            message = f"VACUUM has deleted {path}, which version {version} needs"
            raise TaskFailure("versions-expired", message)
