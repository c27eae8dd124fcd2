"""Slices of a table or query as rows in Spark, all from one snapshot of the database, however many connections read it.

Does not belong here: which slices there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.jdbc.list import Slice, snapshot, source_of
from dataplane.connectors.jdbc.server import Address, address, connected
from dataplane.connectors.jdbc.verify import Comparison, comparing
from dataplane.contract.listings import SourceObject
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Json, Schema, canonical_schema
from dataplane.errors import TaskFailure

CONNECTIONS = 4  # at a time, where there are as many slices
FETCH_ROWS = "10000"
# Options that say what is read and from where: the component's own keys do that.
_OURS = frozenset(
    {"url", "user", "password", "driver", "dbtable", "query", "sessioninitstatement", "prefertimestampntz"}
)
_QUOTED = re.compile(
    r"""(\b[eE]'(?:[^'\\]|\\.|'')*'|'[^']*'|"[^"]*"|(?<![\w$])\$(\w*)\$.*?\$\2\$|--[^\n]*|/\*.*?\*/)|\?""", re.DOTALL
)
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
def reading(session: SparkSession, job: Mapping[str, Json]) -> Iterator[Rows]:
    """Open for as long as the snapshot is needed.

    Who keeps it touches no table: else somebody who wants to alter one would wait for us, and our own readers for them.
    """
    _require_driver(session)
    with connected(job) as keeper, keeper.transaction(), connected(job) as other:
        snapshot(keeper)
        [(name,)] = keeper.execute("SELECT pg_export_snapshot()").fetchall()
        with comparing(other, name, job["settings"]) as comparison:
            yield Rows(session, job, keeper, address(job), name, comparison)


def _require_driver(session: SparkSession) -> None:
    """Told in words, where Spark would only miss a class."""
    try:
        assert session._jvm is not None
        session._jvm.java.lang.Class.forName(
            _DRIVER, True, session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        )
    except Exception as e:  # whatever the JVM says, it has no such class
        message = "Spark has no JDBC driver of PostgreSQL: put its jar into the folder of HEADGATE_JARS"
        raise TaskFailure("jdbc-driver-missing", message) from e


@dataclass(frozen=True, slots=True)
class Rows:
    """`dataplane.connectors.registry.Reading` for one attempt."""

    session: SparkSession
    job: Mapping[str, Json]
    keeper: Connection[Any]
    address: Address
    snapshot: str
    comparison: Comparison

    def schema(self, objects: Sequence[SourceObject]) -> Schema:  # noqa: ARG002  # all of them have the same
        rows = self._source().option("dbtable", f"(SELECT * FROM {self._text(source_of(self._settings))}) AS q").load()
        return canonical_schema(rows.schema.jsonValue())

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        if len(objects) == 1:
            [(label, found)] = objects
            table = f"({self._text(self._select(found))}) AS q"
            return self._source().option("dbtable", table).load().withColumn(LABEL, F.lit(label))
        parts = [self._select(found, label) for label, found in objects]
        table = f"({self._text(sql.SQL(' UNION ALL ').join(parts))}) AS q"
        return self._source().jdbc(self.address.url, table, predicates=_shares(objects))

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Of a growing listing nothing is compared: what lies in a slice is what lies there now."""
        if self._settings["by"] == "incremental" or not objects:
            return frozenset()
        return self.comparison.changed(objects)

    def may_pass(self, error: TaskError) -> bool:
        return any(words in error["message"] or words in error["detail"] for words in _PASSING)

    @property
    def _settings(self) -> Mapping[str, Json]:
        settings: Mapping[str, Json] = self.job["settings"]
        return settings

    def _source(self) -> DataFrameReader:
        """Every connection reads in the snapshot of ours: it begins with these statements, in its one transaction."""
        begin = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{self.snapshot}'"
        users = {k: v for k, v in self.job["options"].items() if k.lower() not in _OURS}
        ours = {"sessionInitStatement": begin, "preferTimestampNTZ": "true", "fetchsize": FETCH_ROWS}
        return self.session.read.format("jdbc").options(**{**ours, **users}).options(**self.address.of_jdbc)

    def _select(self, found: SourceObject, label: str | None = None) -> sql.Composable:
        labelled = sql.SQL("*") if label is None else sql.SQL("{}::text AS {}, *").format(label, sql.Identifier(LABEL))
        where = Slice.of(found["uri"]).condition()
        return sql.SQL("SELECT {} FROM {} WHERE {}").format(labelled, source_of(self._settings), where)

    def _text(self, query: sql.Composable) -> str:
        """As JDBC takes it, for which a ? of an operator (of jsonb) would be a parameter."""
        return _QUOTED.sub(lambda found: found[1] or "??", query.as_string(self.keeper))


def _shares(objects: Sequence[tuple[str, SourceObject]]) -> list[str]:
    """A condition for each connection; large slices are dealt out first."""
    count = min(CONNECTIONS, len(objects))
    shares: list[list[str]] = [[] for _ in range(count)]
    for i, (label, _) in enumerate(sorted(objects, key=lambda o: -o[1]["size"])):
        shares[i % count].append(f"'{label}'")
    return [f'"{LABEL}" IN ({", ".join(labels)})' for labels in shares]
