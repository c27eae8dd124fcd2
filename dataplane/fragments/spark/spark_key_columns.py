"""The columns of a partition's key in Spark: the text of each, and the rows of given keys.

Equal values of types of any width have one text. NULL stays NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.key_values import CUT, MINUTES
from dataplane.contract.keys import KeyPart, column_texts
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Json, Schema, column_names, field_types
from dataplane.fragments.content import quoted
from dataplane.spark.spark_session import under
from dataplane.task_failures import TaskFailure

_WHOLE = ("byte", "short", "integer", "long", "boolean", "date")
_TIMES = ("timestamp", "timestamp_ntz")
_EXACT = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    # Functions that users' code registers take the place of no function of Spark's
    "spark.sql.functionResolution.sessionOrder": "second",
}


def key_texts(schema: Schema, parts: Sequence[KeyPart]) -> list[str]:
    """SQL text of each part of a key over rows of this schema, for a session that is `exact`.
    TaskFailure for columns that are not there, or of which no keys are made."""
    types = field_types(schema)
    return [_part(part, types) for part in parts]


def spelled(schema: Schema, parts: Sequence[KeyPart], *, case_sensitive: bool) -> list[KeyPart]:
    """The parts with their columns as the schema spells them."""
    names = column_names(schema)
    return [
        {**part, "column": _spelled(part["column"], names, case_sensitive=case_sensitive)}
        for part in parts
    ]


def _spelled(column: str, names: Sequence[str], *, case_sensitive: bool) -> str:
    alike = (
        []
        if column in names or case_sensitive
        else [n for n in names if n.lower() == column.lower()]
    )
    return alike[0] if len(alike) == 1 else column


def exact(session: SparkSession) -> AbstractContextManager[None]:
    """Column names are taken as they are written, and decimals become plain texts, whatever the
    session's settings."""
    return under(session, _EXACT)


def _part(part: KeyPart, types: Mapping[str, Json]) -> str:
    name, kind = part["column"], types.get(part["column"])
    text = _text(quoted(name), kind, part["granule"]) if isinstance(kind, str) else None
    if text is None:
        words = "there is no such column" if kind is None else f"it is {kind}"
        raise TaskFailure(
            "INVALID_KEY_COLUMN", f"no keys can be made of the column {name!r}: {words}"
        )
    return _bucket(text, part["buckets"]) if part["buckets"] else text


def _bucket(text: str, count: int) -> str:
    # The hash of NULL is a number
    return f"IF({text} IS NULL, NULL, CAST(pmod(xxhash64({text}), {count}) AS STRING))"


def _text(column: str, kind: str, granule: str) -> str | None:
    if granule:
        return _granule(column, kind, granule)
    if kind in _WHOLE:
        return f"CAST({column} AS STRING)"
    if kind == "string":
        return f"validate_utf8({column})"  # what is no text could not be found again by one
    if kind.startswith("decimal("):
        text = f"CAST({column} AS STRING)"
        return text if kind.endswith(",0)") else f"regexp_replace({text}, '[.]?0+$', '')"
    return None


def _granule(column: str, kind: str, granule: str) -> str | None:
    day = f"CAST(CAST({column} AS DATE) AS STRING)"
    if granule == "hour" and kind in _TIMES:
        return f"concat({day}, 'T', {_digits(f'hour({column})')})"
    if granule in MINUTES and kind in _TIMES:
        minute = f"minute({column}) - minute({column}) % {MINUTES[granule]}"
        return f"concat({day}, 'T', {_digits(f'hour({column})')}, ':', {_digits(minute)})"
    if kind not in ("date", *_TIMES):
        return None
    if granule == "week":
        return _week(column)
    if granule == "quarter":
        return f"concat({_cut(day, CUT['year'])}, '-Q', quarter({column}))"
    return _cut(day, CUT[granule]) if granule in CUT else None


def _digits(number: str) -> str:
    return f"lpad(CAST({number} AS STRING), 2, '0')"


def _cut(text: str, characters: int) -> str:
    """Without so many characters at the end."""
    return f"left({text}, length({text}) - {characters})"


def _week(column: str) -> str:
    """The week of ISO 8601, such as 2013-W01. It begins on Monday, and belongs to the year of its
    Thursday."""
    date = f"CAST({column} AS DATE)"
    thursday = f"CAST(date_add({date}, 3 - weekday({date})) AS STRING)"
    return f"concat({_cut(thursday, CUT['year'])}, '-W', lpad(CAST(weekofyear({date}) AS STRING), 2, '0'))"


def only(rows: DataFrame, schema: Schema, parts: Sequence[KeyPart], key: str) -> DataFrame:
    """The rows with this key."""
    conditions = zip(key_texts(schema, parts), column_texts(key), strict=True)
    with exact(rows.sparkSession):
        for text, value in conditions:
            rows = rows.filter(F.expr(text).eqNullSafe(F.lit(value)))
    return rows


def any_of(
    rows: DataFrame, schema: Schema, parts: Sequence[KeyPart], keys: Sequence[str]
) -> DataFrame:
    """The rows with one of these keys."""
    return _by_key(rows, key_texts(schema, parts), dict.fromkeys(keys, ""), "left_semi")


def with_key_labels(
    rows: DataFrame, schema: Schema, parts: Sequence[KeyPart], labels: Mapping[str, str]
) -> DataFrame:
    """The rows with the label of their key as the last column. A row of another key fails the
    job."""
    texts = key_texts(schema, parts)
    labelled = _by_key(rows, texts, labels, "left")
    with exact(rows.sparkSession):
        foreign = f"concat_ws('/', 'a row of another key', {', '.join(texts)})"
        label = F.expr(f"coalesce({LABEL}, raise_error({foreign}))")
    return labelled.select(*(F.col(quoted(name)) for name in rows.columns), label.alias(LABEL))


def _by_key(
    rows: DataFrame, texts: Sequence[str], labels: Mapping[str, str], how: str
) -> DataFrame:
    """A join with keys and their labels."""
    columns = [f"{LABEL}_{at}" for at in range(len(texts))]
    key_rows = [(*column_texts(key), label) for key, label in labels.items()]
    ddl = ", ".join(f"{column} STRING" for column in (*columns, LABEL))
    table = F.broadcast(rows.sparkSession.createDataFrame(key_rows, ddl))
    with exact(rows.sparkSession):
        pairs = zip(texts, columns, strict=True)
        same = [F.expr(text).eqNullSafe(table[column]) for text, column in pairs]
        return rows.join(table, same, how)
