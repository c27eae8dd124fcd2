"""Commands for signed links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import Lines, TextTable, View
from controlplane.cli.records import Columns, Compressed, Format, Limit, Partition, Where
from controlplane.core.records.requested_columns import names_of

if TYPE_CHECKING:
    from controlplane.core.model.answers.links import LinkEntry, NewLinkAnswer

_TIME = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@command
def create_link(
    dataset: options.DatasetAt,
    format: Annotated[Format, typer.Option(help="Form of the records.")] = Format.csv,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="When it ends: 90s, 30m, 12h or 7d from now.")
    ] = "7d",
    columns: Columns = None,
    where: Where = None,
    partition: Partition = None,
    limit: Limit = None,
    compression: Compressed = None,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Make a link of the running service. Its address is shown once. Its holder reads these
    rows."""
    ttl_s = seconds(expires)
    return ask(
        lambda client: client.create_link(
            dataset,
            branch=branch,
            format=format.value,
            compression=None if compression is None else compression.value,
            partition=partition,
            columns=names_of(columns or ()),
            where=where,
            limit=limit,
            ttl_s=ttl_s,
        ),
        _made,
        needs_service="so nobody would answer the link",
    )


@command
def list_links() -> ClientRequest:
    """List links, without their addresses."""
    return ask(lambda client: client.links(), _all)


@command
def revoke_link(
    link: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
) -> ClientRequest:
    """End a link now."""
    return do(lambda client: client.revoke_link(link), {"revoked": link})


def seconds(text: str) -> float:
    """The seconds of a duration such as 90s, 30m, 12h or 7d. Raises BadParameter."""
    match = _TIME.fullmatch(text)
    if match is None or not int(match[1]):
        raise typer.BadParameter(
            f"{text!r} is no time such as 90s, 30m, 12h or 7d", param_hint="--expires"
        )
    return float(int(match[1]) * _SECONDS[match[2]])


def _made(value: NewLinkAnswer) -> View:
    words = f"link {value['id']} reads {_reads(value)} until {views.time_of(value['expires'])}"
    return [Lines((value["url"], f"{words}; its address is shown only now"))]


def _all(items: Sequence[LinkEntry]) -> View:
    columns = ("id", "reads", "form", "by", "made", "expires", "state")
    rows = tuple(
        (
            i["id"],
            _reads(i),
            i["format"],
            i["by"],
            views.time_of(i["at"]),
            views.time_of(i["expires"]),
            i["ended"] or "live",
        )
        for i in items
    )
    return [TextTable(columns, rows)]


def _reads(link: LinkEntry) -> str:
    branch = "" if link["branch"] == "main" else f" of branch {link['branch']}"
    point = f"@{link['point']}" if link["point"] else ""
    partition = "" if link["partition"] is None else f", partition {link['partition']}"
    columns = f", columns {', '.join(link['columns'])}" if link["columns"] else ""
    where = "" if link["where"] is None else f", where {link['where']}"
    limit = "" if link["limit"] is None else f", {link['limit']} rows at most"
    return f"{link['dataset']}{point}{branch}{partition}{columns}{where}{limit}"


COMMANDS: Commands = {
    "link": Group(
        "Addresses that read one dataset without a token (docs/records.md).",
        {"create": create_link, "list": list_links, "revoke": revoke_link},
    )
}
