"""Slices of a table or query: which there are, which rows each holds, and a version that moves when
these do.

A version is made of the columns and sums of hashes that the server computes over all rows of the
slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlencode

from psycopg import Connection, sql

from dataplane.connectors.jdbc.jdbc_connection import NO_ROWS, connected, identifier
from dataplane.contract.jobs import ConnectorSettings, ListJob
from dataplane.contract.keys import column_key, encode_segment
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from typing import LiteralString

OURS = "_headgate_row"
ROW = sql.Identifier(OURS)  # the name of a row in our queries: no column of theirs has it
FEW = 50  # slices up to which only their rows are looked at
# Types of which equal values have one text: a value's slice is then found by the value, perhaps
# through an index.
_EXACT = frozenset(
    {"bool", "int2", "int4", "int8", "text", "varchar", "date", "uuid", "timestamp", "timestamptz"}
)


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
        got = dict(parse_qsl(uri.rpartition("?")[2], keep_blank_values=True)) if "?" in uri else {}
        is_open = "after" not in got
        column, value, low, high = (got.get(k) for k in ("column", "value", "low", "high"))
        return Slice(
            column or "",
            value,
            "null" in got,
            low=low,
            high=high,
            has_low=is_open,
            is_exact="text" not in got,
        )

    def condition(self) -> sql.Composable:
        """The rows, as SQL."""
        if not self.column:
            return sql.SQL("true")
        column = sql.Identifier(OURS, self.column)
        if self.is_null:
            return sql.SQL("{} IS NULL").format(column)
        if self.value is not None:
            named = column if self.is_exact else sql.SQL("{}::text").format(column)
            return sql.SQL("{} = {}").format(named, sql.Literal(self.value))
        above, below = (">=", "<") if self.has_low else (">", "<=")
        bounds: list[tuple[LiteralString, str | None]] = [(above, self.low), (below, self.high)]
        parts = [
            sql.SQL("{} {} {}").format(column, sql.SQL(op), sql.Literal(b))
            for op, b in bounds
            if b is not None
        ]
        return sql.SQL(" AND ").join([*parts, sql.SQL("{} IS NOT NULL").format(column)])


def source_of(settings: ConnectorSettings) -> sql.Composable:
    """The table or query with a name for its rows."""
    if settings["table"]:
        return sql.SQL("{} AS {}").format(identifier(settings["table"]), ROW)
    query = settings["query"].strip().rstrip(";")
    return sql.SQL("({}\n) AS {}").format(sql.SQL(cast("LiteralString", query)), ROW)


# --- listing ------------------------------------------------------------------------------------


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """The `list` kind of work: all slices are read before the first is given."""
    with connected(job) as connection, connection.transaction():
        snapshot(connection)
        parts = list(_listed(connection, job))
    yield from sorted(parts, key=lambda p: p["key"].encode())


def snapshot(connection: Connection[Any]) -> None:
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _listed(connection: Connection[Any], job: ListJob) -> Iterator[ListedPartition]:
    if job["settings"]["by"] == "incremental":
        yield from _added(connection, job)
        return
    require_ascending(connection, job["settings"])
    for source in objects(connection, job["settings"]):
        yield listed(source["name"], [source], ())


def objects(
    connection: Connection[Any], settings: ConnectorSettings, only: Sequence[Slice] = ()
) -> list[SourceObject]:
    """All slices that have rows, as they are in this transaction; or these, as far as they have
    some. All rows as one slice are there without rows, too."""
    columns = columns_of(connection, settings)
    by_column = settings["by"] == "partitioned"
    labels = _labels(settings) if by_column else sql.SQL("NULL::text")
    some = [s.condition() for s in only] if len(only) <= FEW else []
    where = (
        sql.SQL(" OR ").join(sql.SQL("({})").format(c) for c in some) if some else sql.SQL("true")
    )
    head = sql.SQL("label" if by_column else "min(label)")
    query = _CHECKSUMS.format(
        head=head, row=ROW, labels=labels, source=source_of(settings), where=where
    )
    group = sql.SQL(" GROUP BY label") if by_column else sql.SQL("")
    rows = connection.execute(query + group).fetchall()
    slice_of = _namer(settings, columns) if by_column else lambda _: Slice()
    return [_object(settings, slice_of(label), columns, sums) for label, *sums in rows]


# Two sums of hashes with different seeds, as for fragments: equal pairs of rows do not cancel each
# other. OFFSET keeps the inner query one of its own, else each row is made a text three times; one
# of type bigint leaves it parallel.
_CHECKSUMS = sql.SQL(
    """SELECT {head}, count(*), coalesce(sum(octet_length(told)), 0),
       coalesce(sum(hashtextextended(told, 0)), 0), coalesce(sum(hashtextextended(told, 1)), 0)
