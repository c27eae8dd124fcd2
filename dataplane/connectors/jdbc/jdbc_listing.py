"""Slices of a table or query: which there are, which rows each holds, and a version that moves when
these do.

A version is made of the columns and sums of hashes that the server computes over all rows of the
slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dataplane.connectors.jdbc.dialect import (
    OURS,
    DatabaseDialect,
    DatabaseSession,
    RowQuery,
    TableColumn,
)
from dataplane.connectors.jdbc.jdbc_connection import address, connected
from dataplane.contract.jobs import ConnectorSettings, ListJob
from dataplane.contract.keys import column_key, encode_segment
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.task_failures import TaskFailure

NO_LABEL = "CAST(NULL AS char(1))"
FEW = 50  # slices up to which only their rows are looked at


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows by one column: those with a value, with none, or from a bound to another. No column: all
    rows.

    `has_low`: whether `low` itself is in it; `high` is if `low` is not.
    """

    column: str = ""
    value: str | None = None
    is_null: bool = False
    low: str | None = None
    high: str | None = None
    has_low: bool = True
    is_exact: bool = True

    @property
    def key(self) -> str:
        if not self.column:
            return ""
        if self.is_null or self.value is not None:
            return column_key([self.column], [self.value])
        low, high = (encode_segment(b) if b is not None else "" for b in (self.low, self.high))
        return f"{encode_segment(self.column)}={low}..{high}"

    @property
    def uri_query(self) -> str:
        """As part of a URI."""
        parts = {
            "column": self.column,
            "value": self.value,
            "null": "1" if self.is_null else None,
            "low": self.low,
            "high": self.high,
            "after": None if self.has_low else "1",
            "text": None if self.is_exact else "1",
        }
        return urlencode({k: v for k, v in parts.items() if v is not None and (v or k != "column")})

    @staticmethod
    def of(uri: str) -> Slice:
        query = uri.rpartition("?")[2] if "?" in uri else ""
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        is_open = "after" not in parameters
        column, value, low, high = (parameters.get(k) for k in ("column", "value", "low", "high"))
        return Slice(
            column or "",
            value,
            "null" in parameters,
            low=low,
            high=high,
            has_low=is_open,
            is_exact="text" not in parameters,
        )

    def condition(self, database: Table) -> str:
        """The rows, as SQL."""
        if not self.column:
            return "1 = 1"
        dialect, column = database.dialect, database.column(self.column)
        expression = dialect.name(OURS, self.column)
        if self.is_null:
            return f"{expression} IS NULL"
        if self.value is not None and self.is_exact:
            return f"{expression} = {dialect.comparable(self.value, column)}"
        if self.value is not None:
            return dialect.equals(expression, self.value, column)
        above, below = (">=", "<") if self.has_low else (">", "<=")
        bounds = [(above, self.low), (below, self.high)]
        parts = [
            f"{expression} {op} {dialect.comparable(b, column)}"
            for op, b in bounds
            if b is not None
        ]
        return " AND ".join([*parts, f"{expression} IS NOT NULL"])


@dataclass(frozen=True, slots=True)
class Table:
    """A table or query of a database, with its columns as they are in this transaction."""

    session: DatabaseSession
    dialect: DatabaseDialect
    settings: ConnectorSettings
    columns: Sequence[TableColumn]

    @staticmethod
    def of(
        session: DatabaseSession, dialect: DatabaseDialect, settings: ConnectorSettings
    ) -> Table:
        """TaskFailure where a column has the name that rows have."""
        columns = session.columns(dialect.no_rows(source_of(dialect, settings)))
        if any(c.name == OURS for c in columns):
            raise TaskFailure(
                "reserved-column", f"there is a column {OURS}: name it otherwise in a `query`"
            )
        return Table(session, dialect, settings, columns)

    @property
    def source(self) -> str:
        return source_of(self.dialect, self.settings)

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    @property
    def described(self) -> list[tuple[str, str]]:
        return [(c.name, c.kind) for c in self.columns]

    def column(self, name: str) -> TableColumn:
        column = next((c for c in self.columns if c.name == name), None)
        if column is None:
            names = ", ".join(self.names)
            raise TaskFailure("column-missing", f"there is no column {name}: {names}")
        return column

    def select(self, part: Slice, snapshot: str) -> str:
        """The rows of a slice with their hashes, in a snapshot of the dialect."""
        dialect = self.dialect
        values, hashes = dialect.read_values(self.columns), dialect.row_hashes(self.columns)
        source = source_of(dialect, self.settings, snapshot)
        return f"SELECT {values}, {hashes} FROM {source} WHERE {part.condition(self)}"


def source_of(dialect: DatabaseDialect, settings: ConnectorSettings, snapshot: str = "") -> str:
    """The table or query with a name for its rows."""
    if settings["table"]:
        return dialect.rows_of(dialect.name(*dialect.names_of(settings["table"])) + snapshot)
    query = settings["query"].strip().rstrip(";")
    return dialect.rows_of(f"({query}\n)")


# --- listing ------------------------------------------------------------------------------------


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """The `list` kind of work: all slices are read before the first is given."""
    place = address(job)
    with connected(place) as session, snapshot(session, place.dialect):
        table = Table.of(session, place.dialect, job["settings"])
        parts = list(_listed(table, job))
    yield from sorted(parts, key=lambda p: p["key"].encode())


