"""What a process that answers SQL is asked, a line of JSON each, and how it answers.

An answer is a row of frames: a letter, the length of what follows in four bytes, and what follows. `A` frames are
pieces of an Arrow stream; the last frame is a `J`, with a JSON object. Does not belong here: DuckDB, Arrow, processes.
"""

from __future__ import annotations

from struct import Struct
from typing import Literal, TypeAlias, TypedDict

from dataplane.contract.schemas import Json, Schema

HEAD = Struct(">cI")
ARROW, LAST = b"A", b"J"
SQL_MOST = 100_000  # characters of a query
GRACE_S = 1.0  # after its deadline a query is interrupted; this much later the kernel ends the process


class Bounds(TypedDict):
    """The first line: which lake, and what a process may take."""

    lake: str
    scratch: str
    memory_bytes: int
    disk_bytes: int


class Reference(TypedDict):
    """A table that a query names: parts as DuckDB reads them, so a point stands behind the last one (`delays@2`).
    `branch` is empty where none is named. `at` counts characters of the query's text from 0."""

    branch: str
    dataflow: str
    table: str
    at: int


def named(reference: Reference) -> tuple[str, str, str]:
    """What DuckDB tells tables apart by: the case of letters is not among it."""
    return reference["branch"].lower(), reference["dataflow"].lower(), reference["table"].lower()


class QueryTable(TypedDict):
    """The files of what a reference means, as paths in the lake, and their schema."""

    reference: Reference
    files: list[str]
    schema: Schema


class Inspect(TypedDict):
    """Which tables does it name?"""

    ask: Literal["inspect"]
    sql: str


class Run(TypedDict):
    """Rows as an Arrow stream. `limit`: rows at most. `parameters`: an object by name, or an array by position."""

    ask: Literal["run"]
    sql: str
    parameters: Json
    tables: list[QueryTable]
    limit: int | None
    seconds: float


class Page(TypedDict):
    """Rows of an Arrow stream that lies in a file of this machine, as JSON."""

    ask: Literal["page"]
    path: str
    offset: int
    limit: int


QueryQuestion: TypeAlias = Inspect | Run | Page


class Inspected(TypedDict):
    """`is_repeatable`: the same query over the same rows gives the same, as it names neither clock nor chance."""

    references: list[Reference]
    is_repeatable: bool


class QueryColumn(TypedDict):
    """`type` is DuckDB's name of it."""

    name: str
    type: str


class PageFound(TypedDict):
    columns: list[QueryColumn]
    rows: list[list[Json]]


class Ran(TypedDict):
    """`more`: there are rows beyond the limit."""

    rows: int
    more: bool


class Refusal(TypedDict):
    """Why there is no answer. `refused` is of the query's text, at a character of it where that is known; `unknown` a
    table that nobody gave; `limit` a bound that it met; `lake` a file that cannot be read."""

    kind: Literal["refused", "unknown", "limit", "lake"]
    message: str
    at: int | None