FROM (SELECT {labels} AS label, {row}::text COLLATE "C" AS told FROM {source} WHERE {where} OFFSET '0') AS rows"""
)


def columns_of(connection: Connection[Any], settings: ConnectorSettings) -> list[tuple[str, str]]:
    """Name and type in order. TaskFailure where one has the name that rows have."""
    columns = connection.execute(NO_ROWS.format(source_of(settings))).description or ()
    if any(c.name == OURS for c in columns):
        raise TaskFailure(
            "reserved-column", f"there is a column {OURS}: name it otherwise in a `query`"
        )
    return [(c.name, c.type_display) for c in columns]


def require_ascending(connection: Connection[Any], settings: ConnectorSettings) -> None:
    """TaskFailure where a bound is below the one before, as the server compares them: slices would
    share rows."""
    pairs = list(pairwise(settings.get("bounds", ())))
    if not pairs:
        return
    column = sql.Identifier(OURS, settings["column"])
    falls = [sql.SQL("coalesce(one, {}) > {}").format(*map(sql.Literal, pair)) for pair in pairs]
    # NULL of the column's type
    query = sql.SQL("SELECT {} FROM (SELECT (SELECT {} FROM {} LIMIT 0) AS one) AS typed")
    [is_falling_each] = connection.execute(
        query.format(sql.SQL(", ").join(falls), column, source_of(settings))
    ).fetchall()
    for low, high in (
        pair for pair, is_falling in zip(pairs, is_falling_each, strict=True) if is_falling
    ):
        message = f"bounds of {settings['column']} have to ascend, and the database has {high} before {low}"
        raise TaskFailure("bounds-not-ascending", message)


def _labels(settings: ConnectorSettings) -> sql.Composable:
    """The label of a row's slice: the text of the value, or the number of bounds up to it."""
    column = sql.Identifier(OURS, settings["column"])
    if not settings["bounds"]:
        return sql.SQL("{}::text").format(column)
    cases = [
        sql.SQL("WHEN {} < {} THEN {}").format(column, sql.Literal(b), sql.Literal(str(i)))
        for i, b in enumerate(settings["bounds"])
    ]
    end = sql.Literal(str(len(settings["bounds"])))
    return sql.SQL("CASE WHEN {} IS NULL THEN NULL {} ELSE {} END").format(
        column, sql.SQL(" ").join(cases), end
    )


def _namer(
    settings: ConnectorSettings, columns: Iterable[tuple[str, str]]
) -> Callable[[str | None], Slice]:
    column, bounds = settings["column"], settings["bounds"]
    is_exact = next(
        (kind.partition("(")[0] in _EXACT for name, kind in columns if name == column), False
    )

    def named(label: str | None) -> Slice:
        if label is None:
            return Slice(column, is_null=True)
        if not bounds:
            return Slice(column, label, is_exact=is_exact)
        at = int(label)
        low, high = (bounds[i] if 0 <= i < len(bounds) else None for i in (at - 1, at))
        return Slice(column, low=low, high=high)

    return named


def _object(
    settings: ConnectorSettings,
    part: Slice,
    columns: Sequence[tuple[str, str]],
    measures: Sequence[Any],
) -> SourceObject:
    rows, size, *sums = map(int, measures)
    return described(settings, part, part.key, size, (columns, rows, size, sums), columns)


def described(
    settings: ConnectorSettings,
    part: Slice,
    name: str,
    size: int,
    state: object,
    columns: Sequence[tuple[str, str]],
) -> SourceObject:
    uri = f"{settings['url']}#{settings['table'] or sha256(settings['query'].encode()).hexdigest()}?{part.uri_query}"
    return {
        "name": name,
        "uri": uri,
        "size": size,
        "modified_ms": 0,
        "version": f"etag:{sha256(repr(state).encode()).hexdigest()}",
        "columns": [name for name, _ in columns],
    }


# --- growing ------------------------------------------------------------------------------------


def _added(connection: Connection[Any], job: ListJob) -> Iterator[ListedPartition]:
    """The rows above all listed ones. A slice has the rows that lie in it when it is read."""
    settings, listed_before = job["settings"], job["known"]
    assert listed_before is not None, "a claim says what is known"
    last = Slice.of(listed_before["objects"][0]["uri"]).high if listed_before["objects"] else None
    column = sql.Identifier(OURS, settings["column"])
    above = Slice(settings["column"], low=last, has_low=False).condition()
    query = sql.SQL("SELECT max({})::text, count(*) FROM {} WHERE {}").format(
        column, source_of(settings), above
    )
    [(high, rows)] = connection.execute(query).fetchall()
    if not rows:
        return
    key = f"{int(listed_before['key'] or 0) + 1:012d}"
    columns = columns_of(connection, settings)
    part = Slice(settings["column"], low=last, high=high, has_low=False)
    yield listed(
        key, [described(settings, part, key, rows, (columns, part.uri_query), columns)], ()
    )
