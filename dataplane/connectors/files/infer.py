"""The `infer` kind of work: the schema of source files, from all of their data.

Does not belong here: what a dataset makes of it (pinning, appending).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from dataplane.connectors.files.loading import loaded
from dataplane.connectors.files.options import has_header, reader
from dataplane.connectors.files.times_of_day import as_texts, clock_columns, first_times
from dataplane.connectors.files.verify import open_source, plain
from dataplane.contract.claims import ObjectsTask, SourceClaim
from dataplane.contract.jobs import SourceJob
from dataplane.contract.listings import SourceObject
from dataplane.contract.schemas import Schema, Type, canonical_schema, field_of, struct_of
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import Attempt
from dataplane.spark.schemas import schema_of, spark_type
from dataplane.spark.session import reading_session
from dataplane.storage.source_stores import BUFFER_BYTES

_FIXED = {"text": [("value", "string")], "binary": [("content", "binary"), ("length", "long")]}
_LADDER = ("byte", "short", "integer", "long", "float", "double")  # each holds the ones before it well enough
_HEADER = 1 << 22


def infer(attempt: Attempt[SourceClaim], task: ObjectsTask) -> Schema:
    """The union of the files' columns, in order of first appearance."""
    attempt.enter()
    job, objects = attempt.claim["job"], task["objects"]
    if job["format"] in _FIXED:
        return _struct(dict(_FIXED[job["format"]]))
    session = reading_session(attempt.spark, job["timezone"])
    types: dict[str, Type] = {}
    for some in _alike(job, objects):
        types = merged(types, _inferred(attempt, session, some))
    order = dict.fromkeys(name for o in objects for name in o["columns"] or ())
    return _struct({name: types[name] for name in dict.fromkeys([*order, *types]) if name in types})


def _inferred(attempt: Attempt[SourceClaim], session: SparkSession, objects: Sequence[SourceObject]) -> dict[str, Type]:
    job = attempt.claim["job"]
    source = reader(session, job["format"], job["options"]).option("inferSchema", "true").option("mergeSchema", "true")
    schema = schema_of(loaded(attempt, session, source, objects))
    types = {f["name"]: _without_void(f["type"]) for f in schema["fields"]}
    return types | dict.fromkeys(_of_day(attempt, session, objects, schema), "string")


def _of_day(
    attempt: Attempt[SourceClaim], session: SparkSession, objects: Sequence[SourceObject], schema: Schema
) -> Iterator[str]:
    """Columns that Spark takes for times, and have times of day."""
    job = attempt.claim["job"]
    columns = clock_columns(job["format"], job["options"], schema)
    if columns:
        source = reader(session, job["format"], job["options"]).option("mode", "PERMISSIVE")
        rows = loaded(attempt, session, source.schema(spark_type(as_texts(schema))), objects)
        [found] = first_times(rows, columns).collect()
        yield from (name for name, value in zip(columns, found, strict=True) if value is not None)


def _without_void(kind: Type) -> Type:
    return "string" if kind == "void" else kind


def _alike(job: SourceJob, objects: Sequence[SourceObject]) -> Iterator[list[SourceObject]]:
    """Files that Spark may infer together. It takes the first CSV file's header line for that of all."""
    groups: dict[object, list[SourceObject]] = {}
    for found in objects:
        columns = tuple(found["columns"] or ())
        line = _first_line(job, found) if has_header(job["format"], job["options"]) else b""
        groups.setdefault((columns, line) if job["format"] == "csv" else None, []).append(found)
    yield from groups.values()


def _first_line(job: SourceJob, found: SourceObject) -> bytes:
    """As bytes; only to be compared with that of another file."""
    try:
        with open_source(job, found, BUFFER_BYTES) as file:
            return plain(file, found["uri"]).readline(_HEADER).rstrip(b"\r\n")
    except (OSError, EOFError, TaskFailure):
        return found["uri"].encode()  # alike to no other; Spark will say what is wrong


def merged(left: Mapping[str, Type], right: Mapping[str, Type]) -> dict[str, Type]:
    """The columns of both; a column of both gets a type that holds both."""
    both = {n: wider(left[n], right[n]) for n in left if n in right}
    return {**left, **right, **both}


def wider(one: Type, other: Type) -> Type:
    """The least simple type that holds values of both; text if there is none."""
    if one == other:
        return one
    if isinstance(one, str) and isinstance(other, str):
        if one in _LADDER and other in _LADDER:
            return max(one, other, key=_LADDER.index)
        if {one, other} <= {"date", "timestamp", "timestamp_ntz"}:
            return "timestamp" if "timestamp" in (one, other) else "timestamp_ntz"
    return "string"


def _struct(types: Mapping[str, Type]) -> Schema:
    return canonical_schema(struct_of(field_of(n, t) for n, t in types.items()))
