"""Commands for Delta Sharing: shares, and who reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.links import seconds
from controlplane.cli.output import Lines, TextTable, View, show
from controlplane.cli.session import NoService

if TYPE_CHECKING:
    from controlplane.core.model.answers.shares import (
        NewRecipientAnswer,
        RecipientEntry,
        ShareEntry,
    )

Name = Annotated[str, typer.Argument(help="Name of the share.", show_default=False)]


@command
def create_share(name: Name) -> ClientRequest:
    """Make a share without datasets."""
    return ask(lambda client: client.create_share(name), lambda value: _all([value]))


@command
def add_to_share(
    name: Name,
    dataset: options.Dataset,
    alias: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="SCHEMA.TABLE", help="Its name for recipients; its own by default."
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Give earlier generations and changes, too.")
    ] = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Give a dataset, or change whether its history is given."""
    return ask(
        lambda client: client.add_to_share(
            name, dataset, alias=alias, branch=branch, history=history
        ),
        _share_lines,
    )


@command
def remove_from_share(
    name: Name,
    table: Annotated[str, typer.Argument(metavar="SCHEMA.TABLE", show_default=False)],
) -> ClientRequest:
    """Take a dataset out now, by the name that recipients know."""
    return ask(lambda client: client.remove_from_share(name, table), _share_lines)


@command
def list_shares() -> ClientRequest:
    """List shares."""
    return ask(lambda client: client.shares(), _all)


@command
def show_share(name: Name) -> ClientRequest:
    """Show the tables of a share, and who reads it."""
    return ask(lambda client: client.share(name), _share_lines)


@command
def delete_share(name: Name) -> ClientRequest:
    """End a share now, for all its recipients."""
    return do(lambda client: client.delete_share(name), {"deleted": name})


def create_recipient(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Who it is.", show_default=False)],
    shares: Annotated[
        list[str], typer.Option("--shares", metavar="NAME,...", help="What it reads.")
    ],
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="When it ends: 30m, 12h or 90d from now.")
    ] = "90d",
    home: options.Home = None,
    output: options.As = options.OutputForm.table,
) -> None:
    """Make a recipient, and write its profile file. It is shown once. Its holder reads the
    shares."""
    session = options.session(ctx, output)
    ttl_s = seconds(expires)
    with session.connect(home) as client:
        if session.service is None:
            raise NoService(
                "no service runs on this home, so nobody would answer; start `headgate serve`"
            )
        value = client.create_recipient(
            name, [share for text in shares for share in text.split(",")], ttl_s=ttl_s
        )
    show(value, [Lines(tuple(json.dumps(value["profile"], indent=2).splitlines()))], session.output)
    typer.echo(_made(value), err=True)


@command
def list_recipients() -> ClientRequest:
    """List recipients, without their profiles."""
    return ask(lambda client: client.recipients(), _invited)


@command
def revoke_recipient(
    recipient: Annotated[str, typer.Argument(metavar="ID or NAME", show_default=False)],
) -> ClientRequest:
    """End a recipient now."""
    return do(lambda client: client.revoke_recipient(recipient), {"revoked": recipient})


def _made(value: NewRecipientAnswer) -> str:
    reads = f"{value['name']} reads {', '.join(value['shares'])} until {views.time_of(value['expires'])}"
    return f"{reads}; the profile is shown only now"


def _all(items: Sequence[ShareEntry]) -> View:
    columns = ("name", "tables", "recipients", "by", "made")
    rows = tuple(
        (
            i["name"],
            str(len(i["tables"])),
            ", ".join(i["recipients"]),
            i["by"],
            views.time_of(i["at"]),
        )
        for i in items
    )
    return [TextTable(columns, rows)]


def _share_lines(value: ShareEntry) -> View:
    readers = ", ".join(value["recipients"]) or "nobody"
    columns = ("table", "dataset", "branch", "history", "since")
    rows = tuple(
        (
            i["table"],
            i["dataset"],
            i["branch"],
            "yes" if i["history"] else "no",
            views.time_of(i["at"]),
        )
        for i in value["tables"]
    )
    return [Lines((f"share {value['name']}, read by {readers}",)), TextTable(columns, rows)]


def _invited(items: Sequence[RecipientEntry]) -> View:
    columns = ("id", "name", "shares", "made", "expires", "last used", "state")
    rows = tuple(
        (
            i["id"],
            i["name"],
            ", ".join(i["shares"]),
            views.time_of(i["at"]),
            views.time_of(i["expires"]),
            views.time_of(i["used"]),
            views.token_state(i),
        )
        for i in items
    )
    return [TextTable(columns, rows)]


COMMANDS: Commands = {
    "share": Group(
        "Datasets that are given to others (docs/sharing.md).",
        {
            "create": create_share,
            "add": add_to_share,
            "remove": remove_from_share,
            "list": list_shares,
            "show": show_share,
            "delete": delete_share,
        },
    ),
    "recipient": Group(
        "Who reads shares (docs/sharing.md).",
        {"create": create_recipient, "list": list_recipients, "revoke": revoke_recipient},
    ),
}
