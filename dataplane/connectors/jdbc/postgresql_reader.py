"""Slices of a table or query of PostgreSQL as rows in Spark, by its own JDBC source.

All connections read one snapshot of the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.jdbc.dialect import DatabaseAddress
from dataplane.connectors.jdbc.jdbc_connection import connected
from dataplane.connectors.jdbc.jdbc_listing import Slice, Table, snapshot
from dataplane.connectors.jdbc.postgresql import POSTGRESQL, PostgresSession
from dataplane.connectors.jdbc.slice_sums import Comparison, comparing
from dataplane.contract.jobs import ConnectorSettings, SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Json, Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.spark.connector_jars import provide
from dataplane.spark.jars import NoJars
from dataplane.spark.spark_schemas import schema_of
from dataplane.task_failures import TaskFailure

CONNECTIONS = 4  # at a time, where there are as many slices
FETCH_ROWS = "10000"
# Options that choose the table and the server: the component's own keys do that.
_OURS = frozenset(
    {
        "url",
        "user",
        "password",
        "driver",
        "dbtable",
        "query",
        "sessioninitstatement",
        "prefertimestampntz",
    }
)
_QUOTED = re.compile(
    r"""(\b[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|"[^"]*"|(?<![\w$])\$(\w*)\$.*?\$\2\$"""
    r"""|--[^\n]*|/\*.*?\*/)|\?""",
    re.DOTALL,
)
_NUMERIC, _NUMERICS = 1700, 1231  # pg_type.oid of numeric, and of an array of it
_HEADER = 4  # bytes that a type modifier counts beside what it says
MOST_DIGITS = 38  # of Spark's decimals
_DRIVER = "org.postgresql.Driver"
_PASSING = (
    "Connection to ",
    "An I/O error occurred",
    "This connection has been closed",
    "terminating connection",
    "the database system is",
    "invalid snapshot identifier",
    "The connection attempt failed",
)


@contextmanager
def reading(
    session: SparkSession, job: SourceJob, place: DatabaseAddress
) -> Iterator[PostgresqlReader]:
    """Open for as long as the snapshot is needed.

    The session that keeps it touches no table: else an ALTER TABLE would wait for us, and our own
    readers for it.
    """
    _provide(session)
    with connected(place) as keeper, snapshot(keeper, POSTGRESQL), connected(place) as other:
        assert isinstance(keeper, PostgresSession)
        assert isinstance(other, PostgresSession)
        [(name,)] = keeper.rows("SELECT pg_export_snapshot()")
        with comparing(other, name, job["settings"]) as comparison:
            yield PostgresqlReader(session, job, keeper, place, name, comparison)


def _provide(session: SparkSession) -> None:
    try:
        provide(session, POSTGRESQL.scheme)
    except NoJars as e:
        raise TaskFailure(e.condition, str(e), "infrastructure") from e
    _require_driver(session)


def _require_driver(session: SparkSession) -> None:
    """Raise a clear failure, where Spark would only miss a class."""
    try:
        assert session._jvm is not None
        session._jvm.java.lang.Class.forName(
            _DRIVER, True, session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        )
    except Exception as e:  # whatever the JVM says, it has no such class
        message = (
            "Spark has no JDBC driver of PostgreSQL: put its jar into the folder of HEADGATE_JARS"
        )
        raise TaskFailure("jdbc-driver-missing", message) from e


