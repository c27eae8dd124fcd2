"""Commands for Delta Sharing: shares, and who reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.links import seconds
from controlplane.cli.output import Lines, Table, View, show
from controlplane.cli.session import NoService

if TYPE_CHECKING:
    from controlplane.core.model.answers.shares import NewRecipientAnswer, RecipientEntry, ShareEntry

Name = Annotated[str, typer.Argument(help="Name of the share.", show_default=False)]


def add(app: typer.Typer) -> None:
    shares = typer.Typer(help="Datasets that are given to others (docs/sharing.md).", no_args_is_help=True)
    for command in (create, add_table, remove, listing, details, delete):
        shares.command({listing: "list", add_table: "add", details: "show"}.get(command))(command)
    app.add_typer(shares, name="share")
    recipients = typer.Typer(help="Who reads shares (docs/sharing.md).", no_args_is_help=True)
    for made in (invite, invited, revoke):
        recipients.command({invite: "create", invited: "list"}.get(made))(made)
    app.add_typer(recipients, name="recipient")


def create(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Make a share without datasets."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.create_share(name)
    show(value, _all([value]), session.output)


def add_table(
    ctx: typer.Context,
    name: Name,
    dataset: options.Dataset,
    alias: Annotated[
        str | None, typer.Option("--as", metavar="SCHEMA.TABLE", help="Its name for recipients; its own by default.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Give earlier generations and changes, too.")] = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.Form.table,
) -> None:
    """Give a dataset, or say anew whether its history is given."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.add_to_share(name, dataset, alias=alias, branch=branch, history=history)
    show(value, _one(value), session.output)


def remove(
    ctx: typer.Context,
    name: Name,
    table: Annotated[str, typer.Argument(metavar="SCHEMA.TABLE", show_default=False)],
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Take a dataset out now, by the name that recipients know."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.remove_from_share(name, table)
    show(value, _one(value), session.output)


def listing(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List shares."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.shares()
    show(value, _all(value), session.output)


def details(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Show the tables of a share, and who reads it."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.share(name)
    show(value, _one(value), session.output)


def delete(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """End a share now, for all its recipients."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        client.delete_share(name)
    value = {"deleted": name}
    show(value, views.fields(value), session.output)


def invite(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Who it is.", show_default=False)],
    shares: Annotated[list[str], typer.Option("--shares", metavar="NAME,...", help="What it reads.")],
    expires: Annotated[str, typer.Option(metavar="TIME", help="When it ends: 30m, 12h or 90d from now.")] = "90d",
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Make a recipient, and write its profile file. It is shown once; whoever has it reads the shares."""
    session = options.session(ctx, output)
    ttl_s = seconds(expires)
    with session.connect(home) as client:
        if session.service is None:
            raise NoService("no service runs on this home, so nobody would answer; start `headgate serve`")
        value = client.create_recipient(name, [one for text in shares for one in text.split(",")], ttl_s=ttl_s)
    show(value, [Lines(tuple(json.dumps(value["profile"], indent=2).splitlines()))], session.output)
    typer.echo(_made(value), err=True)


def invited(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List recipients, without their profiles."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.recipients()
    show(value, _invited(value), session.output)


def revoke(
    ctx: typer.Context,
    recipient: Annotated[str, typer.Argument(metavar="ID or NAME", show_default=False)],
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """End a recipient now."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        client.revoke_recipient(recipient)
    value = {"revoked": recipient}
    show(value, views.fields(value), session.output)


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
    return [Table("", columns, rows)]


def _one(value: ShareEntry) -> View:
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
    return [Lines((f"share {value['name']}, read by {readers}",)), Table("", columns, rows)]


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
    return [Table("", columns, rows)]
