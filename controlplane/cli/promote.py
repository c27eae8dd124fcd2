"""The command that proposes a transform for a query, and opens a transform as a query."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options
from controlplane.cli.output import Lines, Table, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers.promotion import PromotionAnswer


def add(app: typer.Typer) -> None:
    app.command()(promote)


def promote(
    ctx: typer.Context,
    sql: Annotated[str | None, typer.Argument(metavar="[SQL]", help="A SELECT; - reads standard input.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="DATAFLOW.DATASET", help="What the query is to make.")
    ] = None,
    of: Annotated[
        str | None, typer.Option("--of", metavar="DATAFLOW.DATASET", help="Open this transform as a query instead.")
    ] = None,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.Form.table,
) -> None:
    """Propose a blueprint with a query as a transform: its text, and how each input is read. Nothing is stored; look at
    it with `headgate plan`, and apply it."""
    session = options.session(ctx, output)
    if of is not None:
        if sql is not None or name is not None:
            raise typer.BadParameter("--of goes alone", param_hint="--of")
        with session.connect(home) as client:
            opened = client.query_of(of, branch=branch)
        show(opened, [Lines(tuple(opened["sql"].splitlines()))], session.output)
        return
    if sql is None or name is None:
        raise typer.BadParameter("give SQL and --as DATAFLOW.DATASET, or --of DATAFLOW.DATASET")
    with session.connect(home) as client:
        value = client.promote(sys.stdin.read() if sql == "-" else sql, name, branch=branch)
    show(value, _view(value), session.output)


def _view(value: PromotionAnswer) -> View:
    rows = tuple((name, one["mode"], one["reason"]) for name, one in value["inputs"].items())
    return [Lines(tuple(value["text"].splitlines())), Table("", ("input", "mode", "reason"), rows)]