@dataclass(frozen=True, slots=True)
class PostgresqlReader:
    """`dataplane.connectors.source_reader.SourceReader` for one attempt."""

    session: SparkSession
    job: SourceJob
    keeper: PostgresSession
    address: DatabaseAddress
    snapshot: str
    comparison: Comparison

    def schema(self, _: Sequence[SourceObject]) -> Schema:
        query = f"SELECT {self._columns()} FROM {self._table.source}"
        return schema_of(self._source().option("dbtable", f"({_text(query)}) AS q").load())

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        table, columns = self._table, self._columns()
        if len(objects) == 1:
            [(label, source)] = objects
            query = f"({_text(_select(table, columns, source))}) AS q"
            return self._source().option("dbtable", query).load().withColumn(LABEL, F.lit(label))
        parts = [_select(table, columns, source, label) for label, source in objects]
        query = f"({_text(' UNION ALL '.join(parts))}) AS q"
        return self._source().jdbc(self.address.url, query, predicates=_shares(objects))

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """In a growing listing nothing is compared: a slice's rows are those that lie in it now."""
        if self._settings["by"] == "incremental" or not objects:
            return frozenset()
        return self.comparison.changed(objects)

    def may_pass(self, error: TaskError) -> bool:
        return any(words in error["message"] or words in error["detail"] for words in _PASSING)

    @property
    def _table(self) -> Table:
        return Table.of(self.keeper, POSTGRESQL, self._settings)

    @property
    def _settings(self) -> Mapping[str, Json]:
        settings: ConnectorSettings = self.job["settings"]
        return settings

    def _source(self) -> DataFrameReader:
        """Every connection reads in the snapshot of ours: it begins with these statements, in its
        one transaction."""
        begin = (
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;"
            f" SET TRANSACTION SNAPSHOT '{self.snapshot}'"
        )
        users = {k: v for k, v in self.job["options"].items() if k.lower() not in _OURS}
        ours = {
            "sessionInitStatement": begin,
            "preferTimestampNTZ": "true",
            "fetchsize": FETCH_ROWS,
        }
        return (
            self.session.read.format("jdbc")
            .options(**{**ours, **users})
            .options(**_login(self.address))
        )

    def _columns(self) -> str:
        """All of the source, with casts of numbers whose scale Spark has no type for."""
        with self.keeper.connection.cursor() as cursor:
            query = POSTGRESQL.no_rows(self._table.source)
            cursor.execute(query)
            assert cursor.pgresult is not None
            kinds = {
                column.name: _number(column.type_code, cursor.pgresult.fmod(at))
                for at, column in enumerate(cursor.description or ())
            }
        if not any(kinds.values()):
            return "*"
        names = {name: POSTGRESQL.name(name) for name in kinds}
        return ", ".join(
            f"{names[name]}::{kind} AS {names[name]}" if kind else names[name]
            for name, kind in kinds.items()
        )


def _login(place: DatabaseAddress) -> dict[str, str]:
    """Options of Spark's JDBC source."""
    login = {"user": place.user, "password": place.password}
    return {"url": place.url, "driver": _DRIVER} | {k: v for k, v in login.items() if v}


def _text(query: str) -> str:
    """As JDBC takes it, for which a ? of an operator (of jsonb) would be a parameter."""
    return _QUOTED.sub(lambda quoted: quoted[1] or "??", query)


def _select(table: Table, columns: str, source: SourceObject, label: str | None = None) -> str:
    """The rows of a slice, behind their label where there are several."""
    named = (
        "" if label is None else f"{POSTGRESQL.literal(label)}::text AS {POSTGRESQL.name(LABEL)}, "
    )
    where = Slice.of(source["uri"]).condition(table)
    return f"SELECT {named}{columns} FROM {table.source} WHERE {where}"


def _number(oid: int, modifier: int) -> str:
    """The type that holds a number of PostgreSQL whose digits all stand before some zeros,
    `numeric(5, -2)`, or behind some, `numeric(3, 5)`, and that Spark has as well; empty for any
    other type."""
    if oid not in (_NUMERIC, _NUMERICS) or modifier < _HEADER:
        return ""
    # Of 11 bits, signed
    digits, scale = (modifier - _HEADER) >> 16, ((modifier - _HEADER & 0x7FF) ^ 0x400) - 0x400
    if 0 <= scale <= digits or max(digits - min(scale, 0), scale) > MOST_DIGITS:
        return ""
    kind = f"numeric({max(digits - min(scale, 0), scale)}, {max(scale, 0)})"
    return kind if oid == _NUMERIC else f"{kind}[]"


def _shares(objects: Sequence[tuple[str, SourceObject]]) -> list[str]:
    """A condition for each connection; large slices are dealt out first."""
    count = min(CONNECTIONS, len(objects))
    shares: list[list[str]] = [[] for _ in range(count)]
    for i, (label, _) in enumerate(sorted(objects, key=lambda o: -o[1]["size"])):
        shares[i % count].append(f"'{label}'")
    return [f'"{LABEL}" IN ({", ".join(labels)})' for labels in shares]
