"""A kept result of a query as a chart, and what its columns are like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.model.answers.queries import QueryAnswer, QueryColumnAnswer
from controlplane.services.queries import queries
from controlplane.services.queries.port import PageBounds
from controlplane.ui import result_charts, result_profiles
from controlplane.ui.names import number_of
from controlplane.ui.page import Page, both
from controlplane.ui.page_request import PageRequest
from controlplane.ui.query_values import ORDER, row_order, type_kind
from controlplane.ui.result_charts import KINDS, POINTS, ChartKind
from controlplane.ui.result_profiles import ResultColumnProfile
from dataplane.contract.query_protocol import RowOrder

CELL_BYTES = 500  # of a value that is drawn or counted; a longer one is cut


class ChartPage(TypedDict):
    """`x`, `y`: places in `columns`; `y` is None where no column has numbers. `points`: text of x,
    and y, of the first `looked_at` of `total` rows; rows without a number have none."""

    result: str
    order: str
    columns: list[QueryColumnAnswer]
    kind: ChartKind
    x: int
    y: int | None
    points: list[tuple[str, float]]
    looked_at: int
    total: int


class ProfilePage(TypedDict):
    """Of the first `looked_at` of `total` rows. `cut`: values of which only the beginning was
    looked at."""

    result: str
    columns: list[ResultColumnProfile]
    looked_at: int
    total: int
    cut: int


def _rows(page_request: PageRequest, most: int, order: RowOrder | None = None) -> QueryAnswer:
    """The first rows of the result that the address names. Raises NotFound."""
    bounds = PageBounds(most, cell_bytes=CELL_BYTES, order=order)
    all_queries, result = page_request.services.queries, page_request.query("result")
    return queries.page(page_request.context, all_queries, result, 0, bounds).answer()


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
        "result": answer["result"],
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


def _drawn(page_request: PageRequest, page: ChartPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    x_kind = type_kind(page["columns"][page["x"]]["type"])
    points = [result_charts.point_of(label, x_kind, y) for label, y in page["points"]]
    return {
        "picture": result_charts.picture(points, page["kind"]) if points else None,
        "kinds": KINDS,
        "sizes": result_charts,
    }


def _profile(page_request: PageRequest) -> ProfilePage:
    answer = _rows(page_request, result_profiles.ROWS)
    return {
        "result": answer["result"],
        "columns": result_profiles.of_rows(answer["columns"], answer["rows"]),
        "looked_at": len(answer["rows"]),
        "total": answer["total"],
        "cut": len(answer["cut"]),
    }


def _kinds(page_request: PageRequest, page: ProfilePage) -> Mapping[str, Any]:  # noqa: ARG001
    return {"type_kind": type_kind}


def _command(page_request: PageRequest) -> str:  # noqa: ARG001
    return "headgate query 'SELECT 1'"


CHART = Page("query_chart.html", _chart, _drawn, _command, "data")
PROFILE = Page("query_profile.html", _profile, _kinds, _command, "data")
ROUTES: list[Route] = [*both("/query/chart", CHART), *both("/query/profile", PROFILE)]
