"""Commands that start a control plane in their own process: run, serve, demo."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane import settings
from controlplane.cli import failures, options, views, words
from controlplane.cli.command import Commands
from controlplane.cli.output import show

if TYPE_CHECKING:
    from controlplane.cli.session import Session


class Per(StrEnum):
    """How the example's flights are split into files."""

    month = "month"
    day = "day"


def run(
    ctx: typer.Context,
    files: options.Files,
    home: options.Home = None,
    branch: options.Branch = "main",
    accept_deletes: options.AcceptDeletes = False,
    explain: options.Explain = False,
    output: options.As = options.OutputForm.table,
) -> None:
    """Make these dataflows and their upstream up to date, and end: through the service that there
    is, else in this process."""
    from controlplane.cli import once, service_target
    from controlplane.cli.progress import ProgressDisplay

    session = options.session(ctx, output)
    request = once.RunRequest(session.load(files), branch, accept_deletes=accept_deletes)
    with ProgressDisplay(sys.stderr) as progress:
        value = service_target.make(
            session, settings.read(home), request, progress.show, since=session.started
        )
    show(value, [*views.summary(value), *words.counts(value, explain)], session.output)
    raise typer.Exit(0 if value["state"] in failures.FINE else failures.ERROR)


def serve(
    ctx: typer.Context,
    home: options.Home = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any free one.")
    ] = 8420,
    loop: Annotated[
        bool, typer.Option("--loop/--no-loop", help="The API alone: another process has the loop.")
    ] = True,
) -> None:
    """Run the service: API, loop and drivers, until a signal ends it."""
    from controlplane import logs
    from controlplane.cli.signals import ending, outlast

    session = options.session(ctx)
    logs.endure()
    logs.configure()
    chosen = settings.read(home)
    with (
        session.runtime.start(chosen, "serve" if loop else "look", host, port) as server,
        ending(server.interrupt),
    ):
        sys.stderr.write(f"headgate serves {server.url}; its token is in {chosen.home / 'token'}\n")
        outlast(server.stopping.wait)
        if server.failure is not None:
            raise server.failure
        sys.stderr.write("headgate ends: work under way is finished or left for the next start\n")


def demo(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Option(help="Where to work; a new folder by default.")
    ] = None,
    by: Annotated[Per, typer.Option(help="One file of flights per month or day.")] = Per.month,
) -> None:
    """A demonstration on real data: a first run, a run with nothing to do, a late file, an edit and
    its revert."""
    from controlplane.cli import demo_steps

    session: Session = options.session(ctx)
    raise typer.Exit(demo_steps.take(session, folder, by.value))


COMMANDS: Commands = {"run": run, "serve": serve, "demo": demo}