@contextmanager
def snapshot(session: DatabaseSession, dialect: DatabaseDialect) -> Iterator[None]:
    """A transaction that reads one state of the database."""
    with session.transaction():
        for statement in dialect.read_isolation:
            session.rows(statement)
        yield


def _listed(table: Table, job: ListJob) -> Iterator[ListedPartition]:
    if job["settings"]["by"] == "incremental":
        yield from _added(table, job)
        return
    require_ascending(table)
    for source in objects(table):
        yield listed(source["name"], [source], ())


def objects(table: Table, only: Sequence[Slice] = ()) -> list[SourceObject]:
    """All slices that have rows, as they are in this transaction; or these, as far as they have
    some. All rows as one slice are there without rows, too."""
    by_column = table.settings["by"] == "partitioned"
    conditions = [f"({s.condition(table)})" for s in only] if len(only) <= FEW else []
    rows = RowQuery(
        source=table.source,
        columns=table.columns,
        where=" OR ".join(conditions) or "1 = 1",
        label=_label(table) if by_column else NO_LABEL,
        is_grouped=by_column,
    )
    slice_of = _namer(table) if by_column else lambda _: Slice()
    summed = table.session.rows(table.dialect.checksums(rows))
    return [_object(table, slice_of(label), sums) for label, *sums in summed]


def require_ascending(table: Table) -> None:
    """TaskFailure where a bound is below the one before, as the server compares them: slices would
    share rows."""
    pairs = list(pairwise(table.settings.get("bounds", ())))
    if not pairs:
        return
    dialect, name = table.dialect, table.settings["column"]
    column = table.column(name)
    typed = dialect.empty_column(dialect.name(OURS, name), table.source)
    falls = []
    for low, high in pairs:
        first, second = dialect.comparable(low, column), dialect.comparable(high, column)
        falls.append(f"CASE WHEN coalesce({typed}, {first}) > {second} THEN 1 ELSE 0 END")
    query = f"SELECT {', '.join(falls)}{dialect.no_table()}"
    [is_falling_each] = table.session.rows(query)
    for (low, high), is_falling in zip(pairs, is_falling_each, strict=True):
        if int(is_falling):
            message = f"bounds of {name} have to ascend, and the database has {high} before {low}"
            raise TaskFailure("bounds-not-ascending", message)


def _label(table: Table) -> str:
    """The label of a row's slice: the text of the value, or the number of bounds up to it."""
    dialect, settings = table.dialect, table.settings
    column, expression = table.column(settings["column"]), dialect.name(OURS, settings["column"])
    if not settings["bounds"]:
        return dialect.label(expression, column)
    cases = [
        f"WHEN {expression} < {dialect.comparable(b, column)} THEN {dialect.literal(str(i))}"
        for i, b in enumerate(settings["bounds"])
    ]
    end = dialect.literal(str(len(settings["bounds"])))
    return f"CASE WHEN {expression} IS NULL THEN NULL {' '.join(cases)} ELSE {end} END"


def _namer(table: Table) -> Callable[[str | bytes | None], Slice]:
    column, bounds = table.settings["column"], table.settings["bounds"]
    is_exact = table.dialect.is_exact(table.column(column))

    def named(label: str | bytes | None) -> Slice:
        if label is None:
            return Slice(column, is_null=True)
        text = label.decode() if isinstance(label, bytes) else label
        if not bounds:
            return Slice(column, text, is_exact=is_exact)
        at = int(text)
        low, high = (bounds[i] if 0 <= i < len(bounds) else None for i in (at - 1, at))
        return Slice(column, low=low, high=high)

    return named


def _object(table: Table, part: Slice, measures: Sequence[Any]) -> SourceObject:
    rows, size, first, second, hashed = map(int, measures)
    if hashed != rows:
        message = (
            f"{rows - hashed} rows are too large for the server to hash: read less in a `query`"
        )
        raise TaskFailure("row-too-large", message)
    state = (table.described, rows, size, [first, second])
    return described(table, part, part.key, size, state)


def described(table: Table, part: Slice, name: str, size: int, state: object) -> SourceObject:
    settings = table.settings
    rows_of = settings["table"] or sha256(settings["query"].encode()).hexdigest()
    return {
        "name": name,
        "uri": f"{settings['url']}#{rows_of}?{part.uri_query}",
        "size": size,
        "modified_ms": 0,
        "version": version_of(state),
        "columns": table.names,
    }


def version_of(state: object) -> str:
    """The version for columns, number of rows, their bytes, and sums of hashes."""
    return f"etag:{sha256(repr(state).encode()).hexdigest()}"


# --- growing ------------------------------------------------------------------------------------


def _added(table: Table, job: ListJob) -> Iterator[ListedPartition]:
    """The rows above all listed ones. A slice has the rows that lie in it when it is read."""
    dialect, name, listed_before = table.dialect, job["settings"]["column"], job["known"]
    assert listed_before is not None, "a claim says what is known"
    last = Slice.of(listed_before["objects"][0]["uri"]).high if listed_before["objects"] else None
    column, expression = table.column(name), dialect.name(OURS, name)
    where = Slice(name, low=last, has_low=False).condition(table)
    text = dialect.text(f"max({expression})", column)
    query = f"SELECT {text}, count(*) FROM {table.source} WHERE {where}"
    [(high, rows)] = table.session.rows(query)
    if not int(rows):
        return
    key = f"{int(listed_before['key'] or 0) + 1:012d}"
    part = Slice(name, low=last, high=high, has_low=False)
    state = (table.described, part.uri_query)
    yield listed(key, [described(table, part, key, int(rows), state)], ())
