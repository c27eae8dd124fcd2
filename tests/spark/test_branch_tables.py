"""Spark reads the table of a branch, whose log names files of main by address."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from controlplane.core.model.projections import Table
from controlplane.core.model.table_paths import table_path
from controlplane.lake.publisher import DeltaPublisher
from tests.unit.lake.tables import Lake, struct

A = struct(a="long")


def test_a_branch_table_is_read(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "a läke, 100% + x"
    root.mkdir()
    lake = Lake(root, table_path("default", "main", "flow.daily"))
    devs = table_path("default", "dev", "flow.daily")
    one, two = lake.fragment(A, [{"a": 1}]), lake.fragment(A, [{"a": 2}])
    publisher = DeltaPublisher(root.as_uri())
    for generation, some in enumerate([(one, two), (two, two)], 1):
        publisher.publish(Table(devs, A, some, generation, "flow.daily", borrows=True))
    publisher.close()

    session = spark.newSession()  # of one without Delta's catalog, which reading by path does not need
    session.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")

    def read(**options: str) -> list[int]:
        found = session.read.format("delta").options(**options).load(str(root / devs))
        return sorted(row.a for row in found.collect())

    assert read() == [2, 2]
    assert read(versionAsOf="0") == [1, 2]
