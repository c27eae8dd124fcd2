"""The `infer` kind of work: the schema of source files, from all of their data.

It is the join of the files' types, so neither the order of files nor their grouping in reads
counts. Parquet and ORC have types in their footers. In CSV and JSON Spark finds times, dates and
truth values. It finds the types of numbers, too, in CSV files whose bytes have no number that Spark
takes for another one (number_search); else they are looked up in the texts (numbers). `void` stands
for columns without any value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.files import footers, json_numbers
from dataplane.connectors.files.checked_numbers import SEARCHED
from dataplane.connectors.files.json_numbers import lost_numbers, number_paths, type_at
from dataplane.connectors.files.loading import loaded
from dataplane.connectors.files.numbers import NumberFacts, facts_of, is_number, read_facts
from dataplane.connectors.files.reader_options import encoding_of, has_header, reader
from dataplane.connectors.files.source_bytes import misread, open_source, plain, reported_path
from dataplane.connectors.files.times_of_day import as_texts, clock_columns, first_time
from dataplane.contract.claims import ObjectsTask, SourceClaim
from dataplane.contract.jobs import SourceJob
from dataplane.contract.joins import STRING, grow, join
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import (
    NO_COLUMNS,
    Json,
    Schema,
    Type,
    canonical_schema,
    field_of,
    field_types,
    select_columns,
    struct_of,
)
from dataplane.contract.source_objects import NESTED, SourceObject
from dataplane.contract.types import NOTHING, held, in_words
from dataplane.fragments.attempt import Cancelled, Failed
from dataplane.fragments.content import quoted
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_schemas import schema_of, spark_type
from dataplane.spark.spark_session import reading_session
from dataplane.storage.source_stores import BUFFER_BYTES
from dataplane.task_failures import TaskFailure

_FIXED = {"text": [("value", "string")], "binary": [("content", "binary"), ("length", "long")]}
T = TypeVar("T")
_HEADER = 1 << 22
_FIRST_ROWS = 1000


def infer(
    attempt: SparkAttempt[SourceClaim], task: ObjectsTask, under: Schema = NO_COLUMNS
) -> Schema:
    """The union of the files' columns, in order of first appearance. `under`: inferred types that
    the files could not be read under: a number that such a type does not hold is a text."""
    attempt.enter()
    job, objects = attempt.claim["job"], task["objects"]
    if job["format"] in _FIXED:
        return _struct(dict(_FIXED[job["format"]]))
    if job["format"] in footers.FORMATS:
        return _struct(_of_footers(attempt, objects))
    types = _of_texts(attempt, objects, field_types(under))
    order = dict.fromkeys(
        name for o in objects for name in o["columns"] or () if NESTED not in name
    )
    return _struct({name: types.get(name, NOTHING) for name in dict.fromkeys([*order, *types])})


def _struct(types: Mapping[str, Type]) -> Schema:
    return canonical_schema(struct_of(field_of(n, t) for n, t in types.items()))


# --- footers --------------------------------------------------------------------------------------


def _of_footers(
    attempt: SparkAttempt[SourceClaim], objects: Sequence[SourceObject]
) -> dict[str, Type]:
    """The join of the files' types. TaskFailure with file, column and both types where no type
    holds two."""
    types: dict[str, Type] = {}
    first: dict[str, str] = {}  # the file that first had a column
    for path, own in attempt.threads.map(lambda source: _held_types(attempt, source), objects):
        for name, kind in own.items():
            types[name], conflicts = grow(name, types.get(name, kind), kind, is_text=False)
            for conflict in conflicts:
                have, other = in_words(conflict.have), in_words(conflict.other)
                message = f"column {conflict.name} is {other} there, and {have} in {first[name]}"
                remedy = "correct one of the files, or give the column a type in `schema:`"
                raise TaskFailure(
                    "schema-retyped",
                    f"{path}: {message}; no type safely holds both: {remedy}",
                    file=path,
                )
            first.setdefault(name, path)
    return types


def _held_types(
    attempt: SparkAttempt[SourceClaim], source: SourceObject
) -> tuple[str, dict[str, Type]]:
    attempt.check()
    job, path = attempt.claim["job"], reported_path(source)
    with open_source(job, source, BUFFER_BYTES) as file:
        types = footers.footer_types(file, path, job["format"])
    own: dict[str, Type] = {}
    for name, kind in types.items():
        dataset_type = held(kind)
        if dataset_type is None:
            message = f"{path}: column {name} is {in_words(kind)}, which no type of a dataset holds"
            raise TaskFailure(
                "schema-retyped",
                f"{message}: leave it out of the file, or write it as another type",
                file=path,
            )
        own[name] = dataset_type
    return path, own


# --- texts ----------------------------------------------------------------------------------------


def _of_texts(
    attempt: SparkAttempt[SourceClaim], objects: Sequence[SourceObject], under: Mapping[str, Type]
) -> dict[str, Type]:
    job = attempt.claim["job"]
    session = reading_session(attempt.spark, job["timezone"])
    if job["format"] != "csv":
        return _blaming(attempt, objects, lambda some: _of_json(attempt, session, some, under))
    facts: dict[str, NumberFacts] = {}
    doubts = attempt.threads.map(partial(_has_doubtful_numbers, attempt), objects)
    doubtful = {
        source["uri"] for source, is_doubtful in zip(objects, doubts, strict=True) if is_doubtful
    }
    for some in _alike(job, objects, doubtful):
        sound = frozenset() if some[0]["uri"] in doubtful else SEARCHED
        work = partial(_of_csv, attempt, session, sound=sound)
        for name, own in _blaming(attempt, some, work).items():
            facts[name] = facts.get(name, NumberFacts()).plus(own)
    return {name: _type_of(own, under.get(name)) for name, own in facts.items()}


def _type_of(facts: NumberFacts, under: Type | None) -> Type:
    """The least type for these values; text where the type that they are to be read under does not
    hold a number."""
    is_held = (
        under is None or not is_number(under) or facts.plus(NumberFacts((under,))).type != STRING
    )
    return facts.type if is_held else STRING


def _blaming(
    attempt: SparkAttempt[SourceClaim],
    objects: Sequence[SourceObject],
    work: Callable[[Sequence[SourceObject]], T],
) -> T:
    """The work over all objects. Where it fails over several, the error is that of the first one
    that fails alone."""
    try:
        return work(objects)
    except (Cancelled, Failed):
        raise
    except Exception as e:
        attempt.check()
        error = explain(e, ErrorSource(reads="sources", renamed=attempt.renamed))
        if error["kind"] != "user":
            raise
        if len(objects) > 1:
            middle = len(objects) // 2
            for half in (objects[:middle], objects[middle:]):
                _blaming(attempt, half, work)
            raise
        if misread_as := _misread(attempt.claim["job"], objects[0]):
            raise Failed(misread_as) from e
        path = reported_path(objects[0])
        message = error["message"] if path in error["message"] else f"{path}: {error['message']}"
        raise Failed({**error, "message": message, "file": path}) from e


def _misread(job: SourceJob, source: SourceObject) -> TaskError | None:
    """The error that a check of a file's bytes finds, as after a parse; None without one."""
    try:
        error = misread(job, source, encoding_of(job["format"], job["options"]) or "")
    except (OSError, TaskFailure):
        return None
    return error if isinstance(error, dict) else None


