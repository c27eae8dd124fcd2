"""Numbers in JSON files that DOUBLE does not hold. Spark reads `1e400` as infinite and rounds
numbers with too many digits, without an error; read as a text, a number is as it is written,
wherever it stands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.files.loading import loaded
from dataplane.connectors.files.numbers import NOT_HELD, NUMBER_NOT_HELD, is_inexact
from dataplane.connectors.files.reader_options import reader
from dataplane.connectors.files.source_bytes import one_of
from dataplane.contract.claims import ParseClaim, ParseTask, SourceClaim
from dataplane.contract.jobs import ParseJob
from dataplane.contract.joins import STRING, has_numbers
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import (
    Schema,
    Type,
    field_of,
    field_types,
    select_columns,
    struct_of,
)
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.content import quoted
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.spark_schemas import spark_type
from dataplane.spark.spark_session import reading_session
from dataplane.task_failures import TaskFailure, error_of

# Names of a column and of fields in it; elements of a list have an empty one
Path: TypeAlias = tuple[str, ...]


def number_paths(types: Mapping[str, Type]) -> Iterator[Path]:
    """Where numbers are."""
    for name, kind in types.items():
        for path in _paths(kind):
            yield (name, *path)


def _paths(kind: Type) -> Iterator[Path]:
    if isinstance(kind, str):
        if has_numbers(kind):
            yield ()
    elif kind["type"] == "struct":
        yield from number_paths(field_types(kind))
    elif kind["type"] == "array":
        yield from (("", *path) for path in _paths(kind["elementType"]))


def as_texts(schema: Schema, paths: Collection[Path]) -> Schema:
    """The schema with texts in these places."""
    kinds = field_types(schema)
    return struct_of(
        field_of(name, _with_texts(kind, (name,), paths)) for name, kind in kinds.items()
    )


def _with_texts(kind: Type, path: Path, paths: Collection[Path]) -> Type:
    if path in paths:
        return STRING
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = field_types(kind).items()
        return struct_of(
            field_of(name, _with_texts(inner, (*path, name), paths)) for name, inner in fields
        )
    if kind["type"] == "array":
        return {**kind, "elementType": _with_texts(kind["elementType"], (*path, ""), paths)}
    return kind


def checked_paths(job: ParseJob, task: ParseTask) -> list[Path]:
    """Where numbers of a task's files are read as DOUBLE because that was inferred."""
    if job["format"] != "json":
        return []
    types = field_types(select_columns(task["columns"], task.get("inferred", ())))
    return [path for path in number_paths(types) if type_at(types, path) == "double"]


def check_numbers(attempt: SparkAttempt[ParseClaim], task: ParseTask) -> TaskError | None:
    """An error where a number of a task's files has another value as DOUBLE. Reads the files once
    more."""
    attempt.enter()
    session = reading_session(attempt.spark, attempt.claim["job"]["timezone"])
    paths = checked_paths(attempt.claim["job"], task)
    schema = select_columns(task["columns"], {path[0] for path in paths})
    for path in lost_numbers(attempt, session, task["objects"], schema, paths):
        column = ".".join(filter(None, path))
        message = f"{one_of(task['objects'])}: column {column} is DOUBLE in the dataset, {NOT_HELD}a number there"
        return error_of(TaskFailure(NUMBER_NOT_HELD, message))
    return None


def lost_numbers(
    attempt: SparkAttempt[SourceClaim],
    session: SparkSession,
    objects: Sequence[SourceObject],
    schema: Schema,
    paths: Sequence[Path],
) -> list[Path]:
    """The paths where some number of these objects has another value as DOUBLE."""
    if not paths:
        return []
    job = attempt.claim["job"]
    source = reader(session, "json", job["options"]).option("mode", "PERMISSIVE")
    rows = loaded(attempt, session, source.schema(spark_type(as_texts(schema, paths))), objects)
    [row] = rows.agg(
        *(F.max(_is_lost(F.col(quoted(path[0])), path[1:])) for path in paths)
    ).collect()
    return [path for path, is_lost in zip(paths, row, strict=True) if is_lost]


def _is_lost(value: Column, path: Path) -> Column:
    if not path:
        return is_inexact(value)
    if not path[0]:
        return F.exists(value, lambda element: _is_lost(element, path[1:]))
    return _is_lost(value.getField(path[0]), path[1:])


def type_at(types: Mapping[str, Type], path: Path) -> Type | None:
    """None where another type stands on the way."""
    kind: Type = struct_of(field_of(name, inner) for name, inner in types.items())
    for name in path:
        if not isinstance(kind, str) and kind["type"] == "array" and not name:
            kind = kind["elementType"]
        elif (
            not isinstance(kind, str)
            and kind["type"] == "struct"
            and name in (fields := field_types(kind))
        ):
            kind = fields[name]
        else:
            return None
    return kind
