"""The change data feed of published tables: replayed by Spark and by delta-rs, it gives the rows of
every version."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from controlplane.core.model.tasks import Fragment
from controlplane.lake.publisher import DeltaPublisher
from dataplane.contract.schemas import Schema
from tests.slices import examples
from tests.unit.lake.tables import Lake, Rows, struct

A, AB = struct(a="long"), struct(a="long", b="string")
TEXT = struct(a="string")
GENERATIONS = examples(25, 200)
SIGNS = {"insert": 1, "delete": -1}
Table: TypeAlias = Counter[tuple[Any, ...]]
Feed: TypeAlias = Iterable[Mapping[str, Any]]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Of one without Delta's catalog, which reading by path does not need."""
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    for name in ("spark.databricks.delta.snapshotPartitions", "spark.sql.shuffle.partitions"):
        session.conf.set(name, "1")
    return session


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[DeltaPublisher]:
    publisher = DeltaPublisher(tmp_path.as_uri())
    yield publisher
    publisher.close()


class History:
    """Generations of a dataset by partition, and the rows of each version of its table."""

    def __init__(self, lake: Lake, publisher: DeltaPublisher, seed: int) -> None:
        self.lake, self.publisher, self.chance = lake, publisher, random.Random(seed)
        self.schema, self.generation = A, 0
        self.partitions: dict[int, tuple[Rows, Fragment]] = {}
        self.versions: dict[int, Table] = {}

    def fragment(self, rows: Rows) -> Fragment:
        return self.lake.fragment(self.schema, rows)

    def put(self, key: int, rows: Rows) -> None:
        self.partitions[key] = rows, self.fragment(rows)

    def change(self) -> None:
        """A late file, a corrected partition, one that goes, or the same rows once more."""
        for _ in range(self.chance.randint(1, 3)):
            key, some = self.chance.randrange(6), self.chance.choices(range(4), k=3)
            fields = [field["name"] for field in self.schema["fields"]]
            match self.chance.choice(["put", "put", "remove", "copy"]):
                case "put":
                    self.put(key, [{name: _value(self, name, n) for name in fields} for n in some])
                case "remove":
                    self.partitions.pop(key, None)
                case "copy" if self.partitions:
                    other = self.chance.choice(sorted(self.partitions))
                    self.partitions[key] = self.partitions[other]

    def publish(self) -> None:
        self.generation += 1
        fragments = [fragment for _, fragment in self.partitions.values()]
        table = self.lake.table(self.schema, *fragments, generation=self.generation)
        self.note(self.publisher.publish(table))

    def pack(self) -> None:
        """The same rows in one file. The next generation has the small files again."""
        rows = [row for rows, _ in self.partitions.values() for row in rows]
        packed = self.lake.table(self.schema, self.fragment(rows), generation=self.generation)
        self.note(self.publisher.publish(replace(packed, is_layout=True)))

    def note(self, version: int) -> None:
        self.versions[version] = Counter(
            tuple(row.get(field["name"]) for field in self.schema["fields"])
            for rows, _ in self.partitions.values()
            for row in rows
        )


def _value(history: History, name: str, number: int) -> Any:
    return str(number) if name == "b" or history.schema == TEXT else number


def read_by_spark(session: SparkSession, location: str, since: int) -> list[Mapping[str, Any]]:
    options = {"readChangeFeed": "true", "startingVersion": str(since)}
    feed = session.read.format("delta").options(**options).load(location)
    return [row.asDict() for row in feed.collect()]


def read_by_deltalake(location: str, since: int) -> list[Mapping[str, Any]]:
    return pa.table(DeltaTable(location).load_cdf(starting_version=since)).to_pylist()


