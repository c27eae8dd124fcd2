"""Commands that go back: rollback of data, revert of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import completion, options, plan_views, views
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers import ApplyAnswer, RollbackAnswer

Target = Annotated[
    str,
    typer.Argument(
        metavar="DATAFLOW[.DATASET]", show_default=False, autocompletion=completion.datasets
    ),
]


@command
def rollback(
    target: Target,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="GENERATION|TIME", help="Of a dataset, or a time with its zone."
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", help="Shown to everybody who looks at it.")
    ] = "",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also where datasets would reflect different states of a source."
        ),
    ] = False,
    override: options.Override = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Go back to earlier rows, and hold them until `headgate resume`. What reads them follows."""
    generation = int(to) if to.isascii() and to.isdecimal() else None
    at = to if generation is None else None
    return ask(
        lambda client: client.rollback(
            target,
            generation=generation,
            at=at,
            reason=reason,
            force=force,
            branch=branch,
            override=override,
        ),
        _rolled_back,
    )


@command
def revert(
    dataflow: Annotated[str, typer.Argument(metavar="DATAFLOW", show_default=False)],
    to: Annotated[
        int, typer.Option("--to", min=1, metavar="REVISION", help="Whose text is stored again.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what it would change, and cost.")
    ] = False,
    revision: Annotated[
        int | None, typer.Option(min=0, help="Only if the dataflow is at this revision.")
    ] = None,
    override: options.Override = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Undo edits: store the text of an earlier revision as a new one. Data follows, from memory
    where it is known."""
    return ask(
        lambda client: client.revert(
            dataflow, to, branch=branch, dry_run=dry_run, revision=revision, override=override
        ),
        _planned if dry_run else views.applied,
    )


def _planned(value: ApplyAnswer) -> View:
    return [*plan_views.changes(value["plan"]), *views.plan(value["plan"])]


def _rolled_back(value: RollbackAnswer) -> View:
    columns = ("dataset", "back to generation", "of", "was at", "is now", "rows")
    rows = tuple(
        (
            held["dataset"],
            held["back_to"],
            held["at"],
            held["before"],
            held["generation"],
            held["rows"],
        )
        for held in value["held"]
    )
    return [TextTable(columns, rows), Lines(tuple(_further(value)))]


def _further(value: RollbackAnswer) -> Iterator[str]:
    for dataset in value["left_out"]:
        yield f"not held: {dataset}, which had no data then"
    branch = "" if value["branch"] == "main" else f" --branch {value['branch']}"
    yield f"held until: headgate resume {value['target']}{branch}"


COMMANDS: Commands = {"rollback": rollback, "revert": revert}
