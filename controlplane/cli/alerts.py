"""The command that tests the channels of alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import Lines, View

if TYPE_CHECKING:
    from controlplane.core.model.answers import NotifyAnswer, NotifyEntry


@command
def notify(
    dataflow: Annotated[
        str | None,
        typer.Argument(help="This dataflow's channels; all by default.", show_default=False),
    ] = None,
    test: Annotated[
        bool, typer.Option("--test", help="Send a test message to each channel.")
    ] = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Send a test message to each channel that alerts go to (`--test`). Exits with 1 where one was
    not taken."""
    if not test:
        raise typer.BadParameter(
            "alerts are sent by the service; say --test to send a test message to each channel"
        )
    return ask(
        lambda client: client.notify(dataflow, branch=branch),
        view,
        is_failure=lambda value: not value["sent"],
        role="run",
    )


def view(value: NotifyAnswer) -> View:
    """One line for each channel."""
    if not value["items"]:
        return [Lines(("nobody is told: no dataflow has `notify:`, and there is no notify.yaml",))]
    return [Lines(tuple(map(_line, value["items"])))]


def _line(item: NotifyEntry) -> str:
    channel = f"{item['dataflow'] or 'all dataflows'}: {item['to']} {item['place']}"
    error = item["error"]
    return f"{channel}: sent" if error is None else f"{channel}: not sent: {error['message']}"


COMMANDS: Commands = {"notify": notify}
