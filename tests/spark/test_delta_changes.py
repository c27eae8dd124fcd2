"""The change data feed of real Delta tables, version after version: its rows, and tables that
`cdc:` makes of them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from controlplane.core.blueprint import SqlTransform, parse
from dataplane.connectors.delta.change_listing import partitions
from dataplane.connectors.delta.change_reader import ChangeReading
from dataplane.connectors.delta.delta_reader import reading as reading_table
from dataplane.contract.results import LABEL
from dataplane.contract.source_objects import ListedPartition
from dataplane.spark.connector_jars import provide
from dataplane.task_failures import TaskFailure
from tests.slices import takes_turns
from tests.unit.listing.location import list_job

FEED = "delta.enableChangeDataFeed"
NONE: dict[str, Any] = {"key": None, "objects": []}


class Table:
    """A Delta table that Spark writes, and what is listed of it."""

    def __init__(self, spark: SparkSession, root: Path, **properties: str) -> None:
        provide(spark, "delta")
        self.spark, self.writer, self.root = spark.newSession(), spark.newSession(), root
        for name in ("spark.databricks.delta.snapshotPartitions", "spark.sql.shuffle.partitions"):
            self.writer.conf.set(name, "1")
        self.listed: list[ListedPartition] = []
        words = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.sql(f"CREATE TABLE {{t}} (id BIGINT, name STRING) USING delta TBLPROPERTIES ({words})")

    def sql(self, statement: str) -> None:
        self.writer.sql(statement.format(t=f"delta.`{self.root}`"))

    def look(self, **settings: Any) -> list[ListedPartition]:
        """New partitions."""
        last = self.listed[-1] if self.listed else NONE
        job = list_job(
            self.root,
            connector="delta",
            settings={"changes": True, **settings},
            known={"key": last["key"], "objects": last["objects"]},
            accept_deletes=False,
        )
        new = list(partitions(job))
        self.listed += new
        return new

    def read(self, some: Sequence[ListedPartition]) -> DataFrame:
        job: Any = {"location": str(self.root), "settings": {"changes": True}}
        with reading_table(self.spark, job) as table:
            reader = ChangeReading(table)
            objects = [(p["key"], o) for p in some for o in p["objects"]]
            rows = reader.rows(objects).cache()
            rows.count()
            columns = [f["name"] for f in reader.schema([o for _, o in objects])["fields"]]
            assert {*columns, LABEL} <= {*rows.columns}
        return rows

    def committed(self, version: int) -> float:
        """When a version was committed, as its commit says, in seconds."""
        lines = (self.root / "_delta_log" / f"{version:020}.json").read_text().splitlines()
        (info,) = (a["commitInfo"] for a in map(json.loads, lines) if "commitInfo" in a)
        return float(info["timestamp"]) / 1000

    def rows(self) -> list[Row]:
        return sorted(self.spark.read.format("delta").load(str(self.root)).collect())


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path / "table", **{FEED: "true"})


def changes(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (row["_commit_version"], row["_change_type"], row["id"], row["name"], row[LABEL])
        for row in rows.collect()
    )


def test_first_rows_are_inserts_then_each_version_has_its_changes(table: Table) -> None:
    table.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    first = table.look(start=1)
    assert changes(table.read(first)) == [
        (1, "insert", 1, "a", "000000000001"),
        (1, "insert", 2, "b", "000000000001"),
    ]
    table.sql("UPDATE {t} SET name = 'A' WHERE id = 1")
    table.sql("DELETE FROM {t} WHERE id = 2")
    second = table.look()
    table.sql("ALTER TABLE {t} ADD COLUMNS (more INT)")
    table.sql("INSERT INTO {t} VALUES (3, 'c', 1)")
    third = table.look()
    assert [p["key"] for p in table.listed] == [f"{n:012}" for n in (1, 2, 3)]
    assert changes(table.read(second)) == [
        (2, "update_postimage", 1, "A", "000000000002"),
        (2, "update_preimage", 1, "a", "000000000002"),
        (3, "delete", 2, "b", "000000000002"),
    ]
    assert [(o["columns"] or ())[2:-3] for o in third[0]["objects"]] == [["more"]]
    assert table.look() == []
    for commit in (table.root / "_delta_log").glob("*.json"):
        os.utime(commit, (1, 1))  # as a copy of the table might
    rows = table.read(table.listed)
    assert rows.count() == 6, "all of them together, later"
    times = {row["_commit_version"]: row["_commit_timestamp"].timestamp() for row in rows.collect()}
    assert times == {v: table.committed(v) for v in (1, 2, 3, 5)}
    for file in (table.root / "_change_data").iterdir():
        file.unlink()
    with pytest.raises(TaskFailure) as failure:
        table.read(second)
    assert failure.value.condition == "versions-expired"
    with (table.root / "_delta_log" / f"{5:020}.json").open("a") as log:
        log.write("\n")  # another commit of this version
    with pytest.raises(TaskFailure) as failure:
        table.read(third)
    assert failure.value.condition == "table-recreated"


@takes_turns(0, 2)
def test_a_table_of_the_feed_is_the_table(table: Table) -> None:
    """Updates of keys, merges, overwrites: `cdc:` gives the rows that the table has."""
    text = """\
dataflow: shop
components:
  source: {read: {connector: delta, path: /t, changes: true}}
  mirror:
    cdc:
      from: source
      keys: [id]
      sequence_by: [_commit_version]
      deletes: _change_type IN ('delete', 'update_preimage')
      on_tie: upsert
      columns: {except: [_change_type, _commit_version, _commit_timestamp]}
"""
    (mirror,) = (c for c in parse(text, file="shop.yaml").components if c.name == "mirror")
    assert isinstance(mirror.body, SqlTransform)
    chance = random.Random(7)
    for _ in range(3):
        id, name = chance.randrange(6), chance.choice("abc")
        merged = f"(SELECT id, '{name}' AS name FROM range({id}, {id + 3})) AS s ON t.id = s.id"
        statement = chance.choice(
            [
                f"UPDATE {{t}} SET id = id + 10 WHERE id = {id}",
                f"UPDATE {{t}} SET name = '{name}' WHERE id >= {id}",
                f"DELETE FROM {{t}} WHERE id = {id}",
                f"INSERT OVERWRITE {{t}} SELECT id, '{name}' FROM range({id}, {id + 4})",
            ]
        )
        table.sql(
            f"MERGE INTO {{t}} AS t USING {merged} WHEN MATCHED AND s.id % 3 = 0 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        table.look()
        table.sql(statement)
    table.look()
    table.read(table.listed).drop(LABEL).createOrReplaceTempView("source")
    assert sorted(table.spark.sql(mirror.body.sql).collect()) == table.rows()
