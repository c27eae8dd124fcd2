"""A process that runs tests of blueprints: one Spark session, no lake, no service.

Questions come as lines of JSON on the standard input, and each is answered by one line.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO, cast

from pyspark.sql import SparkSession

from dataplane.contract.claims import AnalyseClaim, Claim
from dataplane.contract.example_protocol import (
    Answer,
    ExampleQuestion,
    FileOfRows,
    Question,
    SchemaFound,
)
from dataplane.contract.results import SchemaAnswer, TaskResult
from dataplane.contract.schemas import Json, Schema, column_names, select_columns
from dataplane.fragments.attempt import Failed
from dataplane.listing.version_cache import FileReading, examine
from dataplane.runtime.executor import Executor
from dataplane.spark.java import NoSpark, provide_java
from dataplane.spark.scratch import open_scratch, sweep
from dataplane.spark.spark_errors import explain
from dataplane.spark.spark_session import start, stop
from dataplane.spark.warmup import spark_conf
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure, error_of
from dataplane.transform.example_task import run_example

_LEASE_S = 60.0


def serve(questions: Iterable[str], answers: TextIO) -> int:
    """Answer until there are no more questions; the exit status."""
    sweep()
    scratch, _lock = open_scratch()
    with ExitStack() as until_the_end:
        until_the_end.callback(shutil.rmtree, scratch, ignore_errors=True)
        try:
            provide_java()
            spark = start(scratch, spark_conf())
        except NoSpark as e:
            answer: Answer = {"error": error_of(TaskFailure(e.condition, str(e)))}
            for _ in questions:
                _write(answer, answers)
            return 1
        until_the_end.callback(stop, spark)
        examples = ExampleAnswers(spark, scratch)
        until_the_end.callback(examples.close)
        for line in questions:
            _write(examples.answer(json.loads(line)), answers)
    return 0


def _write(answer: Answer, answers: TextIO) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class ExampleAnswers:
    """Answers questions over a temporary folder."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._folder = scratch / "examples"
        self._folder.mkdir()
        self._executor = Executor(spark, LocalLake(self._folder), scratch / "attempts")
        self._numbers = itertools.count()

    def close(self) -> None:
        self._executor.close()

    def answer(self, question: Question) -> Answer:
        """Any failure is the answer."""
        try:
            match question["ask"]:
                case "infer":
                    file = question["file"]
                    return _schema_answer(
                        self._claimed("infer", file["source"], {"objects": [_object(file)]})
                    )
                case "analyse":
                    return _schema_answer(self._claimed("analyse", question["job"], {}))
                case "run":
                    return self._run(question)
        except Failed as e:
            return {"error": e.error}
        except Exception as e:  # noqa: BLE001  # the error is the answer, and the next question is answered
            return {"error": explain(e)}

    def _run(self, question: ExampleQuestion) -> Answer:
        parsed = {name: self._parsed(file) for name, file in question["files"].items()}
        claim = cast("AnalyseClaim", self._claim("analyse", question["job"], {}))
        with self._executor.attempt(claim) as attempt:
            return run_example(attempt, question, parsed)

    def _parsed(self, file: FileOfRows) -> list[str]:
        """The file as the fragment that a source would make of it."""
        source, schema = _object(file), file["schema"]
        assert schema is not None
        job = {**file["source"], "metadata": [], "on_bad_record": "fail"}
        columns = _own_columns(source["columns"], schema, file)
        result = self._claimed("parse", job, {"objects": [source], "columns": columns})
        return [fragment_file["path"] for fragment_file in result["files"]]

    def _claimed(self, kind: str, job: Json, task: Mapping[str, Json]) -> TaskResult:
        """The result of one task. Raises Failed."""
        (result,) = self._executor.run(self._claim(kind, job, task))
        if result["state"] == "failed":
            raise Failed(result["error"])
        return result

    def _claim(self, kind: str, job: Json, task: Mapping[str, Json]) -> Claim:
        number = next(self._numbers)
        claim = {
            "contract": 1,
            "attempt": f"example-{number}",
            "dataset": "test.test",
            "prefix": f"attempt-{number}",
            "lake": self._folder.as_uri(),
            "lease_s": _LEASE_S,
            "kind": kind,
            "job": job,
            "tasks": [{"task": f"{number:064x}", "epoch": 1, "partition": "", **task}],
        }
        return cast("Claim", claim)


def _schema_answer(result: TaskResult) -> SchemaFound:
    return {"schema": cast("SchemaAnswer", result["result"])["schema"]}


def _object(file: FileOfRows) -> Json:
    """The file as a listing would name it. Raises TaskFailure where it cannot be read."""
    path, source = Path(file["path"]), file["source"]
    try:
        observed = examine(str(path), FileReading(source["format"], source["options"]))
    except OSError as e:
        raise TaskFailure("unreadable", f"{path}: {e.strerror or e}") from e
    return {
        "name": path.name,
        "uri": path.as_uri(),
        "size": observed.stamp.size,
        "modified_ms": observed.stamp.mtime_ns // 1_000_000,
        "version": observed.version,
        "columns": observed.columns,
    }


def _own_columns(columns: list[str] | None, schema: Schema, file: FileOfRows) -> Schema:
    """The columns that the file has."""
    if columns is None:
        return schema
    source = file["source"]
    has_names = (
        source["format"] != "csv" or source["options"].get("header", "false").lower() == "true"
    )
    names = column_names(schema)
    return select_columns(schema, columns if has_names else names[: len(columns)])
