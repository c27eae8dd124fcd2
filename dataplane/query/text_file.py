"""A stored result of a query as a text file: CSV or JSON, with all rows, also of a large result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from dataplane.contract.query_protocol import AsFile
from dataplane.contract.schemas import Json
from dataplane.query.query_results import StoredResult, stored
from dataplane.query.statement import StatementRefused

MOST_BYTES = 512 << 20
TOO_LARGE = "the file would have more than {most:,} bytes; take the result as Arrow or Parquet"
Written: TypeAlias = Iterator[str]


def write(question: AsFile) -> None:
    """A line is held. Raises OSError if the stream is not there, and QueryRefused for a file that
    is too large."""
    lines: Callable[[StoredResult, Mapping[str, int]], Written] = (
        _csv if question["form"] == "csv" else _json
    )
    left = MOST_BYTES
    with stored(question["path"]) as result, open(question["to"], "wb") as file:
        for line in lines(result, question["generations"]):
            left -= file.write(line.encode(errors="replace"))
            if left < 0:
                raise StatementRefused(
                    {"kind": "limit", "message": TOO_LARGE.format(most=MOST_BYTES), "at": None}
                )


def _csv(result: StoredResult, generations: Mapping[str, int]) -> Written:  # noqa: ARG001  # CSV has no place for them
    """RFC 4180, as files of records: null is empty, text is in quotation marks, nested values are
    JSON."""
    yield _line([column["name"] for column in result.columns])
    yield from map(_line, result.rows(0))


def _line(values: Sequence[Json]) -> str:
    return ",".join(map(_cell, values)) + "\n"


def _cell(value: Json) -> str:
    match value:
        case None:
            return ""
        case bool() | int() | float():
            return json.dumps(value)
        case list() | dict():
            return _quoted(_dumped(value))
        case _:
            return _quoted(str(value))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _json(result: StoredResult, generations: Mapping[str, int]) -> Written:
    """As `headgate query --output json`: columns may have equal names, so rows are lists."""
    head = {"columns": result.columns, "generations": generations}
    yield _dumped(head)[:-1] + ', "rows": [\n'
    between = ""
    for row in result.rows(0):
        yield between + _dumped(row)
        between = ",\n"
    yield "\n]}\n"


def _dumped(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)
