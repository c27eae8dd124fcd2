"""The protocol of a process that answers SQL: a question is a line of JSON.

An answer is a row of frames: a letter, the length of what follows in four bytes, and what follows.
`A` frames are pieces of an Arrow stream, of a page's rows, or of a body of records; the last frame
is a `J`, with a JSON object.
"""

from __future__ import annotations

from struct import Struct
from typing import Literal, NotRequired, TypeAlias, TypedDict

from dataplane.contract.schemas import Json, Schema

HEAD = Struct(">cI")
ARROW, LAST = b"A", b"J"
SQL_MOST = 100_000  # characters of a query
FRAME_MOST = 16 << 20  # bytes of one frame
PAGE_BYTES = 8 << 20  # rows of a page as JSON; also the most that one row may take
CELL_BYTES = 1 << 20  # of one value on a page: beyond that it is cut
# After its deadline a query is interrupted; this much later the kernel ends the process
GRACE_S = 1.0


class ProcessBounds(TypedDict):
    """The first line: which lake, what a process may take, and after how long without a question it
    ends."""

    lake: str
    scratch: str
    memory_bytes: int
    disk_bytes: int
    idle_s: float


class TableReference(TypedDict):
    """A table that a query names: parts as DuckDB reads them, so a point stands behind the last one
    (`delays@2`). `branch` is empty where none is named. `at` counts characters of the query's text
    from 0."""

    branch: str
    dataflow: str
    table: str
    at: int


def named(reference: TableReference) -> tuple[str, str, str]:
    """The name by which DuckDB distinguishes tables: it ignores the case of letters."""
    return reference["branch"].lower(), reference["dataflow"].lower(), reference["table"].lower()


class QueryTable(TypedDict):
    """The files of what a reference means, as paths in the lake, and their schema. `rows`: of a
    view of the service, in place of files: values in the order of the schema, times as text."""

    reference: TableReference
    files: list[str]
    schema: Schema
    rows: NotRequired[list[list[Json]]]


class Inspect(TypedDict):
    """Which tables does it name?"""

    ask: Literal["inspect"]
    sql: str


class RunQuestion(TypedDict):
    """Rows as an Arrow stream. `limit`: rows at most. `parameters`: an object by name, or an array
    by position."""

    ask: Literal["run"]
    sql: str
    parameters: Json
    tables: list[QueryTable]
    limit: int | None
    seconds: float


class SparkTable(TypedDict):
    """The files of a view, as paths in the lake, and their schema. `name` is what the user calls
    it."""

    view: str
    name: str
    files: list[str]
    schema: Schema


class SparkRun(TypedDict):
    """As `RunQuestion`, for Spark: the text names views. `settings`: of the session, as those of a
    transform's job."""

    ask: Literal["spark"]
    sql: str
    parameters: dict[str, Json]
    tables: list[SparkTable]
    settings: dict[str, Json]
    limit: int | None
    seconds: float


class StopQuestion(TypedDict):
    """No question, and not answered: the question of this number, counted from 1, is to end
    soon."""

    ask: Literal["stop"]
    question: int


class RowOrder(TypedDict):
    """By the values of a column, counted from 0; NULL comes last."""

    column: int
    descending: bool


class PageQuestion(TypedDict):
    """Rows of an Arrow stream that lies in a file of this machine: pieces of a JSON array. It ends
    with the row before the one that would take it beyond `page_bytes`; values beyond `cell_bytes`
    are cut. `order`: None for that of the stream."""

    ask: Literal["page"]
    path: str
    offset: int
    limit: int
    page_bytes: int
    cell_bytes: int
    order: RowOrder | None


FileForm: TypeAlias = Literal["csv", "json", "parquet"]


class AsFile(TypedDict):
    """An Arrow stream that lies in a file of this machine, as a file of another form there.
    `generations`: of the query's tables, for forms that have a place for them."""

    ask: Literal["file"]
    path: str
    to: str
    form: FileForm
    generations: dict[str, int]


class Compare(TypedDict):
    """Have two Arrow streams in files of this machine the same rows, in any order?"""

    ask: Literal["compare"]
    one: str
    other: str
    samples: int


class ReadRecords(TypedDict):
    """Committed rows as pieces of a body. `request`: as `dataplane.fragments.file_records` reads
    it."""

    ask: Literal["records"]
    request: Json


QueryQuestion: TypeAlias = (
    Inspect | RunQuestion | SparkRun | StopQuestion | PageQuestion | AsFile | Compare | ReadRecords
)


class Inspected(TypedDict):
    """`is_repeatable`: the same query over the same rows gives the same, as it names neither clock
    nor chance."""

    references: list[TableReference]
    is_repeatable: bool


class QueryColumn(TypedDict):
    """`type` is the engine's name of it."""

    name: str
    type: str


class CutCell(TypedDict):
    """A value that is cut on its page. `row`: its number in the result; `column`: its place in
    `columns`; both from 0. `size_bytes`: of the whole value, of its JSON where it is no text."""

    row: int
    column: int
    size_bytes: int


class PageFound(TypedDict):
    """What comes after the pieces. `rows`: how many there are in them."""

    columns: list[QueryColumn]
    rows: int
    cut: list[CutCell]


class Ran(TypedDict):
    """`more`: there are rows beyond the limit."""

    rows: int
    more: bool


class Compared(TypedDict):
    """`rows` of each. Rows that only one has, as many as requested, and how many such rows each
    has."""

    rows: list[int]
    only: list[int]
    samples: list[list[list[Json]]]


class Refusal(TypedDict):
    """Why there is no answer. `refused` is of the query's text, at a character of it where that is
    known; `unknown` a table that was not given; `limit` a bound that it met; `lake` a file that
    cannot be read; `stopped` on request; `none`: there is no engine to run it."""

    kind: Literal["refused", "unknown", "limit", "lake", "stopped", "none"]
    message: str
    at: int | None
