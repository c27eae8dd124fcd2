"""The command that asks one query."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from controlplane.cli import options
from controlplane.cli.command import Commands
from controlplane.cli.output import Lines, TextTable, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers.queries import QueryAnswer

SHOWN_ROWS = 1000
MOST_ROWS = 1_000_000
LONGEST_S = 600.0


class RowForm(StrEnum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"


Sql = Annotated[
    str, typer.Argument(metavar="SQL", help="A SELECT; - reads it from standard input.")
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="The value of $NAME, or Spark's :NAME: JSON (3, true, null), else text.",
    ),
]
Limit = Annotated[int, typer.Option(min=0, max=MOST_ROWS, help="Rows at most.")]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Tables as they were at this time, such as 2026-11-24T07:00Z."
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=1, max=LONGEST_S, help="Seconds that it may take.")
]


class Engine(StrEnum):
    """The engine of a query."""

    duckdb = "duckdb"
    spark = "spark"


By = Annotated[Engine, typer.Option("--engine", "-e", help="What runs it, in its own SQL.")]
As = Annotated[RowForm, typer.Option("--output", "-o", help="Form of the rows on standard output.")]


def query(
    ctx: typer.Context,
    sql: Sql,
    param: Param = None,
    limit: Limit = SHOWN_ROWS,
    at: At = None,
    timeout: Timeout = 60.0,
    engine: By = Engine.duckdb,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: As = RowForm.table,
) -> None:
    """Show rows of a SELECT over datasets, in DuckDB's SQL or Spark's: headgate query "SELECT
    count(*) FROM shop.orders@12"."""
    session = options.session(
        ctx, options.OutputForm.json if output is RowForm.json else options.OutputForm.table
    )
    parameters = dict(map(_parameter, param or ()))
    text = sys.stdin.read() if sql == "-" else sql
    with session.connect(home) as client:
        value = client.query(
            text,
            branch=branch,
            parameters=parameters,
            limit=limit,
            at=at,
            timeout_s=timeout,
            engine=engine.value,
        )
    if output is RowForm.csv:
        write_csv(value, sys.stdout)
    else:
        show(value, rows_view(value), session.output)


def _parameter(text: str) -> tuple[str, Any]:
    name, is_given, value = text.partition("=")
    if not is_given or not name:
        raise typer.BadParameter(f"{text!r}: write NAME=VALUE", param_hint="--param")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def rows_view(value: QueryAnswer) -> View:
    """Rows, and below them where they end early."""
    columns = tuple(column["name"] for column in value["columns"])
    rows = tuple(tuple(map(_cell, row)) for row in value["rows"])
    words = [f"first {len(rows)} rows; there are more: --limit"] if value["more"] else []
    return [TextTable(columns, rows), *([Lines(tuple(words))] if words else [])]


def write_csv(value: QueryAnswer, out: TextIO) -> None:
    """With a head; NULL is nothing, nested values are JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column["name"] for column in value["columns"]])
    writer.writerows(map(_cells, value["rows"]))


def _cells(row: Sequence[Any]) -> list[Any]:
    return [_cell(value) for value in row]


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


COMMANDS: Commands = {"query": query}
