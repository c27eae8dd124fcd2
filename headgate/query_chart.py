"""The result of a query as a chart: the SVG of the query page, with the columns and the kind that
the page would choose."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from controlplane.cli.output import Lines
from controlplane.core.model.answers.queries import QueryAnswer
from controlplane.ui import result_charts
from controlplane.ui.query_values import type_kind
from controlplane.ui.result_charts import KINDS, POINTS, ChartKind
from headgate.shown import Shown

__all__ = ["KINDS", "POINTS", "chart"]


def chart(answer: QueryAnswer, kind: ChartKind | None = None) -> Shown:
    """The chart of the first POINTS rows at most. A result without a number has a text in its
    place."""
    columns = answer["columns"]
    axes = result_charts.default_columns(columns)
    if axes is None:
        return Shown(answer, [Lines(("No column has numbers: a chart needs one.",))])
    x, y = axes
    points = result_charts.points_of(answer["rows"], x, y, type_kind(columns[x]["type"]))
    if not points:
        words = f"No row has a number in the column {columns[y]['name']}."
        return Shown(answer, [Lines((words,))])
    chosen = kind or result_charts.default_kind(columns[x])
    label = f"{columns[y]['name']} by {columns[x]['name']}"
    svg = _template().render(
        picture=result_charts.picture(points, chosen),
        sizes=result_charts,
        kind=chosen,
        label=label,
        count=len(points),
    )
    note = _note(len(answer["rows"]), len(points), has_more=answer["more"])
    return Shown(answer, [Lines((note,))], label, svg)


def _template() -> Template:
    loader = PackageLoader("controlplane.ui")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("chart_svg.html")


def _note(rows: int, points: int, *, has_more: bool) -> str:
    """Which rows the chart shows."""
    noun = "row" if rows == 1 else "rows"
    shown = f"The first {rows:,} {noun}" if has_more else f"All {rows:,} {noun}"
    left_out = rows - points
    if not left_out:
        return f"{shown}."
    verb = "is" if left_out == 1 else "are"
    return f"{shown}; {left_out:,} without a number in y {verb} left out."
