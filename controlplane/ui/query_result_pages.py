"""Pages beside a query: the tables that it can name, and its result as a chart and as a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.model.answers.queries import QueryAnswer, QueryColumnAnswer
from controlplane.services.queries import queries, query_tables
from controlplane.services.queries.port import PageBounds
from controlplane.services.queries.query_tables import ColumnsAnswer, TablesAnswer
from controlplane.ui import result_charts, result_profiles
from controlplane.ui.names import DATASET, number_of
from controlplane.ui.page import Page, both, named, nothing
from controlplane.ui.page_request import PageRequest
from controlplane.ui.query_values import ORDER, row_order, type_kind
from controlplane.ui.result_charts import KINDS, POINTS, ChartKind
from controlplane.ui.result_profiles import ResultColumnProfile
from dataplane.contract.query_protocol import RowOrder

CELL_BYTES = 500  # of a value that is drawn or counted; a longer one is cut


class ChartPage(TypedDict):
    """`x`, `y`: places in `columns`; `y` is None where no column has numbers. `points`: text of x,
    and y, of the first `looked_at` of `total` rows; rows without a number have none."""

    result_id: str
    order: str
    columns: list[QueryColumnAnswer]
    kind: ChartKind
    x: int
    y: int | None
    points: list[tuple[str, float]]
    looked_at: int
    total: int


class ResultProfilePage(TypedDict):
    """The profile counts the first `looked_at` of `total` rows, and of `cut` values the beginning
    alone."""

    result_id: str
    columns: list[ResultColumnProfile]
    looked_at: int
    total: int
    cut: int


def _rows(page_request: PageRequest, most: int, order: RowOrder | None = None) -> QueryAnswer:
    """The first rows of the result that the address names. Raises NotFound."""
    bounds = PageBounds(most, cell_bytes=CELL_BYTES, order=order)
    all_queries, id = page_request.services.queries, page_request.query("result")
    return queries.page(page_request.context, all_queries, id, 0, bounds).answer()


def _tables(page_request: PageRequest) -> TablesAnswer:
    words = page_request.query("q").strip()
    return query_tables.tables(page_request.context, page_request.branch, words)


def _columns(page_request: PageRequest) -> ColumnsAnswer:
    name = named(page_request, "dataset", DATASET)
    return query_tables.columns(page_request.context, page_request.branch, name)


def _chart(page_request: PageRequest) -> ChartPage:
    order = page_request.query("order")
    answer = _rows(page_request, POINTS, row_order(order))
    columns = answer["columns"]
    x, y = result_charts.default_columns(columns) or (0, None)
    x = _place(page_request, "x", columns, x)
    y = None if y is None else _place(page_request, "y", columns, y)
    kind = next((kind for kind in KINDS if kind == page_request.query("kind")), None)
    points = _points(answer, x, y)
    return {
        "result_id": answer["result"],
        "order": order if ORDER.fullmatch(order) else "",
        "columns": columns,
        "kind": kind or result_charts.default_kind(columns[x]),
        "x": x,
        "y": y,
        "points": [(point.label, point.y) for point in points],
        "looked_at": len(answer["rows"]),
        "total": answer["total"],
    }


def _place(
    page_request: PageRequest, name: str, columns: list[QueryColumnAnswer], default: int
) -> int:
    place = number_of(page_request.query(name))
    return default if place is None or place >= len(columns) else place


def _points(answer: QueryAnswer, x: int, y: int | None) -> list[result_charts.ChartPoint]:
    if y is None:
        return []
    x_kind = type_kind(answer["columns"][x]["type"])
    return result_charts.points_of(answer["rows"], x, y, x_kind)


def _no_command(page_request: PageRequest, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    """No command shows a kept result."""
    return {"commands": []}


def _drawn(page_request: PageRequest, page: ChartPage) -> Mapping[str, Any]:
    x_kind = type_kind(page["columns"][page["x"]]["type"])
    points = [result_charts.point_of(label, x_kind, y) for label, y in page["points"]]
    return {
        **_no_command(page_request, page),
        "picture": result_charts.picture(points, page["kind"]) if points else None,
        "kinds": KINDS,
        "sizes": result_charts,
    }


def _profile(page_request: PageRequest) -> ResultProfilePage:
    answer = _rows(page_request, result_profiles.ROWS)
    return {
        "result_id": answer["result"],
        "columns": result_profiles.of_rows(answer["columns"], answer["rows"]),
        "looked_at": len(answer["rows"]),
        "total": answer["total"],
        "cut": len(answer["cut"]),
    }


def _describe(page_request: PageRequest) -> str:
    return f"headgate query 'DESCRIBE {page_request.request.path_params['name']}'"


def _status(page_request: PageRequest) -> str:  # noqa: ARG001  # as all commands
    return "headgate status"


CHART = Page("query_chart.html", _chart, _drawn, _status, "data")
PROFILE = Page("query_profile.html", _profile, _no_command, _status, "data")
COLUMNS = Page("query_columns.html", _columns, nothing, _describe, "data")
TABLES = Page("query_tables.html", _tables, nothing, _status, "data")
ROUTES: list[Route] = [
    *both("/query/chart", CHART),
    *both("/query/profile", PROFILE),
    *both("/query/tables/{name}", COLUMNS),
    *both("/query/tables", TABLES),
]