def _inferred(
    attempt: SparkAttempt[SourceClaim], session: SparkSession, objects: Sequence[SourceObject]
) -> Schema:
    """The schema that Spark infers. In JSON, fields without any value are left out."""
    job = attempt.claim["job"]
    source = reader(session, job["format"], job["options"]).option("inferSchema", "true")
    return schema_of(loaded(attempt, session, source.option("dropFieldIfAllNull", "true"), objects))


def _has_doubtful_numbers(attempt: SparkAttempt[SourceClaim], source: SourceObject) -> bool:
    """Whether a CSV file may have numbers that Spark takes for others."""
    attempt.check()
    job = attempt.claim["job"]
    encoding = encoding_of(job["format"], job["options"]) or ""
    try:
        return misread(job, source, encoding, number_types=SEARCHED) is not None
    except (OSError, TaskFailure):
        return True  # Spark will report the fault


def _of_csv(
    attempt: SparkAttempt[SourceClaim],
    session: SparkSession,
    objects: Sequence[SourceObject],
    *,
    sound: Collection[Type],
) -> dict[str, NumberFacts]:
    """`sound`: types whose values Spark infers as they are written."""
    job = attempt.claim["job"]
    schema = _inferred(attempt, session, objects)
    types = field_types(schema)
    clocks = clock_columns(job["format"], job["options"], schema)
    source = reader(session, job["format"], job["options"]).option("mode", "PERMISSIVE")
    rows = loaded(attempt, session, source.schema(spark_type(as_texts(schema))), objects)
    fine = _names_with_values(rows, [name for name, kind in types.items() if kind == STRING])
    fine |= {name for name, kind in types.items() if kind in sound}
    aggregates = {
        name: []
        if name in fine
        else _text_aggregates(F.col(quoted(name)), kind, job, is_clock=name in clocks)
        for name, kind in types.items()
    }
    columns = [column for some in aggregates.values() for column in some]
    [row] = rows.agg(*columns).collect() if columns else [()]
    values = iter(row)
    return {
        name: _facts(types[name], [next(values) for _ in some]) for name, some in aggregates.items()
    }


