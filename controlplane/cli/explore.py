"""Commands to look through what is there: the graph. They change nothing."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from controlplane.cli import explore_views, graph_texts, options
from controlplane.cli.output import show

Steps = Annotated[int, typer.Option(min=0, max=1000, help="Steps from the dataset that --around names.")]


class GraphForm(StrEnum):
    """How a graph is written."""

    table = "table"
    json = "json"
    yaml = "yaml"
    md = "md"
    dot = "dot"
    mermaid = "mermaid"


class Collapse(StrEnum):
    """What is drawn as one."""

    flow = "flow"
    tag = "tag"


def add(app: typer.Typer) -> None:
    app.command()(graph)


def graph(
    ctx: typer.Context,
    dataflow: Annotated[str | None, typer.Argument(help="All by default.", show_default=False)] = None,
    around: Annotated[str | None, typer.Option(metavar="DATAFLOW.DATASET", help="Only what is near this.")] = None,
    up: Steps = 2,
    down: Steps = 2,
    collapse: Annotated[Collapse | None, typer.Option(help="Show what has the same dataflow or tag as one.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many datasets at most.")] = 300,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: Annotated[
        GraphForm, typer.Option("--output", "-o", help="Form of the answer; dot and mermaid are for pictures.")
    ] = GraphForm.table,
) -> None:
    """Show datasets, how they read each other, and how each stands; as a table, JSON, or the text of a picture."""
    is_picture = output in (GraphForm.dot, GraphForm.mermaid)
    session = options.session(ctx, options.Form.table if is_picture else options.Form(output.value))
    with session.connect(home) as client:
        value = client.graph(
            dataflow,
            around=around,
            up=up,
            down=down,
            collapse=None if collapse is None else collapse.value,
            branch=branch,
            limit=limit,
        )
    if output == GraphForm.dot:
        sys.stdout.write(graph_texts.dot(value))
    elif output == GraphForm.mermaid:
        sys.stdout.write(graph_texts.mermaid(value))
    else:
        show(value, explore_views.graph(value), session.output)
