"""SQL over committed rows: running a query, more pages of a result, and cancelling."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar, cast

from fastapi import Path, Query
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Branch, Call, Called, ClosedBody, Dataset, JsonAnswer, answer
from controlplane.api.disconnects import CancelledStream, watch
from controlplane.api.looks import analysed, waiting
from controlplane.api.points import moment
from controlplane.api.problem_json import JSON_TYPE, RequestRefused
from controlplane.core import rest
from controlplane.core.model.answers.promotion import (
    OpenedAnswer,
    PromotionAnalysis,
    PromotionAnswer,
)
from controlplane.core.model.answers.queries import CancelAnswer, QueryAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.operations.desired import promotion
from controlplane.operations.request_body import DatasetName
from controlplane.services.queries import queries, spark_comparison
from controlplane.services.queries.port import PageBounds
from controlplane.services.queries.result_pages import ResultPage
from controlplane.services.queries.running_queries import Cancel
from dataplane.contract.query_protocol import SQL_MOST

T = TypeVar("T")
ARROW = "application/vnd.apache.arrow.stream"
LONGEST_S = 600.0
DEFAULT_ROWS = 1000
QueryId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-f]{8,64}$")]

router = auth.router("data", "all")


class QueryBody(ClosedBody):
    """A query in the SQL of its engine, DuckDB's by default. Tables are `dataflow.dataset`, also
    `dataflow.dataset@12`, at a time, and in another branch. `parameters`: values for `$name` of
    DuckDB, `:name` of Spark, or in order for `?` of DuckDB. `id`: chosen by who asks, to cancel it
    by."""

    sql: str = Field(min_length=1, max_length=SQL_MOST)
    engine: Literal["duckdb", "spark"] = "duckdb"
    parameters: dict[str, JsonValue] | list[JsonValue] | None = None
    limit: int | None = Field(None, ge=0, le=2**53)
    at: str | None = Field(None, max_length=100)
    timeout_s: float = Field(60.0, gt=0, le=LONGEST_S)
    id: str | None = Field(None, pattern=r"^[0-9a-f]{8,64}$")


@router.answers(rest.QUERY)
async def ask(call: Called, branch: Branch, query: QueryBody) -> JsonAnswer[QueryAnswer]:
    """Rows of a SELECT: the first 10,000, or 8 MB, of at most a million, by default of 1,000. A
    value beyond 1 MB is cut. With `Accept: application/vnd.apache.arrow.stream` all of them, as an
    Arrow stream. Who leaves cancels the query."""
    is_arrow = ARROW in call.request.headers.get("accept", "")
    query_request = _request_of(query, is_arrow=is_arrow)
    cancel = Cancel()

    def work() -> JsonAnswer[QueryAnswer]:
        if is_arrow:
            return _streamed(call, branch, query_request, cancel)
        result_page = queries.answer(
            call.context, call.services.queries, branch, query_request, cancel=cancel
        )
        return _sent(result_page, cancel)

    return await _unless_left(call, work, cancel)


def _request_of(query: QueryBody, *, is_arrow: bool) -> queries.QueryRequest:
    limit = query.limit if is_arrow or query.limit is not None else DEFAULT_ROWS
    if not is_arrow and limit is not None and limit > queries.MOST_ROWS:
        raise RequestRefused(
            "invalid-request", f"a result has at most {queries.MOST_ROWS:,} rows; more as Arrow"
        )
    at = moment(query.at)
    return queries.QueryRequest(
        query.sql,
        query.parameters,
        limit,
        at=at,
        timeout_s=query.timeout_s,
        id=query.id,
        engine=query.engine,
    )


def _streamed(
    call: Call, branch: str, query_request: queries.QueryRequest, cancel: Cancel
) -> JsonAnswer[QueryAnswer]:
    result_stream = queries.stream(
        call.context, call.services.queries, branch, query_request, cancel=cancel
    )
    headers = {"X-Generations": json.dumps(result_stream.generations), "Cache-Control": "no-store"}
    response = CancelledStream(result_stream.pieces, cancel, ARROW, headers)
    return cast("JsonAnswer[QueryAnswer]", response)  # the other form of the same answer


async def _unless_left(call: Call, work: Callable[[], T], cancel: Cancel) -> T:
    """The work's result; it is cancelled when the client leaves."""
    watching = asyncio.create_task(watch(call.request.receive, cancel))
    try:
        return await waiting(call, work, may_wait=True)
    finally:
        watching.cancel()