def _names_with_values(rows: DataFrame, names: Sequence[str]) -> set[str]:
    """The columns that have a value in the first rows."""
    has_value = [F.col(quoted(name)).isNotNull() for name in names]
    first = rows.select(*has_value).limit(_FIRST_ROWS).collect() if names else []
    return {
        name for name, values in zip(names, zip(*first, strict=True), strict=False) if any(values)
    }


def _text_aggregates(text: Column, kind: Type, job: SourceJob, *, is_clock: bool) -> list[Column]:
    """Aggregates over the texts of a column that Spark takes for this type; `_facts` reads them."""
    if is_number(kind):
        return facts_of(text, job["options"])
    if kind == STRING:
        return [F.max(text.isNotNull())]
    return [first_time(text)] if is_clock else []


def _facts(kind: Type, values: Sequence[Json]) -> NumberFacts:
    """The facts in the values of `_text_aggregates`; Spark's own type where there are none."""
    if not values:
        return NumberFacts((kind,))
    if is_number(kind):
        return read_facts(values)
    if kind == STRING:
        return NumberFacts((STRING,) if values[0] else ())
    return NumberFacts((STRING if values[0] is not None else kind,))


def _of_json(
    attempt: SparkAttempt[SourceClaim],
    session: SparkSession,
    objects: Sequence[SourceObject],
    under: Mapping[str, Type],
) -> dict[str, Type]:
    """As Spark has it, with texts where DOUBLE would not hold a number."""
    schema = _inferred(attempt, session, objects)
    types = field_types(schema)
    wide = {name: join(kind, under.get(name, kind), is_text=True) for name, kind in types.items()}
    paths = [path for path in number_paths(types) if type_at(wide, path) == "double"]
    lost = lost_numbers(
        attempt, session, objects, select_columns(schema, {p[0] for p in paths}), paths
    )
    return field_types(json_numbers.as_texts(schema, lost))


def _alike(
    job: SourceJob, objects: Sequence[SourceObject], doubtful: Collection[str]
) -> Iterator[list[SourceObject]]:
    """CSV files that Spark may infer together: it takes the first one's header line for that of
    all. `doubtful`: URIs of files whose numbers are looked up."""
    groups: dict[object, list[SourceObject]] = {}
    for source in objects:
        line = _first_line(job, source) if has_header(job["format"], job["options"]) else b""
        groups.setdefault(
            (tuple(source["columns"] or ()), line, source["uri"] in doubtful), []
        ).append(source)
    yield from groups.values()


def _first_line(job: SourceJob, source: SourceObject) -> bytes:
    """As bytes; only to be compared with that of another file."""
    try:
        with open_source(job, source, BUFFER_BYTES) as file:
            return plain(file, source["uri"]).readline(_HEADER).rstrip(b"\r\n")
    except (OSError, EOFError, TaskFailure):
        return source["uri"].encode()  # alike to no other; Spark will report the fault
