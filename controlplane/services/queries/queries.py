"""SQL over committed states: the meaning of a query's tables, the rights to read them, and stored
results.

The engine's own text runs, in a process of the data plane; here only names are resolved. Changes
nothing. Does not belong here: how SQL is read, and run.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeAlias

from controlplane.core.errors import HeadgateError, NotFound, QueryLimit, QueryRefused
from controlplane.core.model import addresses
from controlplane.core.model.addresses import Moment, Point
from controlplane.core.model.answers.queries import QueryExtent, QueryPageHead
from controlplane.core.model.dataset_names import DATAFLOW_NAME
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.states import State
from controlplane.core.query_problems import problem_at
from controlplane.core.rights import may
from controlplane.operations import known_fragments
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.inspect import audit, time_travel
from controlplane.ports.store import Tx
from controlplane.services.queries import system_views
from controlplane.services.queries.port import (
    KeptResult,
    NoEngine,
    NoQueries,
    PageBounds,
    QueryEngine,
    QueryResults,
    QuerySession,
)
from controlplane.services.queries.result_pages import PageMemory, ResultPage
from controlplane.services.queries.running_queries import Cancel, RunningQueries
from controlplane.services.queries.system_views import ViewRows
from dataplane.contract.encoding import digest
from dataplane.contract.identity import schema_id
from dataplane.contract.query_protocol import PAGE_BYTES, QueryTable, TableReference, named
from dataplane.contract.query_protocol import FileForm as TableForm
from dataplane.contract.results import FileEntry

EngineName: TypeAlias = Literal["duckdb", "spark"]
FileForm: TypeAlias = Literal["arrow"] | TableForm
MOST_ROWS = 1_000_000  # of a result that is kept
PAGE_ROWS = 10_000
PAGE = PageBounds(PAGE_ROWS)
NOTED = 1_000  # characters of a query that the audit has
NAME = re.compile(DATAFLOW_NAME)


@dataclass(frozen=True, slots=True)
class Queries:
    """What a process answers queries with. `engine`: DuckDB, which also reads results of the other
    one."""

    engine: QueryEngine = field(default_factory=NoQueries)
    results: QueryResults = field(default_factory=NoQueries)
    running: RunningQueries = field(default_factory=RunningQueries)
    spark: QueryEngine = field(default_factory=NoEngine)
    pages: PageMemory = field(default_factory=PageMemory)

    def of(self, name: EngineName) -> QueryEngine:
        return self.engine if name == "duckdb" else self.spark

    @property
    def has_spark(self) -> bool:
        return not isinstance(self.spark, NoEngine)


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query. `id`: by which it can be cancelled. `limit`: rows of its result at most, None for
    all. `at`: the time that is meant of tables that name none. `settings`: of Spark's session,
    where they are not those of all queries."""

    sql: str
    parameters: Mapping[str, JsonValue] | list[JsonValue] | None = None
    limit: int | None = 1000
    at: Moment | None = None
    timeout_s: float = 60.0
    id: str | None = None
    engine: EngineName = "duckdb"
    settings: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A table of a query, and the state that it means."""

    name: str
    branch: str
    state: State
    reference: TableReference
    view: ViewRows | None = None  # of the service, in place of files

    @property
    def read_datasets(self) -> list[tuple[str, str]]:
        """Branch and dataset of all that its rows are about."""
        datasets = [self.state.dataset] if self.view is None else self.view.datasets
        return [(self.branch, dataset) for dataset in datasets]


def answer(
    ctx: Context,
    queries: Queries,
    branch: str,
    request: QueryRequest,
    *,
    cancel: Cancel | None = None,
    bounds: PageBounds = PAGE,
) -> ResultPage:
    """The first rows. Raises QueryRefused, QueryLimit, QueryCancelled, QueriesBusy, QueryCrashed,
    EngineUnavailable, NotFound, GenerationGone."""
    with ExitStack() as ends:
        started = _begin(ctx, queries, branch, request, cancel=cancel or Cancel(), ends=ends)
        query_result = started.query_result or started.run_to_the_end()
        read = _ResultRead(
            started.id,
            query_result,
            started.generations,
            is_cached=started.query_result is not None,
            extent=started.extent,
        )
        return _page(ctx, queries, started.session, read, after=0, bounds=bounds)


def kept_result(
    ctx: Context,
    queries: Queries,
    branch: str,
    request: QueryRequest,
    *,
    cancel: Cancel | None = None,
) -> KeptResult:
    """All rows, where they are kept. Raises as `answer`."""
    with ExitStack() as ends:
        started = _begin(ctx, queries, branch, request, cancel=cancel or Cancel(), ends=ends)
        return started.query_result or started.run_to_the_end()


@dataclass(frozen=True, slots=True)
class RowStream:
    """An Arrow stream of all rows. Closing it early ends the query."""

    generations: Mapping[str, int]
    pieces: Generator[bytes, None, None]


def stream(
    ctx: Context, queries: Queries, branch: str, request: QueryRequest, *, cancel: Cancel
) -> RowStream:
    """As `answer`, in pieces as they come. An error of the first piece is raised here."""
    with ExitStack() as ends:
        started = _begin(ctx, queries, branch, request, cancel=cancel, ends=ends)
        pieces = (
            queries.results.stream(started.query_result) if started.query_result else started.run()
        )
        first = next(pieces, b"")
        rest = _rest(first, pieces, ends.pop_all())
        next(rest)  # it has begun, so that it ends what it holds also where no one reads
        return RowStream(started.generations, rest)


def _rest(first: bytes, pieces: Iterator[bytes], ends: ExitStack) -> Generator[bytes, None, None]:
    with ends:
        ends.callback(getattr(pieces, "close", lambda: None))
        yield b""
        yield first
        yield from pieces


def page(
    ctx: Context, queries: Queries, result: str, after: int, bounds: PageBounds = PAGE
) -> ResultPage:
    """More rows of a result that is kept. Raises NotFound, QueriesBusy, and QueryLimit for a row
    that is too large."""
    query_result = _result_of(ctx, queries, result)
    if after < query_result.rows:
        _note_page(ctx, result, query_result, after)
    with queries.engine.session(user(ctx), Cancel(), timeout_s=60.0) as session:
        read = _ResultRead(result, query_result, query_result.generations, is_cached=True)
        return _page(ctx, queries, session, read, after=after, bounds=bounds)


def file(ctx: Context, queries: Queries, result: str, form: FileForm) -> Iterator[bytes]:
    """All rows of a result that is kept, as pieces of a file. Raises NotFound at once, QueryLimit
    with the first piece, and OSError where it goes meanwhile."""
    query_result = _result_of(ctx, queries, result)
    _note_page(ctx, result, query_result, 0)
    if form == "arrow":
        return queries.results.stream(query_result)

    def make(path: Path, to: Path) -> None:
        with queries.engine.session(user(ctx), Cancel(), timeout_s=60.0) as session:
            session.as_file(path, to, form, query_result.generations)

    return queries.results.file(query_result, form, make)


def _result_of(ctx: Context, queries: Queries, result: str) -> KeptResult:
    """Raises NotFound, also if the caller may not read a table of it."""
    query_result = queries.results.find(_place(ctx, result))
    if query_result is None:
        raise _not_kept()
    if not all(
        may(ctx.principal, "data", dataset=dataset, branch=of)
        for of, dataset in query_result.tables
    ):
        raise _not_kept()
    return query_result


def _note_page(ctx: Context, result: str, query_result: KeptResult, after: int) -> None:
    """Audit a page as a read of its own: a caller with a result's id need not be the one that ran
    the query."""
    what: JsonObject = {"result": result, "after": after}
    for branch, dataset in dict.fromkeys(query_result.tables):
        audit.note_read(ctx, "query", branch, dataset, what)


def _not_kept() -> NotFound:
    return NotFound("this result is not kept any more; ask the query again")


def cancel(ctx: Context, queries: Queries, id: str) -> None:
    """End a query of the caller's that runs. Raises NotFound."""
    queries.running.cancel(user(ctx), id)


