"""Sources whose packages come from Maven: MongoDB's connector on a real server, in driver processes
of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet
import pytest

from dataplane.connectors.spark.option_places import check_option_places
from dataplane.connectors.spark.spark_listing import partitions
from dataplane.contract.jobs import ListJob
from dataplane.contract.results import TaskResult
from dataplane.runtime import package_claims
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.package_claims import perform
from dataplane.spark.jars import NoJars, fetched
from dataplane.spark.scratch import open_scratch
from dataplane.spark.source_packages import CHECKSUMS, BadJars, _pom_text, _record, package_jars
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure
from tests.servers.mongodb import DATABASE, MongoServer
from tests.spark.conftest import Folders, done, failed, read

BSON = "org.mongodb:bson:5.1.4"
CONNECTOR = "org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"
PARTITIONER = "com.mongodb.spark.sql.connector.read.partitioner.SinglePartitionPartitioner"
SECRET = "hunter2-4711"
COLUMNS = {"day": "string", "n": "long"}


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


def struct(columns: dict[str, Any]) -> dict[str, Any]:
    fields = [
        {"name": name, "type": type, "nullable": True, "metadata": {}}
        for name, type in columns.items()
    ]
    return {"type": "struct", "fields": fields}


def tasks_of(job: dict[str, Any], columns: dict[str, Any] = COLUMNS) -> list[dict[str, Any]]:
    """A task for each partition."""
    return [
        {"columns": struct(columns), "objects": part["objects"]}
        for part in partitions(cast("ListJob", job))
    ]


def outcome(
    folders: Folders, job: dict[str, Any], columns: dict[str, Any] = COLUMNS
) -> list[TaskResult]:
    return perform(folders.claim("parse", job, tasks_of(job, columns)), Orders())["results"]


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


def test_values_of_documents_are_exact_or_refused(
    server: MongoServer, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_URI", server.uri)
    date = {"$date": "2026-01-02T00:00:00.123Z"}
    refused: dict[str, tuple[dict[str, Any], str]] = {
        "cut": ({"n": 1.5}, "n is bigint in the schema, which does not hold 1.5"),
        "dated": ({"n": date}, "does not hold 2026-01-02T00:00:00.123Z"),
        "large": (
            {"x": 2**53 + 1},
            "x is double in the schema, which does not hold 9007199254740993",
        ),
        "nested": ({"s": {"l": [1, 2.25]}}, "s.l[] is decimal(4,1)"),
        "numbered": ({"at": 2026}, "at is timestamp in the schema, which does not hold 2026"),
        "timed": ({"s": {"on": date}}, "s.on is date"),
    }
    full = {
        "n": 3.0,
        "x": 1,
        "at": date,
        "s": {"on": {"$date": "2026-01-02T00:00:00Z"}, "l": [2.5]},
    }
    server.insert("full", full, {"day": "mon"})
    for name, (document, _) in refused.items():
        server.insert(name, document)
    job, collections = job_of(), sorted(["full", *refused])
    ddl = "n BIGINT, x DOUBLE, at TIMESTAMP, s STRUCT<on: DATE, l: ARRAY<DECIMAL(4,1)>>, day STRING"
    job["settings"] |= {"row_schema": ddl, "values": collections}
    decimals = {"type": "array", "elementType": "decimal(4,1)", "containsNull": True}
    inner = struct({"on": "date", "l": decimals})
    columns = {"n": "long", "x": "double", "at": "timestamp", "s": inner, "day": "string"}
    results = dict(zip(collections, outcome(folders, job, columns), strict=True))
    midnight = datetime(2026, 1, 2, tzinfo=UTC)
    empty = dict.fromkeys(("n", "x", "at", "s"))
    assert rows(folders, results.pop("full")) == [
        {
            "n": 3,
            "x": 1.0,
            "at": midnight + timedelta(milliseconds=123),
            "s": {"on": midnight.date(), "l": [Decimal("2.5")]},
            "day": None,
        },
        {**empty, "day": "mon"},
    ]
    for name, result in results.items():
        assert refused[name][1] in failed(result)["message"]


def test_a_server_that_is_away_is_an_error_without_the_secret(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    away = f"mongodb://app:{SECRET}@127.0.0.1:1/?serverSelectionTimeoutMS=200"
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_URI", away)
    results = outcome(folders, job_of())
    error = failed(results[0])
    assert error["kind"] == "infrastructure", "it is tried again"
    assert "127.0.0.1:1" in error["message"]
    assert SECRET not in json.dumps(results)
    assert SECRET not in capfd.readouterr().err


def test_jars_that_were_changed_or_are_too_large_are_not_used(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    jars = package_jars([BSON], environ)
    assert [jar.name for jar in jars] == ["bson-5.1.4.jar"]
    assert package_jars([BSON], environ) == jars
    [jar] = jars
    jar.write_bytes(jar.read_bytes() + b"x")
    with pytest.raises(BadJars, match="differ from their recorded checksums"):
        package_jars([BSON], environ)
    (jar.parent / CHECKSUMS).unlink()
    with pytest.raises(BadJars, match="differ from their recorded checksums"):
        package_jars([BSON], environ)
    with pytest.raises(BadJars, match="508,454 bytes; 1,000 are allowed"):
        _record(1000, jar.parent)


def test_a_jar_that_is_too_large_is_not_written_and_killed_fetches_leave_none(
    tmp_path: Path,
) -> None:
    environ, cache = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, tmp_path / "headgate"
    cache.mkdir()
    killed_fetch = f"from {open_scratch.__module__} import open_scratch as f; f({str(cache)!r})"
    subprocess.run([sys.executable, "-c", killed_fetch], check=True)
    assert len(list(cache.iterdir())) == 1
    with pytest.raises(NoJars, match="File too large"):
        package_jars([BSON], environ, most_bytes=1000)
    assert list(cache.iterdir()) == []


def test_jars_that_two_processes_fetch_at_once_are_those_of_the_faster_one(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    pom = tmp_path / "pom.xml"
    pom.write_text(_pom_text([BSON]), encoding="utf-8")

    fetches: list[Path] = []

    def finish_after_the_other(own_folder: Path) -> None:
        shared_folder = tmp_path / "headgate" / f"jars-{sha256(pom.read_bytes()).hexdigest()[:16]}"
        shutil.copytree(own_folder, shared_folder)
        (shared_folder / "faster").touch()
        fetches.append(own_folder)

    folder = fetched(pom, environ, finish_after_the_other)
    assert len(fetches) == 1
    assert sorted(file.name for file in folder.iterdir()) == ["bson-5.1.4.jar", "faster"]
    assert list(folder.parent.iterdir()) == [folder]


def test_a_claim_whose_process_is_killed_is_tried_again(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills_itself = "import os; os.write(1, b'{\"results\": ['); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(package_claims, "COMMAND", (sys.executable, "-c", kills_itself))
    errors = [failed(result) for result in outcome(folders, job_of())]
    assert [error["condition"] for error in errors] == ["package-driver-died"] * 2
    assert [error["kind"] for error in errors] == ["infrastructure"] * 2
    assert "ended by SIGKILL" in errors[0]["message"]


def test_a_package_that_is_not_there_is_the_outcome_of_each_task(folders: Folders) -> None:
    results = outcome(folders, job_of(CONNECTOR.replace("10.5.0", "0.0.0")))
    assert [failed(result)["condition"] for result in results] == ["jars-missing"] * 2
    assert "mongo-spark-connector_2.13:jar:0.0.0" in failed(results[0])["message"]


def test_only_allowed_packages_are_read(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    job = cast("ListJob", job_of())
    listed_before = folders.claim("parse", job_of(), tasks_of(job_of()))
    for allowed_packages in (CONNECTOR, CONNECTOR.replace("10.5.0", "*"), f"a:b:1, {CONNECTOR}"):
        monkeypatch.setenv("HEADGATE_SPARK_PACKAGES", allowed_packages)
        assert len(list(partitions(job))) == 2
    for other_packages in ("", "*", CONNECTOR.replace("10.5.0", "10.5.1"), "org.mongodb.spark:*"):
        monkeypatch.setenv("HEADGATE_SPARK_PACKAGES", other_packages)
        with pytest.raises(TaskFailure) as caught:
            list(partitions(job))
        assert caught.value.condition == "package-refused"
    results = perform(listed_before, Orders())["results"]
    assert [failed(result)["condition"] for result in results] == ["package-refused"] * 2


def test_places_in_options_are_those_that_the_operator_allows() -> None:
    places = Places((), allowed=("mongodb://db:27017", "/data/shop"))
    allowed_login, upper_case = "mongodb://app:pw@db:27017/shop?tls=true", "MONGODB://db:27017/shop"
    for value in (allowed_login, upper_case, "/data/shop/ca.pem", "db", "a/b"):
        check_option_places({"option": value}, places)
    for value in (
        "mongodb://db:27018/shop",
        "mongodb://db:27017,other:27017/shop",
        "mongodb://db:27017?@other/",
        "mongodb://other?@db:27017/",
        "mongodb://other\\@db:27017/",
        "/etc/passwd",
        "file:/etc/passwd",
        "hdfs:/shop",
        "mongodb://other:27017/file:/data/shop",
    ):
        with pytest.raises(TaskFailure) as caught:
            check_option_places({"option": value}, places)
        assert caught.value.condition == "place-refused", value


@pytest.mark.parametrize("beginning", ["file:", "FILE://", "file://localhost", "jar:file:"])
def test_each_form_of_a_file_is_a_place(beginning: str) -> None:
    places = Places((("/etc", "a place of the system"),))
    with pytest.raises(TaskFailure) as caught:
        check_option_places({"option": f"{beginning}/etc/passwd"}, places)
    assert caught.value.condition == "place-refused"
    check_option_places({"option": f"{beginning}/data/ca.pem", "other": "profile:dev"}, places)
