"""An attempt to run claims in, in the Spark session of the process.

Does not belong here: what is expected of them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from dataplane.contract.claims import Claim, TaskSpec
from dataplane.contract.identity import label_of
from dataplane.contract.kinds import Kind
from dataplane.contract.results import SchemaAnswer, TaskError, TaskResult
from dataplane.contract.schemas import Schema, Type, canonical_schema
from dataplane.runtime.executor import Executor
from dataplane.spark.spark_session import under
from dataplane.storage.lake import LocalLake
from tests.spark.session_settings import COMPILED, new_sessions_with


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Spark generates code as in production, in the shared session and in new ones."""
    with under(spark, COMPILED), new_sessions_with(spark, COMPILED):
        yield


# Attempts have names of their own: Spark remembers which were cancelled
NUMBERS = itertools.count()


class Folders:
    """A lake and sources of one test, and short ways to fill them and to make claims."""

    def __init__(self, folder: Path) -> None:
        self.root, self.sources = folder / "lake", folder / "sources"
        self.root.mkdir()
        self.sources.mkdir()

    def claim(
        self, kind: Kind, job: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]
    ) -> Claim:
        attempt = f"a{next(NUMBERS)}"
        claim = {
            "contract": 1,
            "attempt": attempt,
            "dataset": "flow.dataset",
            "prefix": f"default/flow/dataset/_frags/00/{attempt}",
            "lake": self.root.as_uri(),
            "lease_s": 30.0,
            "kind": kind,
            "job": dict(job),
            "tasks": [numbered(i, t) for i, t in enumerate(tasks)],
        }
        return cast("Claim", claim)

    def source(
        self, name: str, content: bytes | str, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Put a file among the sources, as the object that a listing makes of it."""
        path, data = (
            self.sources / name,
            content if isinstance(content, bytes) else content.encode(),
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return {
            "name": name,
            "uri": path.as_uri(),
            "size": len(data),
            "modified_ms": path.stat().st_mtime_ns // 1_000_000,
            "version": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "columns": None if columns is None else list(columns),
        }

    def table(self, table: pa.Table) -> list[str]:
        """Write rows as a fragment of some earlier attempt would be; its files."""
        file = self.root / f"given-{next(NUMBERS)}" / f"_fragment={'0' * 32}" / "part-0.parquet"
        file.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(table, file)
        return [str(file.relative_to(self.root))]


class Lake(Folders):
    """With an executor, and a way to look at results."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(folder)
        self.spark = spark
        self.executor = Executor(spark, LocalLake(self.root), folder / "scratch")

    def run(
        self, kind: Kind, job: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]
    ) -> list[TaskResult]:
        return self.executor.run(self.claim(kind, job, tasks))

    def rows(self, result: TaskResult) -> list[dict[str, Any]]:
        """The rows of a result's fragment, sorted by their text."""
        files = [str(self.root / f["path"]) for f in done(result)["files"]]
        rows = (
            self.spark.read.option("mergeSchema", "true").parquet(*files).collect() if files else []
        )
        return sorted((r.asDict(recursive=True) for r in rows), key=repr)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(spark, tmp_path)
    yield lake
    lake.executor.close()


def numbered(number: int, task: Mapping[str, Any]) -> TaskSpec:
    key = hashlib.sha256(f"task {number}".encode()).hexdigest()
    return cast("TaskSpec", {"task": key, "epoch": 1, "partition": str(number), **task})


def label(number: int) -> str:
    return label_of(bytes.fromhex(numbered(number, {})["task"]))


def schema_of(spark: SparkSession, ddl: str) -> Schema:
    """Canonical JSON of a schema in words."""
    from pyspark.sql.types import StructType

    return canonical_schema(json.loads(StructType.fromDDL(ddl).json()))


def done(result: TaskResult) -> TaskResult:
    assert result["state"] == "done", result.get("error", result)
    return result


def failed(result: TaskResult) -> TaskError:
    assert result["state"] == "failed", result
    return result["error"]


def told_schema(result: TaskResult) -> Schema | None:
    """Of infer and analyse, and of a parse task that failed."""
    return cast("SchemaAnswer", result["result"])["schema"]


def told_types(result: TaskResult) -> dict[str, Type]:
    """The same by column, where it can be told."""
    schema = told_schema(result)
    assert schema is not None
    return {f["name"]: f["type"] for f in schema["fields"]}


def query(sql: str, **job: Any) -> dict[str, Any]:
    """The job of a SQL transform, without inputs unless told otherwise."""
    return {
        "language": "sql",
        "sql": sql,
        "edits": [],
        "batch_sql": None,
        "batch_input": None,
        "params": {},
        "spark": {"ansi": True, "case_sensitive": False, "timezone": "UTC"},
        "inputs": {},
        "shared": {},
        **job,
    }


def read(format: str, **job: Any) -> dict[str, Any]:
    """The job of a parse or an inference."""
    options = {"header": True} if format == "csv" else {}
    return {
        "format": format,
        "options": options,
        "metadata": [],
        "on_bad_record": "fail",
        "timezone": "UTC",
        **job,
    }
