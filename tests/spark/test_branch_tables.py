"""Spark reads tables of branches: a published one, whose log names files of main, and one of the S3
view."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.core.model.projections import TableContent
from controlplane.core.model.table_paths import table_path
from controlplane.core.s3.live_log import STEPS
from controlplane.lake.publisher import DeltaPublisher
from tests.unit.lake.tables import Lake, struct
from tests.unit.s3.world import World

A = struct(a="long")


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Of one without Delta's catalog, which reading by path does not need."""
    made = spark.newSession()
    made.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    return made


def read(session: SparkSession, folder: Path, column: str, **options: str) -> list[int]:
    found = session.read.format("delta").options(**options).load(str(folder))
    return sorted(row[column] for row in found.collect())


def test_a_published_table_of_a_branch(session: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "a läke, 100% + x"
    root.mkdir()
    lake = Lake(root, table_path("default", "main", "flow.daily"))
    devs = table_path("default", "dev", "flow.daily")
    one, two = lake.fragment(A, [{"a": 1}]), lake.fragment(A, [{"a": 2}])
    publisher = DeltaPublisher(root.as_uri())
    for generation, some in enumerate([(one, two), (two, two)], 1):
        publisher.publish(TableContent(devs, A, some, generation, "flow.daily", borrows=True))
    publisher.close()
    assert read(session, root / devs, "a") == [2, 2]
    assert read(session, root / devs, "a", versionAsOf="0") == [1, 2]


def test_a_log_that_the_view_made(session: SparkSession, tmp_path: Path) -> None:
    """With a checkpoint, commits behind it, and names of files that are escaped."""
    world = World(tmp_path / "lake")
    world.branch("dev")
    last = 2 * STEPS[0][1] + 1
    for number in range(last):
        parts = {"day=1": [{"k": -1, "v": "stays"}], "x/é": [{"k": number, "v": "changes"}]}
        world.commit("shop.a", parts, "dev")
    folder = world.mirrored("dev/shop/a/", tmp_path / "mirror")
    assert read(session, folder, "k") == [-1, last - 1]