@dataclass(frozen=True, slots=True)
class _StartedQuery:
    """A query whose tables are known. `query_result`: its result, if it is there already."""

    session: QuerySession
    results: QueryResults
    request: QueryRequest
    tables: tuple[Resolved, ...]
    id: str
    place: str  # where its result is kept
    query_result: KeptResult | None
    read: tuple[QueryTable, ...]  # with their files; none where the result is kept
    extent: QueryExtent | None  # None where the result is kept

    @property
    def generations(self) -> dict[str, int]:
        return {table.name: table.state.generation for table in self.tables}

    def run(self) -> Generator[bytes, None, KeptResult | None]:
        pieces = self.session.run(
            self.request.sql,
            self.request.parameters,
            self.read,
            self.request.limit,
            self.request.settings,
        )
        tables = [read for table in self.tables for read in table.read_datasets]
        return self.results.keep(self.place, tables, self.generations, pieces)

    def run_to_the_end(self) -> KeptResult:
        pieces = self.run()
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                query_result: KeptResult | None = end.value
                break
        if query_result is None:
            raise QueryLimit(
                "the result is too large to be kept; ask for fewer rows, or for an Arrow stream"
            )
        return query_result


def _begin(
    ctx: Context,
    queries: Queries,
    branch: str,
    request: QueryRequest,
    *,
    cancel: Cancel,
    ends: ExitStack,
) -> _StartedQuery:
    ends.enter_context(queries.running.running(user(ctx), request.id, cancel))
    engine = queries.of(request.engine)
    session = ends.enter_context(engine.session(user(ctx), cancel, timeout_s=request.timeout_s))
    inspected = session.inspect(request.sql)
    with ctx.read() as tx:
        tables = _resolved(ctx, tx, branch, request, inspected["references"])
        is_repeatable = inspected["is_repeatable"]
        id = _identity(engine.version, request, tables) if is_repeatable else secrets.token_hex(32)
        cached = queries.results.find(_place(ctx, id))
        files = [] if cached else [_files(tx, table) for table in tables]
        read = tuple(map(_with_files, tables, files))
    for table in tables:
        what: JsonObject = {
            "generation": table.state.generation,
            "engine": request.engine,
            "sql": request.sql[:NOTED],
        }
        audit.note_read(ctx, "query", table.branch, table.state.dataset, what)
    place = _place(ctx, id)
    return _StartedQuery(
        session,
        queries.results,
        request,
        tables=tables,
        id=id,
        place=place,
        query_result=cached,
        read=read,
        extent=None if cached else _extent(tables, files),
    )


