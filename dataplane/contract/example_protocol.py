"""The protocol of a process that runs tests of blueprints: a question is a line of JSON, and so is
an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypeAlias, TypedDict, cast

from dataplane.contract.jobs import AnalyseJob, SourceJob
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Json, Schema

CHECK = "check of a test"  # stands for a file in errors of a test's own condition


class FileOfRows(TypedDict):
    """A local file, and how it is read. `schema`: None where it is to be inferred."""

    path: str
    source: SourceJob
    schema: Schema | None


class Infer(TypedDict):
    """The schema of a file."""

    ask: Literal["infer"]
    file: FileOfRows


class Analyse(TypedDict):
    """The schema of a transform's result; None where only data would show it."""

    ask: Literal["analyse"]
    job: AnalyseJob


class ExampleQuestion(TypedDict):
    """One task of a transform. An input has `rows` (columns to values, in the order of the table)
    or a file.

    `check`: only rows that fail this condition are answered.
    """

    ask: Literal["run"]
    job: AnalyseJob
    rows: Mapping[str, list[dict[str, Json]]]
    files: Mapping[str, FileOfRows]
    partition: str | None
    limit: int
    check: NotRequired[str]


Question: TypeAlias = Infer | Analyse | ExampleQuestion


class SchemaFound(TypedDict):
    schema: Schema | None


class RowsFound(TypedDict):
    """At most as many rows as were requested, as `cells.plain` says values; `count`: of all rows of
    the result."""

    schema: Schema
    rows: list[list[Json]]
    count: int


class Failure(TypedDict):
    error: TaskError


Answer: TypeAlias = SchemaFound | RowsFound | Failure


def error_in(answer: Answer) -> TaskError | None:
    return cast("Failure", answer)["error"] if "error" in answer else None


def schema_in(answer: Answer) -> Schema | None:
    """The schema in an answer that is no failure."""
    return cast("SchemaFound", answer)["schema"]


def rows_in(answer: Answer) -> RowsFound:
    """The rows in the answer of a run that is no failure."""
    return cast("RowsFound", answer)
