"""The cost of past work, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.spending import CostAnswer, CostBy, CostFigures, CostRow

FIGURES = ("seconds", "tasks", "attempts", "read", "written", "reused", "unchanged")


def cost(value: CostAnswer, by: str) -> View:
    """One table and the sums. `by`: dataflow, component, owner or day."""
    tables = {
        "dataflow": value["dataflows"],
        "component": value["components"],
        "owner": value["owners"],
        "day": value["days"],
    }
    table: CostBy = tables[by]
    since = f"since {value['since']} (UTC)"
    if not table["rows"]:
        return [Lines((f"no work {since}",))]
    rows = tuple(_row(row) for row in table["rows"])
    lines = [f"{table['left_out']} more rows"] if table["left_out"] else []
    total = value["total"]
    spent = f"{total['seconds']:,.1f} s in {total['attempts']:,} attempts"
    saved = f"{total['reused']:,} partitions reused, {total['unchanged']:,} commits unchanged"
    return [TextTable((by, *FIGURES), rows), Lines((*lines, f"{since}: {spent}; {saved}"))]


def _row(row: CostRow) -> tuple[object, ...]:
    return (row["name"] or "(none)", f"{row['seconds']:,.1f}", *_counts(row))


def _counts(figures: CostFigures) -> tuple[int, ...]:
    return (
        figures["tasks"],
        figures["attempts"],
        figures["bytes_read"],
        figures["bytes_written"],
        figures["reused"],
        figures["unchanged"],
    )