def user(ctx: Context) -> str:
    """The caller, by a name that is unique among all namespaces. No actor's name has a line
    break."""
    return ctx.actor if ctx.namespace == DEFAULT else f"{ctx.namespace}\n{ctx.actor}"


def _place(ctx: Context, id: str) -> str:
    """Where a result is kept: one namespace's id of a result leads to nothing in another one."""
    return (
        id if ctx.namespace == DEFAULT else digest("result/1", namespace=ctx.namespace, id=id).hex()
    )


def _identity(engine: str, request: QueryRequest, tables: tuple[Resolved, ...]) -> str:
    """Equal queries over equal rows have equal results."""
    read = [
        (table.branch, named(table.reference), table.state.root, schema_id(table.state.schema))
        for table in sorted(tables, key=lambda table: table.name)
    ]
    parameters = json.dumps([request.parameters, request.settings], sort_keys=True)
    identity = digest(
        "query/1",
        engine=engine,
        sql=request.sql,
        parameters=parameters,
        limit=request.limit,
        tables=read,
    )
    return identity.hex()


@dataclass(frozen=True, slots=True)
class _ResultRead:
    """A result that a page is of."""

    id: str
    query_result: KeptResult
    generations: Mapping[str, int]
    is_cached: bool
    extent: QueryExtent | None = None


def _page(
    ctx: Context,
    queries: Queries,
    session: QuerySession,
    read: _ResultRead,
    *,
    after: int,
    bounds: PageBounds,
) -> ResultPage:
    room = queries.pages.take(user(ctx), PAGE_BYTES)
    page = session.page(read.query_result.path, after, bounds)
    following = after + page.rows
    head: QueryPageHead = {
        "result": read.id,
        "columns": [{"name": column["name"], "type": column["type"]} for column in page.columns],
        "generations": dict(read.generations),
        "total": read.query_result.rows,
        "more": read.query_result.more,
        "next": following if following < read.query_result.rows else None,
        "cut": [
            {"row": cell["row"], "column": cell["column"], "size_bytes": cell["size_bytes"]}
            for cell in page.cut
        ],
        "cached": read.is_cached,
    }
    if read.extent is not None:
        head["extent"] = read.extent
    room.shrink(sum(map(len, page.pieces)))
    return ResultPage(head, page.pieces, room)


# --- tables -------------------------------------------------------------------------------------


def _resolved(
    ctx: Context, tx: Tx, branch: str, request: QueryRequest, references: list[TableReference]
) -> tuple[Resolved, ...]:
    """One for each table that is distinct to the engine. The only place that checks who may read
    them."""
    by_reference = dict[tuple[str, str, str], Resolved]()
    for reference in references:
        key = named(reference)
        if key not in by_reference:
            by_reference[key] = _resolve(ctx, tx, branch, request, reference)
    return tuple(by_reference.values())


