"""Arguments and options that several commands share, so that they read and mean the same
everywhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from controlplane.cli import completion
from controlplane.cli.session import Output, Session


class OutputForm(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    yaml = "yaml"
    md = "md"


Files: TypeAlias = Annotated[list[Path], typer.Argument(help="Blueprints.", show_default=False)]
Home: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Folder of the control plane; default $HEADGATE_HOME, else ./.headgate."),
]
As: TypeAlias = Annotated[
    OutputForm, typer.Option("--output", "-o", help="Form of the answer on standard output.")
]
Branch: TypeAlias = Annotated[
    str, typer.Option("--branch", "-b", help="Branch.", autocompletion=completion.branches)
]
Target: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="DATAFLOW[.DATASET]",
        help="Everything by default.",
        show_default=False,
        autocompletion=completion.datasets,
    ),
]
Dataset: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DATAFLOW.DATASET", show_default=False, autocompletion=completion.datasets
    ),
]
DatasetAt: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DATAFLOW.DATASET[@AT]",
        help="AT is a generation (12) or a time (2026-11-24T07:00Z); the newest by default.",
        show_default=False,
        autocompletion=completion.datasets,
    ),
]
PartitionAt: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DATAFLOW.DATASET[@AT][/PARTITION]",
        show_default=False,
        autocompletion=completion.datasets,
    ),
]
DetailedExit: TypeAlias = Annotated[
    bool, typer.Option("--detailed-exitcode", help="Exit with 2 where there is work to do.")
]
AcceptDeletes: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--accept-deletes", help="Confirm a loss of source objects that waits for confirmation."
    ),
]
Override: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--override", help="Also in a protected branch; needs the role admin, and is noted."
    ),
]
Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="Also say what the words mean.")
]


Refresh: TypeAlias = Annotated[
    bool, typer.Option("--refresh/--no-refresh", help="Have the sources listed first, by a worker.")
]
Timeout: TypeAlias = Annotated[
    float,
    typer.Option(
        "--timeout", min=0, max=3600, help="Seconds to wait at most, for listings and for Spark."
    ),
]
LISTED_S = 60.0


def session(ctx: typer.Context, output: OutputForm = OutputForm.table) -> Session:
    """The session of this invocation; from here on errors come in the form of `output`."""
    current = ctx.find_object(Session)
    assert current is not None
    form: Output = output.value
    current.output = form
    return current
