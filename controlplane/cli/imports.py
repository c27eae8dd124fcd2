"""The command that takes existing tables as generations."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from controlplane.cli import completion, operate, options, views
from controlplane.cli.command import Commands
from controlplane.cli.output import show


def import_table(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="DATAFLOW.DATASET", show_default=False, autocompletion=completion.datasets
        ),
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TABLE",
            help="delta:PATH, iceberg:PATH, parquet:FOLDER or dataset:DATAFLOW.DATASET.",
        ),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="COLUMN",
            help="Makes the partition keys of inputs that are read each; repeat it.",
        ),
    ] = None,
    override: options.Override = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Take an existing table as the newest generation of a transform. It computes nothing of the
    table."""
    session = options.session(ctx, output)
    table = _absolute(source)
    with session.connect(home) as client:
        session.require_service()
        step = partial(
            client.import_table, target, table, key=key or [], branch=branch, override=override
        )
        progress = step()
        while progress["state"] == "copying":
            operate.settled(session, client, progress["dataflow"], branch)
            progress = step()
    show(progress, views.fields(progress), session.output)


def _absolute(source: str) -> str:
    """A local path as the service finds it."""
    kind, colon, place = source.partition(":")
    if kind == "dataset" or not place or re.match(r"[a-z][a-z0-9+]*://", place):
        return source
    return f"{kind}{colon}{Path(place).absolute()}"


COMMANDS: Commands = {"import": import_table}
