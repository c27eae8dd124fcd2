"""Packages that a transform requires, and contents, where executors are processes of their own."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import markupsafe._speedups
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from dataplane.fragments.content_local import content
from tests.spark.conftest import Folders, done, query
from tests.spark.plane import Plane
from tests.spark.test_process import driver, python_job
from tests.wheels import only_from, wheel

ALONE = {
    "spark.master": "local-cluster[1,2,1024]",
    "spark.driver.memory": "512m",
    "spark.log.level": "ERROR",
}
LARGE = "SELECT id, id / 2 AS half FROM range(0, 600000, 1, 2)"
NATIVE = Path(markupsafe._speedups.__file__)  # any compiled module will do
USING = """
import json
import hgsparkpkg
from pyspark.sql import functions as F
def look(n):
    from hgnative import _speedups
    return json.dumps([hgsparkpkg.VERSION, _speedups._escape_inner("<"), hgsparkpkg.__file__, _speedups.__file__])
def transform(spark):
    return spark.range(0, 4, 1, 2).select(F.udf(look)("id").alias("found"))
"""
LOOKING = """
import importlib.util
import json
from pyspark.sql import functions as F
def look(n):
    return json.dumps([name for name in ("hgsparkpkg", "hgnative") if importlib.util.find_spec(name)])
def transform(spark):
    return spark.range(0, 4, 1, 2).select(F.udf(look)("id").alias("found"))
"""


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """PySpark's own, but for `work`, below which executors have their working directories."""
    home = tmp_path / "spark"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    return home


@pytest.fixture
def plane(
    folders: Folders, tmp_path: Path, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Plane]:
    """Of one driver, which ends as it should."""
    for version in ("1.0", "2.0"):
        more = {f"hgnative/{NATIVE.name}": NATIVE.read_bytes()}
        wheel(tmp_path / "wheels", "hgsparkpkg", version, f"VERSION = '{version}'\n", more)
    only_from(tmp_path / "wheels", tmp_path / "home", monkeypatch)
    own = {
        "SPARK_HOME": str(spark_home),
        "HEADGATE_SPARK_CONF": json.dumps(ALONE),
        "HEADGATE_CLASSES": "off",
    }
    with Plane().serving() as plane, driver(tmp_path, plane, **own) as process:
        yield plane
        plane.drain = True
        assert process.wait() == 0


def found(plane: Plane, folders: Folders, job: dict[str, Any]) -> list[Any]:
    """What each call of a function on a Python worker found."""
    plane.claims.put(folders.claim("transform", job, [{}]))
    (result,) = plane.reports.get()["results"]
    tables = [
        pq.read_table(folders.root / file["path"], partitioning=None)
        for file in done(result)["files"]
    ]
    return [json.loads(text) for table in tables for text in table["found"].to_pylist()]


def test_python_workers_have_them_from_their_executor(
    plane: Plane, folders: Folders, spark_home: Path
) -> None:
    for version in ("1.0", "2.0", "1.0"):
        calls = found(
            plane, folders, {**python_job(USING), "requirements": [f"hgsparkpkg=={version}"]}
        )
        assert [call[:2] for call in calls] == [[version, "&lt;"]] * 4
        assert all(
            Path(file).is_relative_to(spark_home / "work") for call in calls for file in call[2:]
        ), calls
        assert found(plane, folders, python_job(LOOKING)) == [[]] * 4
    # The driver has it, so the folder is empty
    nothing_more = [f"markupsafe=={importlib.metadata.version('markupsafe')}"]
    assert found(plane, folders, {**python_job(LOOKING), "requirements": nothing_more}) == [[]] * 4


def test_contents_are_observed_where_rows_are_written(plane: Plane, folders: Folders) -> None:
    """A report counts one job of Spark: none reads the rows back."""
    plane.claims.put(folders.claim("transform", query(LARGE), [{}]))
    report = plane.reports.get()
    [result] = report["results"]
    files = [folders.root / file["path"] for file in done(result)["files"]]
    rows = pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)
    assert tuple(result["content"]) == content(result["schema"], rows)
    assert report["measures"]["spark_jobs"] == 1
