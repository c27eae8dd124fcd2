"""The command that tests the channels of alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import failures, options
from controlplane.cli.output import Lines, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers import NotifyAnswer, NotifyEntry


def add(app: typer.Typer) -> None:
    app.command()(notify)


def notify(
    ctx: typer.Context,
    dataflow: Annotated[
        str | None, typer.Argument(help="This dataflow's channels; all by default.", show_default=False)
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Send a test message to each channel.")] = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.Form.table,
) -> None:
    """Send a test message to each channel that alerts go to (`--test`). Exits with 1 where one was not taken."""
    if not test:
        raise typer.BadParameter("alerts are sent by the service; say --test to send a test message to each channel")
    session = options.session(ctx, output)
    with session.connect(home, "run") as client:
        value = client.notify(dataflow, branch=branch)
    show(value, view(value), session.output)
    raise typer.Exit(0 if value["sent"] else failures.ERROR)


def view(value: NotifyAnswer) -> View:
    """One line for each channel."""
    if not value["items"]:
        return [Lines(("nobody is told: no dataflow has `notify:`, and there is no notify.yaml",))]
    return [Lines(tuple(map(_line, value["items"])))]


def _line(item: NotifyEntry) -> str:
    channel = f"{item['dataflow'] or 'all dataflows'}: {item['to']} {item['place']}"
    error = item["error"]
    return f"{channel}: sent" if error is None else f"{channel}: not sent: {error['message']}"