@router.answers(rest.QUERY_PAGE)
def page(
    call: Called,
    branch: Branch,  # noqa: ARG001  # of the query that made the result
    query: QueryId,
    after: Annotated[int, Query(ge=0, le=queries.MOST_ROWS)] = 0,
    limit: Annotated[int, Query(ge=1, le=queries.PAGE_ROWS)] = queries.PAGE_ROWS,
) -> JsonAnswer[QueryAnswer]:
    """More rows of a `result`, for an hour after it was last read; `next` is the `after` of the
    next page."""
    result_page = queries.page(call.context, call.services.queries, query, after, PageBounds(limit))
    return _sent(result_page, Cancel())


def _sent(page: ResultPage, cancel: Cancel) -> JsonAnswer[QueryAnswer]:
    """Piece by piece as its reader takes it, and never as values."""
    response = CancelledStream(
        page.body(), cancel, JSON_TYPE, {"Content-Length": str(page.size_bytes)}
    )
    return cast("JsonAnswer[QueryAnswer]", response)


@router.answers(rest.CANCEL_QUERY)
def cancel(call: Called, branch: Branch, query: QueryId) -> JsonAnswer[CancelAnswer]:  # noqa: ARG001
    """Cancel a running query of the caller's, by the `id` of its request."""
    queries.cancel(call.context, call.services.queries, query)
    return answer({"cancelled": query})


class Promoted(ClosedBody):
    """A query, and the dataset that it is to make. `analyse`: Spark is to say which columns it
    would have. `compare`: the engine whose rows of the query are compared with those of Spark."""

    sql: str = Field(min_length=1, max_length=SQL_MOST)
    dataset: DatasetName
    analyse: bool = False
    compare: Literal["duckdb", "spark"] | None = None
    timeout_s: float = Field(60.0, gt=0, le=LONGEST_S)


@router.answers(rest.PROMOTE, dependencies=auth.needs("view"))
async def promote(call: Called, branch: Branch, query: Promoted) -> JsonAnswer[PromotionAnswer]:
    """A proposed blueprint with the query as a transform, and how each input would be read. Nothing
    is stored. `analyse` needs `edit`, as a dry run of an apply does; `compare` needs `data` of the
    query's tables, and looks at results of at most 100,000 rows. Either waits for at most
    `timeout_s`."""
    cancel = Cancel()

    def work() -> JsonAnswer[PromotionAnswer]:
        proposal = promotion.propose(call.context, branch, query.sql, query.dataset)
        promoted = proposal.answer
        if query.analyse:
            call.need("edit")
            promoted = {**promoted, "analysis": _analysis(call, branch, proposal, query.timeout_s)}
        if query.compare is not None:
            comparison = spark_comparison.compare(
                call.context,
                call.services.queries,
                branch,
                query.sql,
                engine=query.compare,
                settings=proposal.settings,
                timeout_s=query.timeout_s,
                cancel=cancel,
            )
            promoted = {**promoted, "comparison": comparison}
        return answer(promoted)

    return await _unless_left(call, work, cancel)


def _analysis(
    call: Call, branch: str, proposal: promotion.Proposal, timeout_s: float
) -> PromotionAnalysis:
    deadline = time.monotonic() + timeout_s
    with analysed(call, branch, proposal.sources, deadline, timeout_s) as unanswered:
        return promotion.analysis(call.context, branch, proposal, unanswered)


@router.answers(rest.QUERY_OF, dependencies=auth.needs("view"))
def opened(call: Called, branch: Branch, dataset: Dataset) -> JsonAnswer[OpenedAnswer]:
    """A transform's SQL as a query over its inputs' present states."""
    return answer(promotion.opened(call.context, branch, dataset))
