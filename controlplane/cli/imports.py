"""The command that takes existing tables as generations."""

from __future__ import annotations

import re
import shlex
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import completion, operate, options, views
from controlplane.cli.command import Commands
from controlplane.cli.output import Lines, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers import ImportAnswer

SAMPLE_LOOK_S = 1.0  # between two looks at the tasks of a sample
MAIN = "main"


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
    verify: Annotated[
        int,
        typer.Option(
            "--verify",
            metavar="N",
            min=0,
            max=1000,
            help="Compute N partitions and compare them; import nothing if one differs.",
        ),
    ] = 0,
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Take Parquet files as they are, linked or copied by their store; {word} in"
            " parquet:FOLDER/{word}.parquet makes the partition key.",
        ),
    ] = False,
    override: options.Override = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Take an existing table as the newest generation of a transform. It computes nothing of the
    table but the sample of --verify, and exits with 1 where that differs."""
    session = options.session(ctx, output)
    table = _absolute(source)
    with session.connect(home) as client:
        session.require_service()
        step = partial(
            client.import_table,
            target,
            table,
            key=key or [],
            verify=verify,
            link=link,
            branch=branch,
            override=override,
        )
        progress = step()
        while progress["state"] in ("copying", "verifying"):
            if progress["state"] == "copying":
                operate.settled(session, client, progress["dataflow"], branch)
            else:
                time.sleep(SAMPLE_LOOK_S)
            progress = step()
    show(progress, _view(progress), session.output)
    if progress["state"] == "differs":
        raise typer.Exit(1)


def _view(progress: ImportAnswer) -> View:
    """The state of the import; and each partition of the sample that differs, with the command that
    shows its rows."""
    sample = progress.get("sample")
    fields = dict[str, object](progress)
    fields.pop("sample", None)
    if sample is None:
        return views.fields(fields)
    fields["verified"] = f"{sample['partitions']} partitions, {len(sample['differing'])} differ"
    compare = f"headgate diff {sample['computed']} {sample['copied']} --rows"
    if progress["branch"] != MAIN:
        compare += f" --branch {progress['branch']}"
    # The only partition of a dataset has no key
    keys = [key for key in sample["differing"] if key]
    lines = [f"{compare} --partition {shlex.quote(key)}" for key in keys]
    if sample["differing"] and not keys:
        lines = [compare]
    if not lines:
        return views.fields(fields)
    return [*views.fields(fields), Lines(tuple(lines))]


def _absolute(source: str) -> str:
    """A local path as the service finds it."""
    kind, colon, place = source.partition(":")
    if kind == "dataset" or not place or re.match(r"[a-z][a-z0-9+]*://", place):
        return source
    return f"{kind}{colon}{Path(place).absolute()}"


COMMANDS: Commands = {"import": import_table}
