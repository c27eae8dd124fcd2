"""The `infer` kind of work: the schema of source files, from all of their data.

Does not belong here: what a dataset makes of it (pinning, appending).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from dataplane.connectors.files.loading import loaded
from dataplane.connectors.files.options import has_header, reader
from dataplane.connectors.files.times_of_day import as_texts, clock_columns, first_times
from dataplane.connectors.files.verify import open_source, plain
from dataplane.contract.claims import TaskSpec
from dataplane.contract.listings import SourceObject
from dataplane.contract.schemas import Json, Schema, canonical_schema
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import Attempt
from dataplane.spark.session import reading_session
from dataplane.storage.source_stores import BUFFER_BYTES

_FIXED = {"text": [("value", "string")], "binary": [("content", "binary"), ("length", "long")]}
_LADDER = ("byte", "short", "integer", "long", "float", "double")  # each holds the ones before it well enough
_HEADER = 1 << 22


def infer(attempt: Attempt, task: TaskSpec) -> Schema:
    """The union of the files' columns, in order of first appearance."""
    attempt.enter()
    job, objects = attempt.job, task["objects"]
    if job["format"] in _FIXED:
        return _struct(dict(_FIXED[job["format"]]))
    session = reading_session(attempt.spark, job["timezone"])
    types: dict[str, Json] = {}
    for some in _alike(job, objects):
        types = merged(types, _inferred(attempt, session, some))
    order = dict.fromkeys(name for o in objects for name in o["columns"] or ())
    return _struct({name: types[name] for name in dict.fromkeys([*order, *types]) if name in types})


def _inferred(attempt: Attempt, session: SparkSession, objects: Sequence[SourceObject]) -> dict[str, Json]:
    job = attempt.job
    source = reader(session, job["format"], job["options"]).option("inferSchema", "true").option("mergeSchema", "true")
    schema = canonical_schema(loaded(attempt, session, source, objects).schema.jsonValue())
    types = {f["name"]: _without_void(f["type"]) for f in schema["fields"]}
    return types | dict.fromkeys(_of_day(attempt, session, objects, schema), "string")


def _of_day(attempt: Attempt, session: SparkSession, objects: Sequence[SourceObject], schema: Schema) -> Iterator[str]:
    """Columns that Spark takes for times, and have times of day."""
    job = attempt.job
    columns = clock_columns(job["format"], job["options"], schema)
    if columns:
        source = reader(session, job["format"], job["options"]).option("mode", "PERMISSIVE")
        rows = loaded(attempt, session, source.schema(StructType.fromJson(as_texts(schema))), objects)
        [found] = first_times(rows, columns).collect()
        yield from (name for name, value in zip(columns, found, strict=True) if value is not None)


def _without_void(kind: Json) -> Json:
    return "string" if kind == "void" else kind


def _alike(job: Mapping[str, Json], objects: Sequence[SourceObject]) -> Iterator[list[SourceObject]]:
    """Files that Spark may infer together. It takes the first CSV file's header line for that of all."""
    groups: dict[object, list[SourceObject]] = {}
    for found in objects:
        columns = tuple(found["columns"] or ())
        line = _first_line(job, found) if has_header(job["format"], job["options"]) else b""
        groups.setdefault((columns, line) if job["format"] == "csv" else None, []).append(found)
    yield from groups.values()


def _first_line(job: Mapping[str, Json], found: SourceObject) -> bytes:
    """As bytes; only to be compared with that of another file."""
    try:
        with open_source(job, found, BUFFER_BYTES) as file:
            return plain(file, found["uri"]).readline(_HEADER).rstrip(b"\r\n")
    except (OSError, EOFError, TaskFailure):
        return found["uri"].encode()  # alike to no other; Spark will say what is wrong


def merged(left: Mapping[str, Json], right: Mapping[str, Json]) -> dict[str, Json]:
    """The columns of both; a column of both gets a type that holds both."""
    both = {n: wider(left[n], right[n]) for n in left if n in right}
    return {**left, **right, **both}


def wider(one: Json, other: Json) -> Json:
    """The least simple type that holds values of both; text if there is none."""
    if one == other:
        return one
    if isinstance(one, str) and isinstance(other, str):
        if one in _LADDER and other in _LADDER:
            return max(one, other, key=_LADDER.index)
        if {one, other} <= {"date", "timestamp", "timestamp_ntz"}:
            return "timestamp" if "timestamp" in (one, other) else "timestamp_ntz"
    return "string"


def _struct(types: Mapping[str, Json]) -> Schema:
    fields: Iterable[Json] = ({"name": n, "type": t} for n, t in types.items())
    return canonical_schema({"fields": fields})
