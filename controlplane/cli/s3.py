"""Commands for keys of the S3 view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers import NewS3KeyAnswer, S3KeyEntry


@command
def create_key(
    name: Annotated[str, typer.Argument(help="Who or what it is for.", show_default=False)],
    read: Annotated[
        list[str],
        typer.Option(
            metavar="BRANCH[/DATAFLOW[/DATASET]]", help="What it may read; * stands for all."
        ),
    ] = ["main"],  # noqa: B006  # read only
    ttl_s: Annotated[
        float | None, typer.Option(help="Seconds until it ends; never by default.")
    ] = None,
) -> ClientRequest:
    """Make a key of the running service. Its secret is shown once."""
    if ttl_s is not None and not 0 < ttl_s < math.inf:
        raise typer.BadParameter("must be seconds, more than none", param_hint="--ttl-s")
    return ask(
        lambda client: client.create_s3_key(name, read, ttl_s=ttl_s),
        _made,
        needs_service="so nobody would answer the key",
    )


@command
def list_keys() -> ClientRequest:
    """List keys, without their secrets."""
    return ask(lambda client: client.s3_keys(), _all)


@command
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="ACCESS_KEY or NAME", show_default=False)],
) -> ClientRequest:
    """End a key now: by its access key, or by its name."""
    return do(lambda client: client.revoke_s3_key(key), {"revoked": key})


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
    return [TextTable(columns, rows)]


COMMANDS: Commands = {
    "s3": Group(
        "Datasets as objects of S3 (docs/s3.md).",
        {
            "keys": Group(
                "Make, list and revoke keys.",
                {"create": create_key, "list": list_keys, "revoke": revoke_key},
            )
        },
    )
}
