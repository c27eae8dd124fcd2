"""Commands that go back: rollback of data, revert of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, plan_views, views
from controlplane.cli.output import Lines, Table, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers import RollbackAnswer

Target = Annotated[str, typer.Argument(metavar="DATAFLOW[.DATASET]", show_default=False)]


def add(app: typer.Typer) -> None:
    for command in (rollback, revert):
        app.command()(command)


def rollback(
    ctx: typer.Context,
    target: Target,
    to: Annotated[str, typer.Option("--to", metavar="GENERATION|TIME", help="Of a dataset, or a time with its zone.")],
    reason: Annotated[str, typer.Option("--reason", help="Shown to everybody who looks at it.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Also where datasets would reflect different states of a source.")
    ] = False,
    override: options.Override = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.Form.table,
) -> None:
    """Go back to earlier rows, and hold them until `headgate resume`. What reads them follows."""
    session = options.session(ctx, output)
    generation = int(to) if to.isascii() and to.isdecimal() else None
    at = to if generation is None else None
    with session.connect(home) as client:
        value = client.rollback(
            target, generation=generation, at=at, reason=reason, force=force, branch=branch, override=override
        )
    show(value, _rolled_back(value), session.output)


def revert(
    ctx: typer.Context,
    dataflow: Annotated[str, typer.Argument(metavar="DATAFLOW", show_default=False)],
    to: Annotated[int, typer.Option("--to", min=1, metavar="REVISION", help="Whose text is stored again.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would change, and cost.")] = False,
    revision: Annotated[int | None, typer.Option(min=0, help="Only if the dataflow is at this revision.")] = None,
    override: options.Override = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.Form.table,
) -> None:
    """Undo edits: store the text of an earlier revision as a new one. Data follows, from memory where it is known."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.revert(dataflow, to, branch=branch, dry_run=dry_run, revision=revision, override=override)
    plan = [*plan_views.changes(value["plan"]), *views.plan(value["plan"])]
    show(value, plan if dry_run else views.applied(value), session.output)


def _rolled_back(value: RollbackAnswer) -> View:
    columns = ("dataset", "back to generation", "of", "was at", "is now", "rows")
    rows = tuple(
        (one["dataset"], one["back_to"], one["at"], one["before"], one["generation"], one["rows"])
        for one in value["held"]
    )
    return [Table("", columns, rows), Lines(tuple(_further(value)))]


def _further(value: RollbackAnswer) -> Iterator[str]:
    for dataset in value["left_out"]:
        yield f"not held: {dataset}, which had no data then"
    branch = "" if value["branch"] == "main" else f" --branch {value['branch']}"
    yield f"held until: headgate resume {value['target']}{branch}"
