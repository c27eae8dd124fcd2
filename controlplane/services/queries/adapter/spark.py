"""Queries by Spark: one warm process for all users, as it takes long to start and runs no code of
theirs.

The text is read as that of a transform is, and runs past the same two walls: `core.sql` here,
Spark's own plans there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from controlplane.core import sql as spark_sql
from controlplane.core.errors import Problem, QueryRefused
from controlplane.core.query_problems import problem_at
from controlplane.core.sql.spark_addresses import Addressed, addressed
from controlplane.drivers.transport import LocalSpark
from controlplane.services.queries.adapter.query_child import QueryChild, SparkChild
from controlplane.services.queries.adapter.query_pool import PooledSession, QueryPool
from controlplane.services.queries.port import Cancellation, PageBounds, Pieces, RowsPage
from dataplane.contract.query_protocol import (
    Inspected,
    QueryTable,
    Ran,
    Refusal,
    SparkRun,
    TableReference,
    named,
)
from dataplane.contract.schemas import Json

ALL = ""  # users of the one process
DISK_BYTES = 4 << 30
MEMORY_BYTES = 1 << 30
SETTINGS: Mapping[str, Json] = {"ansi": True, "case_sensitive": False, "timezone": "UTC"}
NO_PLACES = "Spark's parameters are named: write :name, and give an object of values by name"
PLAIN = (str, int, float, bool, type(None))
# An answer of many is as good as another one, if not of another time
CHANGING = re.compile(r"(?!LIMIT|OFFSET|ROWS)")


class SparkPool(QueryPool):
    """`QueryEngine` over one lake. `pages`: reads results, where no query has just been run."""

    def __init__(
        self,
        lake: str,
        pages: QueryPool,
        *,
        waiting: int = 10,
        memory_bytes: int = MEMORY_BYTES,
        disk_bytes: int = DISK_BYTES,
    ) -> None:
        super().__init__(
            lake, at_once=1, waiting=waiting, memory_bytes=memory_bytes, disk_bytes=disk_bytes
        )
        self.pages = pages

    @property
    def version(self) -> str:
        with suppress(PackageNotFoundError):  # the process reports it
            return f"spark {version('pyspark')}"
        return "spark"

    def take(self, user: str) -> QueryChild:  # noqa: ARG002
        return super().take(ALL)

    def _made(self) -> QueryChild:
        return SparkChild(LocalSpark(self._lake, *self._bytes))

    def _session(
        self, user: str, cancellation: Cancellation, deadline: float, timeout_s: float
    ) -> PooledSession:
        return SparkSession(self, user, cancellation, deadline, timeout_s)


class SparkSession(PooledSession):
    """`QuerySession`. Inspecting a query needs no process."""

    _pool: SparkPool
    _read: Addressed | None = None

    def inspect(self, sql: str) -> Inspected:
        self._read = addressed(sql)
        try:
            query = spark_sql.analyse(self._read.text)
        except spark_sql.SqlProblem as problem:
            raise self._refused(problem, sql) from problem
        references = [_reference(ref, self._read) for ref in query.references]
        return {"references": references, "is_repeatable": not _changes(query)}

    def _refused(self, problem: spark_sql.SqlProblem, sql: str) -> QueryRefused:
        assert self._read is not None
        at = self._read.origin_of(problem.line, problem.column)
        return QueryRefused(problem_at(sql, at, "query-refused", problem.message, problem.hint))

    def run(
        self,
        sql: str,
        parameters: Json,
        tables: Sequence[QueryTable],
        limit: int | None,
        settings: Mapping[str, Json] | None = None,
    ) -> Pieces:
        read = self._read or addressed(sql)
        query = spark_sql.analyse(read.text)
        views = {named(table["reference"]): f"headgate_{at}" for at, table in enumerate(tables)}
        names = {ref.name: views[named(_reference(ref, read))] for ref in query.references}
        edits = query.rename_edits(names)
        question: SparkRun = {
            "ask": "spark",
            "sql": spark_sql.apply_edits(read.text, edits),
            "parameters": _parameters(parameters),
            "tables": [
                {
                    "view": views[named(table["reference"])],
                    "name": _shown(table["reference"]),
                    "files": table["files"],
                    "schema": table["schema"],
                }
                for table in tables
            ],
            "settings": dict(settings or SETTINGS),
            "limit": limit,
            "seconds": self._left_s(),
        }
        self._edits, self._edited = edits, question["sql"]
        answer = yield from self._ask(question, sql)
        ran: Ran = {"rows": answer["rows"], "more": answer["more"]}
        return ran

    _edits: tuple[spark_sql.Edit, ...] = ()

    def _error_of(self, refusal: Refusal, sql: str) -> Exception:
        """Places in the text that ran are those of the written one."""
        if refusal["at"] is not None and self._read is not None:
            at = self._read.origin(spark_sql.original_offset(self._edits, refusal["at"]))
            refusal = {**refusal, "at": at}
        return super()._error_of(refusal, sql)

    def page(self, path: Path, offset: int, bounds: PageBounds) -> RowsPage:
        """By this process where it has just run a query, and by one of the others' where Spark may
        have to start."""
        if self._child is not None:
            return super().page(path, offset, bounds)
        return self.page_without_spark(path, offset, bounds)

    def page_without_spark(self, path: Path, offset: int, bounds: PageBounds) -> RowsPage:
        with self._pool.pages.session(
            self._user, self._cancellation, timeout_s=self._left_s()
        ) as pages:
            return pages.page(path, offset, bounds)


def _reference(ref: spark_sql.TableRef, read: Addressed) -> TableReference:
    """Raises QueryRefused for a name of one part, or of more than three."""
    at = read.origin(ref.start)
    match ref.parts:
        case (flow, table):
            return {"branch": "", "dataflow": flow, "table": table, "at": at}
        case (branch, flow, table):
            return {"branch": branch, "dataflow": flow, "table": table, "at": at}
        case _:
            message = f"there is no table {ref.name}: a table is named by dataflow and dataset, as in flights.delays"
            raise QueryRefused(problem_at(read.written, at, "unknown-table", message))


def _shown(reference: TableReference) -> str:
    parts = (reference["branch"], reference["dataflow"], reference["table"])
    return ".".join(filter(None, parts))


def _changes(query: spark_sql.AnalysedQuery) -> bool:
    """Whether it names clock or chance."""
    return query.reads_clock or any(CHANGING.match(call.construct) for call in query.volatile)


def _parameters(parameters: Json) -> dict[str, Json]:
    """Raises QueryRefused for values without names, and for nested ones."""
    if not parameters:
        return {}
    if not isinstance(parameters, dict):
        raise _without_place(NO_PLACES)
    for name, value in parameters.items():
        if not isinstance(value, PLAIN):
            raise _without_place(
                f":{name} is no plain value; give a number, a text, true, false or null"
            )
    return dict(parameters)


def _without_place(message: str) -> QueryRefused:
    return QueryRefused(Problem("", 0, 0, "query-refused", message))
