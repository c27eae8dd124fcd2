"""Commands for who keeps a control plane: the database, collecting and checking."""

from __future__ import annotations

from typing import Annotated

import typer

from controlplane import settings
from controlplane.cli import options, views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command
from controlplane.cli.output import Lines, show
from controlplane.cli.session import Output
from controlplane.home import Home


def upgrade(
    ctx: typer.Context, home: options.Home = None, output: options.As = options.OutputForm.table
) -> None:
    """Bring the database to this version's schema."""
    session = options.session(ctx, output)
    chosen = settings.read(home)
    Home(chosen.home).prepare()
    session.runtime.upgrade(chosen.database_url)
    _show_version(session.output, session.runtime.version(chosen.database_url))


def version(
    ctx: typer.Context, home: options.Home = None, output: options.As = options.OutputForm.table
) -> None:
    """Show the schema's version."""
    session = options.session(ctx, output)
    chosen = settings.read(home)
    Home(chosen.home).prepare()
    _show_version(session.output, session.runtime.version(chosen.database_url))


@command
def gc(
    packs: Annotated[
        bool, typer.Option("--packs", help="Also give up all packs; they are made again.")
    ] = False,
) -> ClientRequest:
    """Drop history whose time is over, and what nothing refers to any more; a service does it by
    itself."""
    return ask(lambda client: client.gc(packs=packs), views.fields)


@command
def fsck(
    dataset: Annotated[
        str | None, typer.Argument(metavar="[FLOW.DATASET]", help="Of which to read contents.")
    ] = None,
    files: Annotated[
        bool, typer.Option("--files", help="Also look for every file in the lake.")
    ] = False,
    contents: Annotated[
        bool, typer.Option("--contents", help="Also read all rows, and compare them.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Have what is lost, or found damaged, made again.")
    ] = False,
    types: Annotated[
        bool, typer.Option("--types", help="Also tell what an earlier version misread.")
    ] = False,
) -> ClientRequest:
    """Check trees, fragments and counts. Changes nothing without --repair. Exits with 1 if
    something is wrong."""
    if dataset is not None and not contents:
        raise typer.BadParameter("goes with --contents", param_hint="FLOW.DATASET")
    return ask(
        lambda client: client.fsck(
            files=files, contents=contents, dataset=dataset, repair=repair, types=types
        ),
        views.findings,
        is_failure=lambda value: bool(value["findings"]),
    )


def _show_version(output: Output, version: str | None) -> None:
    show({"version": version}, [Lines((version or "no schema yet: headgate db upgrade",))], output)


COMMANDS: Commands = {
    "db": Group("The metadata database.", {"upgrade": upgrade, "version": version}),
    "gc": gc,
    "fsck": fsck,
}
