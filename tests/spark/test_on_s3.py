"""Work of the data plane with its lake on S3: what Spark writes there, and reads with the right
labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import obstore
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dataplane.contract.claims import Claim
from dataplane.contract.kinds import Kind
from dataplane.runtime.executor import Executor
from dataplane.spark.hadoop import conf_for
from dataplane.storage.job_folders import PARQUET
from dataplane.storage.lake import open_lake
from dataplane.storage.source_stores import StoreAccess, open_root, uri_of, version_of
from tests.servers.faulty import Faulty
from tests.servers.s3 import CREDENTIALS, S3
from tests.spark.conftest import Lake, done, query, schema_of
from tests.spark.test_by import (  # noqa: F401  # these run here on the lake below
    test_contents_of_keys_add_up_over_files_whatever_their_own_columns,
    test_keys_that_are_computed_together_come_to_what_each_comes_to,
    test_one_task_over_everything_gives_a_fragment_for_each_key,
    test_rows_of_another_key_are_an_error_that_names_both,
)
from tests.spark.test_expectations import (  # noqa: F401
    test_a_single_task_may_be_left_with_no_row,
    test_parsed_rows_are_quarantined_also_where_a_file_has_none,
    test_quarantined_rows_are_a_second_fragment_with_their_reason,
    test_rows_that_fail_are_counted_by_partition_with_examples,
)
from tests.spark.test_fold import (  # noqa: F401
    test_a_run_goes_on_to_the_tasks_after_it_each_on_what_was_written_before,
)
from tests.spark.test_linking import LINKED, file_of, parquet, parsed
from tests.spark.test_parse import (  # noqa: F401
    test_a_changed_or_vanished_object_voids_its_task_alone,
    test_nothing_is_ordinary,
)
from tests.spark.test_sql import (  # noqa: F401
    careless,
    test_a_broken_file_of_the_lake_is_nobodys_fault,
    test_rows_of_a_file_that_the_lake_lost_are_never_just_missing,
)

PROPERTIES = {
    "AWS_ACCESS_KEY_ID": "aws.accessKeyId",
    "AWS_SECRET_ACCESS_KEY": "aws.secretAccessKey",
}


class OnS3(Lake):
    """Its objects are files of the server's folder, so that tests put and look at them behind the
    server's back."""

    def __init__(self, spark: SparkSession, folder: Path, server: S3, uri: str) -> None:
        super().__init__(spark, folder)
        self.root, self.uri = server.home / "data" / uri.removeprefix("s3://"), uri
        self.executor = Executor(spark, open_lake(uri), folder / "scratch")

    def table(self, table: pa.Table) -> list[str]:
        """Put by the server itself: Spark reads nothing that has no etag."""
        (file,) = super().table(table)
        body = (self.root / file).read_bytes()
        (self.root / file).unlink()
        assert open_lake(self.uri).put_if_absent(file, body)
        return [file]

    def claim(
        self, kind: Kind, job: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]
    ) -> Claim:
        return cast("Claim", {**super().claim(kind, job, tasks), "lake": self.uri})


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    server = S3().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def way(spark: SparkSession, s3: S3) -> Iterator[Faulty]:
    """Between everybody and the server. The JVM, which all tests share, is told what it is told at
    its start else."""
    found = Faulty(s3.port)
    context, jvm = spark.sparkContext, spark._jvm
    assert jvm is not None
    for name, value in conf_for("s3://lake", s3.environment(found.url)).items():
        context._jsc.hadoopConfiguration().set(name.removeprefix("spark.hadoop."), value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        jvm.java.lang.System.setProperty(PROPERTIES[name], CREDENTIALS[name])
    yield found
    found.close()


@pytest.fixture
def lake(
    spark: SparkSession, tmp_path: Path, s3: S3, way: Faulty, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OnS3]:
    for name, value in s3.environment(way.url).items():
        monkeypatch.setenv(name, value)
    found = OnS3(spark, tmp_path, s3, f"s3://lake/{uuid4().hex}")
    yield found
    found.executor.close()


ROWS = "SELECT * FROM v"
BATCH = {"batch_sql": "SELECT v.*, v._fragment FROM v", "batch_input": "v"}


def batch(lake: OnS3, *slots: list[str]) -> list[list[dict[str, Any]]]:
    """The rows of many tasks that are one job, each of which copies its files."""
    inputs = {"v": {"mode": "each", "schema": schema_of(lake.spark, "a LONG"), "view": "v"}}
    results = lake.run(
        "transform",
        query(ROWS, inputs=inputs, **BATCH),
        [{"slots": {"v": files}} for files in slots],
    )
    return [lake.rows(result) for result in results]


def test_a_file_may_be_read_by_several_tasks_and_twice_by_one(lake: OnS3) -> None:
    one, two = (lake.table(pa.table({"a": pa.array([n], pa.int64())})) for n in (1, 2))
    assert batch(lake, one, two, one + two, one + one, []) == [
        [{"a": 1}],
        [{"a": 2}],
        [{"a": 1}, {"a": 2}],
        [{"a": 1}, {"a": 1}],
        [],
    ]


def test_an_object_of_the_lakes_bucket_is_copied_by_the_server(lake: OnS3, way: Faulty) -> None:
    """The bytes of its rows are read once, to be measured, and never written by this process."""
    body = parquet(k=5, compression="NONE")
    store, name = open_root("s3://lake", StoreAccess()), f"{uuid4().hex}/day=1.parquet"
    obstore.put(store, name, body)
    meta = obstore.head(store, name)
    source = {
        "name": "day=1.parquet",
        "uri": uri_of("s3://lake", name),
        "size": len(body),
        "modified_ms": round(meta["last_modified"].timestamp() * 1000),
        "version": version_of(meta, StoreAccess()),
        "columns": ["k", "s"],
    }
    (result,) = parsed(lake, LINKED, source)
    obstore.delete(store, name)
    assert file_of(lake, result).read_bytes() == body
    assert lake.rows(result)[0]["k"] == 5


def test_an_input_as_a_whole_may_hold_a_file_twice(lake: OnS3) -> None:
    file = lake.table(pa.table({"a": pa.array([1, 2], pa.int64())}))
    schema = schema_of(lake.spark, "a LONG, b STRING")
    inputs = {"v": {"mode": "all", "schema": schema, "view": "v"}}
    job = query(
        "SELECT count(*) AS n, sum(a) AS s, count(b) AS b FROM v",
        inputs=inputs,
        shared={"v": file * 3},
    )
    assert lake.rows(lake.run("transform", job, [{}])[0]) == [{"n": 6, "s": 9, "b": 0}]


def test_columns_may_be_called_as_what_reading_needs(lake: OnS3) -> None:
    file = lake.table(pa.table({"_metadata": ["x"], "a b": ["y"]}))
    inputs = {
        "v": {
            "mode": "each",
            "schema": schema_of(lake.spark, "_metadata STRING, `a b` STRING"),
            "view": "v",
        }
    }
    found = lake.run("transform", query(ROWS, inputs=inputs, **BATCH), [{"slots": {"v": file}}] * 2)
    assert [lake.rows(result) for result in found] == [[{"_metadata": "x", "a b": "y"}]] * 2


def test_a_failed_job_leaves_nothing_and_the_others_are_written(lake: OnS3) -> None:
    good, bad = (lake.table(pa.table({"a": [text]})) for text in ("1", "x"))
    inputs = {"v": {"mode": "each", "schema": schema_of(lake.spark, "a STRING"), "view": "v"}}
    casts = {"batch_sql": "SELECT CAST(a AS INT) AS a, v._fragment FROM v", "batch_input": "v"}
    claim = lake.claim(
        "transform",
        query("SELECT CAST(a AS INT) AS a FROM v", inputs=inputs, **casts),
        [{"slots": {"v": files}} for files in (good, bad, good)],
    )
    results = lake.executor.run(claim)
    assert [result["state"] for result in results] == ["done", "failed", "done"]
    files = {file["path"] for result in results for file in result.get("files", ())}
    stored = open_lake(lake.uri).sizes(claim["prefix"])
    assert {path for path in stored if path.endswith(PARQUET)} == files


def test_sparks_own_requests_are_repeated(lake: OnS3, way: Faulty) -> None:
    """Busy, cut and unanswered, while files are written, committed and read back."""
    faults = [
        way.add("slow-down", "PUT", "parquet", times=2),
        way.add("unanswered", "PUT", "parquet"),
        way.add("slow-down", "POST", "parquet"),
        way.add("cut", "GET", "parquet", times=2),
    ]
    (result,) = lake.run("transform", query("SELECT id AS a FROM range(10000)"), [{}])
    assert done(result)["content"][0] == 10_000
    assert [fault.met for fault in faults[:3]] == [2, 1, 1]