def _resolve(
    ctx: Context, tx: Tx, branch: str, request: QueryRequest, reference: TableReference
) -> Resolved:
    branch_named, flow, table = named(reference)
    name, _, point = table.partition("@")
    dataset, home = f"{flow}.{name}", branch_named or branch
    if not may(ctx.principal, "data", branch=home):
        raise _refused(request, reference, str(branches.no_branch(home)))
    is_name = NAME.fullmatch(flow) and NAME.fullmatch(name)
    view = _view(ctx, tx, home, dataset, request) if name == table else None
    # The rows of a view are those that the caller may read
    is_readable = view is not None or may(ctx.principal, "data", dataset=dataset, branch=home)
    if not is_name or not is_readable:
        raise _unknown(ctx, tx, home, request, reference, dataset)
    try:
        branches.require_there(tx, home)
        state = (
            view.state if view else time_travel.state_of(tx, home, dataset, _point(point, request))
        )
    except NotFound as error:
        raise _not_found(ctx, tx, home, request, reference, dataset, error=error) from error
    canonical: TableReference = {
        "branch": branch_named,
        "dataflow": flow,
        "table": table,
        "at": reference["at"],
    }
    shown = f"{branch_named}.{flow}.{table}" if branch_named else f"{flow}.{table}"
    return Resolved(shown, home, state, canonical, view)


def _view(
    ctx: Context, tx: Tx, branch: str, dataset: str, request: QueryRequest
) -> ViewRows | None:
    """The view of the service with this name. A dataset with committed data comes first, and
    only DuckDB takes rows that are sent along."""
    if dataset != system_views.COST or request.engine != "duckdb":
        return None
    if tx.states.find(branch, dataset) is not None:
        return None
    return system_views.cost(ctx, tx, branch)


def _files(tx: Tx, table: Resolved) -> list[FileEntry]:
    """The one read of all partitions: its time grows with their number. A view has no files."""
    return [] if table.view is not None else known_fragments.files(tx, table.state.root)


def _with_files(table: Resolved, files: list[FileEntry]) -> QueryTable:
    if table.view is not None:
        return {
            "reference": table.reference,
            "files": [],
            "schema": table.state.schema,
            "rows": list(table.view.rows),
        }
    paths = [file["path"] for file in files]
    return {"reference": table.reference, "files": paths, "schema": table.state.schema}


def _extent(tables: tuple[Resolved, ...], files: list[list[FileEntry]]) -> QueryExtent:
    """Rows that a query names twice count once."""
    sizes = {file["path"]: file["size"] for of_table in files for file in of_table}
    partitions = {table.state.root: table.state.partitions for table in tables}
    return {"partitions": sum(partitions.values()), "bytes": sum(sizes.values())}


def _point(text: str, request: QueryRequest) -> Point | None:
    """The point that a name gives, or that of the request. Engines ignore the case of names, which
    arrive here in lower case."""
    return addresses.point_of(text.upper()) if text else request.at


def _not_found(
    ctx: Context,
    tx: Tx,
    branch: str,
    request: QueryRequest,
    reference: TableReference,
    dataset: str,
    *,
    error: NotFound,
) -> HeadgateError:
    """The error itself where the dataset has data, or the branch does not exist; else one that
    suggests similar names."""
    if branch != "main" and branch not in tx.branches.all():
        return _refused(request, reference, str(error))
    if tx.states.find(branch, dataset) is not None:
        return _refused(request, reference, str(error))
    return _unknown(ctx, tx, branch, request, reference, dataset)


def _unknown(
    ctx: Context,
    tx: Tx,
    branch: str,
    request: QueryRequest,
    reference: TableReference,
    dataset: str,
) -> QueryRefused:
    """The error for a missing table, and for one that must not be read: both look alike."""
    readable = [
        name for name in tx.states.newest(branch) if may(ctx.principal, "data", dataset=name)
    ]
    near = get_close_matches(dataset, readable, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"{branch} has {', '.join(sorted(readable)[:5]) or 'no data'}"
    )
    return _refused(
        request, reference, f"there is no table {dataset} with committed data in {branch}", hint
    )


def _refused(
    request: QueryRequest, reference: TableReference, message: str, hint: str = ""
) -> QueryRefused:
    return QueryRefused(problem_at(request.sql, reference["at"], "unknown-table", message, hint))