def replayed(
    feed: Feed, schema: Schema, versions: Iterable[int], before: Table
) -> dict[int, Table]:
    """The rows of each version, by the changes alone."""
    table, tables = Counter(before), {}
    changes: dict[int, Table] = {}
    for change in feed:
        row = tuple(change[field["name"]] for field in schema["fields"])
        changes.setdefault(change["_commit_version"], Counter())[row] += SIGNS[
            change["_change_type"]
        ]
    for version in range(max(versions) + 1):
        table.update(changes.get(version, {}))
        assert all(count >= 0 for count in table.values()), "a row was deleted that was not there"
        tables[version] = +table
    return {version: tables[version] for version in versions}


@pytest.fixture(params=["spark", "deltalake"])
def read(request: pytest.FixtureRequest, session: SparkSession) -> Callable[..., Feed]:
    if request.param == "deltalake":
        return read_by_deltalake
    return lambda location, since: read_by_spark(session, location, since)


@pytest.mark.sweep
def test_the_feed_gives_each_version(
    read: Callable[..., Feed], publisher: DeltaPublisher, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    history = History(lake, publisher, seed=GENERATIONS)
    for number in range(GENERATIONS):
        history.change()
        if number == GENERATIONS // 3:
            history.schema = AB  # columns at the end: rows before have NULL there
            history.put(7, [{"a": 1, "b": "x"}])
        history.publish()
        if number % 4 == 3:
            history.pack()
    assert list((Path(lake.location) / "_delta_log").glob("*.checkpoint.parquet"))
    feed = list(read(lake.location, 0))
    wide = {v: _widened(rows) for v, rows in history.versions.items()}
    assert replayed(feed, AB, wide, Counter()) == wide


def _widened(rows: Table) -> Table:
    return Counter({(*row, None)[:2]: count for row, count in rows.items()})


def test_a_feed_begins_anew_behind_columns_of_other_types(
    read: Callable[..., Feed], publisher: DeltaPublisher, tmp_path: Path
) -> None:
    history = History(Lake(tmp_path), publisher, seed=1)
    history.put(1, [{"a": 1}])
    history.publish()
    history.schema = TEXT
    history.put(1, [{"a": "1"}, {"a": "2"}])
    history.publish()
    anew = max(history.versions)
    history.put(1, [{"a": "3"}])
    history.publish()
    feed = read(history.lake.location, anew + 1)
    since = {version: rows for version, rows in history.versions.items() if version > anew}
    assert replayed(feed, TEXT, since, history.versions[anew]) == since


def test_a_table_of_an_earlier_version_has_a_feed_from_its_next_change(
    read: Callable[..., Feed], publisher: DeltaPublisher, tmp_path: Path
) -> None:
    history = History(Lake(tmp_path), publisher, seed=1)
    history.put(1, [{"a": 1}])
    history.publish()
    history.lake.forget_feed()
    history.publish()
    assert history.lake.open().version() == 0, "nothing to change"
    history.put(1, [{"a": 1}, {"a": 2}])
    history.publish()
    assert sorted(history.versions) == [0, 2], "the property is a commit of its own"
    assert history.lake.open().protocol().min_reader_version == 1
    feed = read(history.lake.location, 2)
    assert replayed(feed, A, [2], history.versions[0]) == {2: history.versions[2]}


def test_spark_reads_the_feed_of_a_table_of_a_branch(
    session: SparkSession, publisher: DeltaPublisher, tmp_path: Path
) -> None:
    """It names the files of main by absolute addresses."""
    main, branch = Lake(tmp_path), Lake(tmp_path, "default/flow/daily/_branches/try")
    one, two = main.fragment(A, [{"a": 1}]), main.fragment(A, [{"a": 2}])
    for generation, fragments in enumerate([(one,), (one, two), (two,)]):
        table = branch.table(A, *fragments, generation=generation)
        publisher.publish(replace(table, borrows=True))
    feed = read_by_spark(session, branch.location, 0)
    ones, twos = Counter([(1,)]), Counter([(2,)])
    assert replayed(feed, A, range(3), Counter()) == {0: ones, 1: ones + twos, 2: twos}
