"""Sources whose packages come from Maven: MongoDB's connector on a real server, in driver processes
of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet
import pytest

from dataplane.connectors.spark.spark_listing import partitions
from dataplane.contract.jobs import ListJob
from dataplane.contract.results import TaskResult
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.package_claims import perform
from dataplane.spark.jars import NoJars
from dataplane.spark.source_packages import BadJars, package_jars
from tests.servers.mongodb import DATABASE, MongoServer
from tests.spark.conftest import Folders, done, failed, read

CONNECTOR = "org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"
PARTITIONER = "com.mongodb.spark.sql.connector.read.partitioner.SinglePartitionPartitioner"
SECRET = "hunter2-4711"
COLUMNS = [("day", "string"), ("n", "long")]


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    server = MongoServer()
    yield server
    server.remove()


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SPARK_FORMATS", "mongodb")
    monkeypatch.setenv("HEADGATE_SPARK_PACKAGES", "org.mongodb.spark:mongo-spark-connector_2.13:*")
    conf = {"spark.log.level": "ERROR", "spark.driver.memory": "512m"}
    monkeypatch.setenv("HEADGATE_SPARK_CONF", json.dumps(conf))


def job_of(*packages: str, **options: str) -> dict[str, Any]:
    settings = {
        "format": "mongodb",
        "packages": packages or (CONNECTOR,),
        "row_schema": "day STRING, n BIGINT",
        "version": "each run",
        "option": "collection",
        "values": ["east", "west"],
    }
    fixed = {"connection.uri": "secret://shop/uri", "database": DATABASE}
    return {
        **read("spark"),
        "connector": "spark",
        "settings": settings,
        "options": {**fixed, "partitioner": PARTITIONER, **options},
        "location": "spark:mongodb",
    }


def outcome(folders: Folders, job: dict[str, Any]) -> list[TaskResult]:
    """The results of a task for each partition."""
    fields = [
        {"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in COLUMNS
    ]
    columns = {"type": "struct", "fields": fields}
    tasks = [
        {"columns": columns, "objects": part["objects"]}
        for part in partitions(cast("ListJob", job))
    ]
    return perform(folders.claim("parse", job, tasks), Orders())["results"]


def rows(folders: Folders, result: TaskResult) -> list[dict[str, Any]]:
    files = [folders.root / file["path"] for file in done(result)["files"]]
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def test_collections_are_read_as_they_are_at_each_run(
    server: MongoServer, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_URI", server.uri)
    server.insert("east", {"day": "mon", "n": 1}, {"day": "tue", "n": 2})
    server.insert("west", {"day": "mon", "n": 3})
    east, west = outcome(folders, job_of())
    assert rows(folders, west) == [{"day": "mon", "n": 3}]
    server.insert("west", {"day": "mon", "n": 4})  # late
    unchanged, grown = outcome(folders, job_of())
    assert unchanged["content"] == east["content"]
    assert rows(folders, grown) == [{"day": "mon", "n": 3}, {"day": "mon", "n": 4}]


def test_a_server_that_is_away_is_an_error_without_the_secret(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    away = f"mongodb://app:{SECRET}@127.0.0.1:1/?serverSelectionTimeoutMS=200"
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_URI", away)
    results = outcome(folders, job_of())
    print(
        [failed(result)["message"] for result in results],
        [failed(result)["kind"] for result in results],
    )
    assert "127.0.0.1:1" in failed(results[0])["message"]
    assert SECRET not in json.dumps(results)
    assert SECRET not in capfd.readouterr().err
