"""The cost of past work, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.cli import work_views
from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.spending import CostAnswer, CostRow

FIGURES = ("seconds", "tasks", "attempts", "read", "written", "reused", "unchanged")


def cost(answer: CostAnswer, by: str) -> View:
    """One table and the sums. `by`: dataflow, component, owner or day."""
    tables = {
        "dataflow": answer["dataflows"],
        "component": answer["components"],
        "owner": answer["owners"],
        "day": answer["days"],
    }
    table, total = tables[by], answer["total"]
    since = f"since {answer['since']} (UTC)"
    if not table["rows"]:
        return [Lines((f"no work {since}",))]
    lines = [f"{table['left_out']} more rows"] if table["left_out"] else []
    spent = f"{total['seconds']:,.1f} s in {total['attempts']:,} attempts"
    saved = f"{total['reused']:,} partitions reused, {total['unchanged']:,} commits unchanged"
    lines.append(f"{since}: {spent}; {saved}")
    return [TextTable((by, *FIGURES), tuple(map(_row, table["rows"]))), Lines(tuple(lines))]


def _row(row: CostRow) -> tuple[object, ...]:
    return (
        row["name"] or "(none)",
        round(row["seconds"], 1),
        row["tasks"],
        row["attempts"],
        work_views.size(row["bytes_read"]),
        work_views.size(row["bytes_written"]),
        row["reused"],
        row["unchanged"],
    )
