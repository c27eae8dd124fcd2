"""Spark's `readStream` follows the table of a dataset with `append_only`: additions, packs and
checkpoints of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.core.model.projections import TableContent
from controlplane.core.model.tasks import Fragment
from controlplane.lake.publisher import DeltaPublisher
from tests.slices import examples
from tests.unit.lake.tables import Lake, struct

A = struct(a="long")
COMMITS = examples(40, 1_000)
PACKED = 25  # fragments of a pack
LOOKED_AT = 15  # generations between two reads of the stream


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Of one without Delta's catalog, which reading by path does not need."""
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    return session


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[DeltaPublisher]:
    publisher = DeltaPublisher(tmp_path.as_uri())
    yield publisher
    publisher.close()


@pytest.mark.sweep
def test_a_stream_gets_each_row_once(
    session: SparkSession, publisher: DeltaPublisher, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    table: list[Fragment] = []
    version = -1
    for number in range(1, COMMITS + 1):
        table.append(lake.fragment(A, [{"a": number}]))
        version = publisher.publish(lake.table(A, *table, generation=number))
        if number % PACKED == 0:
            newest = [{"a": n} for n in range(number - PACKED + 1, number + 1)]
            table[-PACKED:] = [lake.fragment(A, newest)]
            packed = TableContent(
                lake.folder, A, tuple(table), number, "flow.daily", is_layout=True
            )
            version = publisher.publish(packed)
        if number % LOOKED_AT == 0 or number == COMMITS:
            _read_on(session, lake, tmp_path)
            assert _received(session, tmp_path) == Counter(range(1, number + 1))
    assert version == COMMITS + COMMITS // PACKED - 1, "packs are commits of their own"
    assert list((Path(lake.location) / "_delta_log").glob("*.checkpoint.parquet"))


@pytest.mark.soak
def test_a_stream_goes_on_when_a_table_of_an_earlier_version_gets_its_feed(
    session: SparkSession, publisher: DeltaPublisher, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    fragments = [lake.fragment(A, [{"a": number}]) for number in range(3)]
    publisher.publish(lake.table(A, fragments[0]))
    lake.forget_feed()
    _read_on(session, lake, tmp_path)
    for count in (2, 3):
        publisher.publish(lake.table(A, *fragments[:count], generation=count))
        _read_on(session, lake, tmp_path)
        assert _received(session, tmp_path) == Counter(range(count))
    assert lake.open().version() == 3, "the feed is a commit of its own, once"


def _read_on(session: SparkSession, lake: Lake, folder: Path) -> None:
    """The stream goes on from its checkpoint, until it has all that is published."""
    stream = session.readStream.format("delta").load(lake.location)
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "received"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _received(session: SparkSession, folder: Path) -> Counter[int]:
    return Counter(row.a for row in session.read.parquet(str(folder / "received")).collect())
