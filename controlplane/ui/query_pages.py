"""The page of queries: SQL over committed rows, more rows of its result, and a query as a proposed
transform.

A query comes in a form and never in an address, so that no text of one lies in a log; the browser
keeps it behind the `#` of the address, which is not sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from controlplane.core.errors import HeadgateError, NotFound
from controlplane.core.model import addresses
from controlplane.core.model.addresses import Moment
from controlplane.core.model.branches import MAIN
from controlplane.core.model.json_values import JsonValue
from controlplane.operations.desired import promotion
from controlplane.operations.inspect import check_history, hidden, json_views, overview
from controlplane.operations.inspect.hidden import visible, words
from controlplane.services.queries import queries
from controlplane.services.queries.port import PageBounds
from controlplane.services.queries.running_queries import Cancel
from controlplane.ui import query_downloads, query_result_pages
from controlplane.ui.actions import LONGEST_KEY, BadForm, Fields, proven
from controlplane.ui.forms import fields_of
from controlplane.ui.names import DATASET, number_of
from controlplane.ui.page import CURL, Page, both, wants_json
from controlplane.ui.page_request import PageRequest, page_request_of
from controlplane.ui.query_values import ORDER, QueryPage, row_order
from dataplane.contract.query_protocol import SQL_MOST

ROWS, MOST_ROWS = 1_000, 100_000  # of a result: by default, and at most on this page
SHOWN = PageBounds(100, page_bytes=1 << 20, cell_bytes=10_000)
TIMEOUT_S = 60.0
FORM_BYTES = 500_000  # of the longest query, percent-encoded
EXPLAIN, EXPLAINED = "EXPLAIN\n", ["explain_key", "explain_value"]  # before a query; its columns
HEX = frozenset("0123456789abcdef")
ONE_COLUMN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([A-Za-z0-9._-]+)")  # nothing is encoded


def _where(after: str, last: str) -> str:
    """The rows of partitions whose keys are greater than the one, and up to the other; of keys of
    one column, such as `flown=2013-07-04`. Empty for other keys."""
    conditions: list[str] = []
    for key, comparison in ((after, ">"), (last, "<=")):
        match = ONE_COLUMN.fullmatch(key[:LONGEST_KEY])
        if match is not None:
            conditions.append(f"\"{match[1]}\" {comparison} '{match[2]}'")
        elif key:
            return ""
    return f"WHERE {' AND '.join(conditions)}\n" if conditions else ""


def _query(page_request: PageRequest) -> QueryPage:
    """The query of a link, only shown: nothing is run."""
    parameters = page_request.request.query_params
    page = _empty(page_request, parameters.get("q", "")[:SQL_MOST])
    table, opened = parameters.get("table", ""), parameters.get("of", "")
    failing = parameters.get("failing", "")
    if DATASET.fullmatch(failing) and page_request.may("view", failing):
        page["sql"] = check_history.failing_rows(
            page_request.context, page_request.branch, failing, parameters.get("check", "")
        )
        page["engine"] = "spark" if page["has_spark"] else "duckdb"
    elif DATASET.fullmatch(table):
        where = _where(parameters.get("from", ""), parameters.get("to", ""))
        page["sql"] = f"SELECT *\nFROM {table}\n{where}LIMIT 100"
        page["runs"] = page_request.may("data", table)
    elif DATASET.fullmatch(opened):
        try:
            opened_query = visible(
                page_request.context,
                promotion.opened(page_request.context, page_request.branch, opened),
            )
            page["sql"] = opened_query["sql"]
            page["engine"] = "spark" if page["has_spark"] else "duckdb"
            page["parameters"] = "\n".join(
                f"{name}={json.dumps(v)}" for name, v in opened_query["parameters"].items()
            )
        except NotFound:
            raise
        except HeadgateError as error:
            page["refused"] = words(page_request.context, str(error), opened)
    return page


def _empty(page_request: PageRequest, sql: str) -> QueryPage:
    return {
        "sql": sql,
        "engine": "duckdb",
        "has_spark": page_request.services.queries.has_spark,
        "parameters": "",
        "at": "",
        "limit": ROWS,
        "after": 0,
        "order": "",
        "runs": False,
        "answer": None,
        "seconds": None,
        "problem": None,
        "refused": None,
        "dataset": "",
        "promotion": None,
    }


def _shown(page_request: PageRequest, page: QueryPage) -> Mapping[str, Any]:
    sql = page["sql"] or "SELECT 1"
    is_spark = page["engine"] == "spark"
    call = json.dumps({"sql": sql, **({"engine": "spark"} if is_spark else {})}, ensure_ascii=False)
    address = shlex.quote(f"{page_request.origin}/v1/branches/{page_request.branch}/query")
    options = " --engine spark" if is_spark else ""
    options += "" if page_request.branch == MAIN else f" --branch {page_request.branch}"
    return {
        "caret": _caret(page),
        "cut": _cut(page),
        "is_plan": _is_plan(page),
        "commands": [
            ("Shell", f"headgate query {shlex.quote(sql)}{options}"),
            (
                "curl",
                f"{CURL} -H 'Content-Type: application/json' -d {shlex.quote(call)} {address}",
            ),
        ],
    }


def _cut(page: QueryPage) -> Mapping[tuple[int, int], int]:
    """Sizes of values that are cut, by their places on this page."""
    answer = page["answer"]
    cells = [] if answer is None else answer["cut"]
    return {(cell["row"] - page["after"], cell["column"]): cell["size_bytes"] for cell in cells}


def _is_plan(page: QueryPage) -> bool:
    """Also of a query whose columns have these names, and texts as values."""
    answer = page["answer"]
    if answer is None or [column["name"] for column in answer["columns"]] != EXPLAINED:
        return False
    return all(isinstance(cell, str) for row in answer["rows"] for cell in row)


def _caret(page: QueryPage) -> str:
    """The line of the problem, and a mark below its place."""
    problem, lines = page["problem"], page["sql"].split("\n")
    if problem is None or not 0 < problem["line"] <= len(lines):
        return ""
    line = lines[problem["line"] - 1]
    before = "".join(c if c == "\t" else " " for c in line[: max(0, problem["column"] - 1)])
    return f"{line}\n{before}^"


QUERY = Page("query.html", _query, _shown, lambda _: "headgate query")


async def ask(request: Request) -> Response:
    """Who leaves cancels the query."""
    fields, cancel = await fields_of(request, FORM_BYTES), Cancel()
    watching = asyncio.create_task(_watch(request, cancel))
    try:
        threads = request.app.state.query_threads
        return await to_thread.run_sync(_ask, request, fields, cancel, limiter=threads)
    finally:
        watching.cancel()


async def _watch(request: Request, cancel: Cancel) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancel.cancel()


def _ask(request: Request, fields: Fields, cancel: Cancel) -> Response:
    is_promoted = fields.get("do") == "promote"
    page_request = proven(request, fields, "view" if is_promoted else "data")
    page = _filled(page_request, fields)
    try:
        page = (
            _promoted(page_request, page)
            if is_promoted
            else _answered(page_request, fields, page, cancel)
        )
    except HeadgateError as error:
        page = _refused(page_request, page, error, is_explained=fields.get("do") == "explain")
    if wants_json(request):
        return JSONResponse(page)
    return QUERY.show(page_request, page, overview.newest_event(page_request.context))


def _filled(page_request: PageRequest, fields: Fields) -> QueryPage:
    """As it was typed."""
    page = _empty(page_request, fields.get("sql", "").replace("\r\n", "\n")[: SQL_MOST + 1])
    page["engine"] = "spark" if fields.get("engine") == "spark" else "duckdb"
    page["parameters"], page["at"] = (
        fields.get("parameters", ""),
        fields.get("at", "").strip()[:100],
    )
    page["limit"] = min(number_of(fields.get("limit", "")) or ROWS, MOST_ROWS)
    after, _, order = fields.get("after", "").partition(" ")
    page["after"] = number_of(after) or 0
    page["order"] = order if ORDER.fullmatch(order) else ""
    page["dataset"] = fields.get("dataset", "").strip()[:500]
    return page


def _refused(
    page_request: PageRequest, page: QueryPage, error: HeadgateError, *, is_explained: bool
) -> QueryPage:
    """The first problem with a place, or words."""
    problems, sent = getattr(error, "problems", ()), f"{page['sql']} {page['dataset']}"
    if problems:
        detail = hidden.problem(page_request.context, json_views.problem(problems[0]), sent)
        if is_explained and detail["line"]:
            detail["line"] -= EXPLAIN.count("\n")
        return {**page, "problem": detail}
    return {**page, "refused": words(page_request.context, str(error), sent)}


def _promoted(page_request: PageRequest, page: QueryPage) -> QueryPage:
    if not DATASET.fullmatch(page["dataset"]):
        raise BadForm("name the dataset that it is to make with its dataflow, such as shop.busy")
    promoted = promotion.promote(
        page_request.context, page_request.branch, page["sql"], page["dataset"]
    )
    return {**page, "promotion": promoted}  # of a dataflow that is seen whole


def _answered(
    page_request: PageRequest, fields: Fields, page: QueryPage, cancel: Cancel
) -> QueryPage:
    """Rows of a result that is there already where the form names one, else those of the query."""
    if not page["sql"].strip():
        raise BadForm("there is no query yet: write one, such as SELECT 1")
    if len(page["sql"]) > SQL_MOST:
        raise BadForm(f"a query has at most {SQL_MOST:,} characters")
    all_queries, started = page_request.services.queries, time.monotonic()
    if fields.get("after") and (result := fields.get("result", "")):
        bounds = replace(SHOWN, order=row_order(page["order"]))
        page_of_rows = queries.page(
            page_request.context, all_queries, result, page["after"], bounds
        )
        return {**page, "answer": page_of_rows.answer()}
    page_of_rows = queries.answer(
        page_request.context,
        all_queries,
        page_request.branch,
        _query_request(fields, page),
        cancel=cancel,
        bounds=SHOWN,
    )
    return {
        **page,
        "after": 0,
        "order": "",
        "answer": page_of_rows.answer(),
        "seconds": round(time.monotonic() - started, 3),
    }


def _query_request(fields: Fields, page: QueryPage) -> queries.QueryRequest:
    """Raises BadAddress, BadForm."""
    is_explained = fields.get("do") == "explain"
    return queries.QueryRequest(
        f"{EXPLAIN}{page['sql']}" if is_explained else page["sql"],
        _parameters(page["parameters"]),
        page["limit"],
        at=_moment(page["at"]),
        timeout_s=TIMEOUT_S,
        id=_id(fields),
        engine=page["engine"],
    )


def _id(fields: Fields) -> str | None:
    """By which the page cancels it; None where no form gave one."""
    text = fields.get("once", "")
    return text if len(text) == 32 and HEX.issuperset(text) else None


def _parameters(lines: str) -> dict[str, JsonValue] | None:
    """As `--param` reads them: JSON, else text. Raises BadForm."""
    parameters = dict[str, JsonValue]()
    for line in filter(None, map(str.strip, lines.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise BadForm(f"{line[:80]!r} is no parameter: write NAME=VALUE, one on each line")
        try:
            parameters[name.strip()] = json.loads(value)
        except ValueError:
            parameters[name.strip()] = value.strip()
    return parameters or None


def _moment(text: str) -> Moment | None:
    """Raises BadAddress, BadForm."""
    if not text:
        return None
    point = addresses.point_of(text)
    if not isinstance(point, Moment):
        raise BadForm(
            "as of a time, such as 2026-11-24T07:00Z; a generation goes with its table: FROM shop.orders@2"
        )
    return point


async def cancel(request: Request) -> Response:
    fields = await fields_of(request)
    return await to_thread.run_sync(_cancel, request, fields)


def _cancel(request: Request, fields: Fields) -> Response:
    page_request = proven(request, fields, "data")
    queries.cancel(page_request.context, page_request.services.queries, fields.get("once", ""))
    return Response(status_code=204)


def download(request: Request) -> Response:
    """All rows of a kept result as a file."""
    page_request = page_request_of(request)
    page_request.require("data")
    kind = query_downloads.KINDS.get(request.path_params["kind"])
    if kind is None:
        raise NotFound(f"a result is had as {', '.join(query_downloads.KINDS)}")
    pieces = kind.pieces(
        page_request.context, page_request.services.queries, page_request.query("result")
    )
    pieces = chain([next(pieces)], pieces)  # an unreadable result raises before there is a file
    name = f'attachment; filename="query.{kind.ending}"'
    return StreamingResponse(
        pieces, media_type=kind.media_type, headers={"Content-Disposition": name}
    )


ROUTES: list[Route] = [
    Route("/query/result.{kind}", download, methods=["GET"]),
    Route("/query/cancel", cancel, methods=["POST"]),
    *query_result_pages.ROUTES,
    *both("/query", QUERY),
    Route("/query", ask, methods=["POST"]),
]
