"""The command that shows the profiles of a dataset's columns, and where they moved. It changes
nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import Lines, TextTable, View
from controlplane.cli.partition_keys import with_stored_key

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers.profiles import (
        ColumnHistory,
        ColumnProfile,
        ColumnValues,
        ProfileAnswer,
        ProfileHistoryAnswer,
    )

BARS = "▁▂▃▄▅▆▇█"
WIDEST = 32


@command
def profile(
    target: options.PartitionAt,
    column: Annotated[
        str | None, typer.Option(help="Only this column, with its frequent values.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Over the last generations, and where it moved.")
    ] = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show what each column is like: NULLs, distinct values, extremes, histogram, frequent values,
    lengths."""
    dataset, slash, key = target.partition("/")
    if history and (slash or "@" in dataset):
        raise typer.BadParameter("--history is of a dataset: name no partition and no generation")
    if history:
        return ask(
            lambda client: client.profile_history(dataset, column=column, branch=branch), _history
        )
    return ask(
        lambda client: with_stored_key(
            lambda typed: client.profile(dataset, partition=typed, column=column, branch=branch),
            key if slash else None,
        ),
        lambda value: profile_view(value, is_one=column is not None),
    )


def profile_view(value: ProfileAnswer, *, is_one: bool) -> View:
    """A line for each column. `is_one`: with frequent values, of the one that was chosen."""
    heads = ("column", "type", "NULL", "distinct", "least", "greatest", "histogram")
    rows = tuple(_row(column) for column in value["columns"])
    parts: list[TextTable | Lines] = [TextTable(heads, rows)]
    if is_one:
        parts += [
            part
            for column in value["columns"]
            if "values" in column
            for part in _details(column["values"])
        ]
    return [*parts, Lines(tuple(_notes(value)))]


def _row(column: ColumnProfile) -> tuple[str, ...]:
    kind = str(column["type"]["type"]) if isinstance(column["type"], dict) else str(column["type"])
    nulls = (
        "?"
        if column["null_share"] is None
        else f"{_about(column['nulls_basis'])}{column['null_share']:.1%}"
    )
    distinct = (
        "?"
        if column["distinct"] is None
        else f"{_about(column['distinct_basis'])}{column['distinct']}"
    )
    if "values" not in column:
        return column["name"], kind, nulls, distinct, "", "", ""
    values = column["values"]
    about = _about(values["bounds"])
    ends = [
        _cut(f"{about}{end}") if end is not None else "" for end in (values["min"], values["max"])
    ]
    drawn = bars(values["histogram"]["counts"]) if values["histogram"] else ""
    return column["name"], kind, nulls, distinct, *ends, drawn


def _about(basis: str) -> str:
    return "" if basis == "exact" else "~"


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def bars(counts: list[int]) -> str:
    most = max(counts, default=0) or 1
    return "".join(BARS[min(7, count * 8 // most)] if count else " " for count in counts)


def _details(values: ColumnValues) -> list[TextTable | Lines]:
    lines: list[str] = []
    if values["mean"] is not None and values["deviation"] is not None:
        lines.append(f"mean {values['mean']:.6g}, standard deviation {values['deviation']:.6g}")
    if values["quartiles"]:
        lines.append(f"quartiles {', '.join(map(str, values['quartiles']))}")
    if values["nan"]:
        lines.append(f"NaN {values['nan']:.1%}")
    if values["lengths"]:
        lengths = values["lengths"]
        lines.append(
            f"lengths from {lengths['min']} to {lengths['max']}, {lengths['mean']:.1f} on average"
        )
    top = tuple(
        (_cut(str(frequent["value"])), f"{frequent['share']:.1%}", frequent["rows"])
        for frequent in values["top"]
    )
    parts: list[TextTable | Lines] = [Lines(tuple(lines))] if lines else []
    return [*parts, TextTable(("value", "share", "rows"), top, "frequent values")] if top else parts


def _notes(value: ProfileAnswer) -> list[str]:
    sample, rows = value["sample"], value["rows"]
    count = value["partitions"]
    parts = f"{count} {'partition' if count == 1 else 'partitions'}"
    lines = [f"generation {value['generation']}, {rows} rows in {parts}"]
    if sample["rows"] == rows:
        lines[0] += "; all of them were looked at"
    elif sample["rows"]:
        lines.append(
            f"~ is estimated: distinct values within 2 %, the rest of {sample['rows']} rows, drawn from {sample['of']}"
        )
    else:
        lines.append("no sample: only file statistics are known")
    if value["is_partial"]:
        lines.append(f"{value['unprofiled_rows']} rows were not looked at yet: ask again")
    elif value["unprofiled_rows"]:
        lines.append(
            f"of {value['unprofiled_rows']} rows nothing is known: they were written without a profile"
        )
    if value["values_need"]:
        lines.append(f"values are not shown: they take the permission {value['values_need']}")
    return lines


def _history(value: ProfileHistoryAnswer) -> View:
    rows = tuple(_line(column) for column in value["columns"])
    moves = tuple(
        f"{column['name']}: generation {point['generation']}: {', '.join(point['moved'])}"
        for column in value["columns"]
        for point in column["points"]
        if point["moved"]
    )
    notes = ("some partitions were not looked at yet: ask again",) if value["is_partial"] else ()
    table = TextTable(("column", "generations", "NULL", "mean", "moved"), rows)
    return [table, Lines((*moves, *notes) or ("no column moved",))]


def _line(column: ColumnHistory) -> tuple[str, ...]:
    points = column["points"]
    span = f"{points[0]['generation']} to {points[-1]['generation']}" if points else ""
    moved = ", ".join(str(point["generation"]) for point in points if point["moved"])
    nulls = sparkline([point["null_share"] for point in points], low=0.0, high=1.0)
    return column["name"], span, nulls, sparkline([point["mean"] for point in points]), moved


def sparkline(
    numbers: list[float | None], low: float | None = None, high: float | None = None
) -> str:
    numbers_there = [number for number in numbers if number is not None]
    if not numbers_there:
        return ""
    least, most = (
        min(numbers_there) if low is None else low,
        max(numbers_there) if high is None else high,
    )
    width = (most - least) or 1.0
    return "".join(
        " " if number is None else BARS[min(7, int((number - least) / width * 8))]
        for number in numbers
    )


COMMANDS: Commands = {"profile": profile}
