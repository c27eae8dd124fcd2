"""Commands for keys of the S3 view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.output import Lines, Table, View, show
from controlplane.cli.session import NoService

if TYPE_CHECKING:
    from controlplane.core.model.answers import NewS3KeyAnswer, S3KeyEntry


def add(app: typer.Typer) -> None:
    s3 = typer.Typer(help="Datasets as objects of S3 (docs/s3.md).", no_args_is_help=True)
    keys = typer.Typer(help="Make, list and revoke keys.", no_args_is_help=True)
    for command in (create, listing, revoke):
        keys.command("list" if command is listing else None)(command)
    s3.add_typer(keys, name="keys")
    app.add_typer(s3, name="s3")


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Who or what it is for.", show_default=False)],
    read: Annotated[
        list[str], typer.Option(metavar="BRANCH[/DATAFLOW[/DATASET]]", help="What it may read; * stands for all.")
    ] = ["main"],  # noqa: B006  # read only
    ttl_s: Annotated[float | None, typer.Option(help="Seconds until it ends; never by default.")] = None,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Make a key of the running service. Its secret is shown once."""
    session = options.session(ctx, output)
    if ttl_s is not None and not 0 < ttl_s < math.inf:
        raise typer.BadParameter("must be seconds, more than none", param_hint="--ttl-s")
    with session.connect(home) as client:
        if session.service is None:
            raise NoService("no service runs on this home, so nobody would answer the key; start `headgate serve`")
        value = client.create_s3_key(name, read, ttl_s=ttl_s)
    show(value, _made(value), session.output)


def listing(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List keys, without their secrets."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.s3_keys()
    show(value, _all(value), session.output)


def revoke(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="ACCESS_KEY or NAME", show_default=False)],
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """End a key now: by its access key, or by its name."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        client.revoke_s3_key(key)
    value = {"revoked": key}
    show(value, views.fields(value), session.output)


def _made(value: NewS3KeyAnswer) -> View:
    ends = f", ends {views.time_of(value['expires'])}" if value["expires"] else ""
    words = f"{value['name']} reads {', '.join(value['read'])}{ends}; the secret is shown only now"
    shown = ("access_key", value["access_key"]), ("secret_key", value["secret_key"])
    where = ("endpoint", value["endpoint"]), ("region", value["region"])
    return [Lines((*(f"{name:10} {text}" for name, text in (*shown, *where)), words))]


def _all(items: Sequence[S3KeyEntry]) -> View:
    columns = ("access key", "name", "read", "made", "expires", "state")
    rows = tuple(
        (
            i["access_key"],
            i["name"],
            ", ".join(i["read"]),
            views.time_of(i["at"]),
            views.time_of(i["expires"]),
            views.token_state(i),
        )
        for i in items
    )
    return [Table("", columns, rows)]
