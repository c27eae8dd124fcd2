"""Commands for feeds: datasets that are offered to other dataflows and namespaces
(docs/feeds.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.feeds import FeedColumn, FeedEntry, FeedReader, OfferedFeed

Name = Annotated[str, typer.Argument(metavar="FEED", help="Name of the feed.", show_default=False)]
Namespace = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="Whose dataflows read it.", show_default=False)
]


@command
def create_feed(
    name: Name,
    dataset: options.Dataset,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="DDL", help="The contract: 'id BIGINT, name STRING'. All columns by default."
        ),
    ] = None,
) -> ClientRequest:
    """Offer a dataset that has data. Dataflows read it once it is granted to them."""
    return ask(lambda client: client.create_feed(name, dataset, columns=columns), _feed_lines)


@command
def change_feed(
    name: Name,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="DDL",
            help="The contract from now on. All columns that the dataset has by default.",
        ),
    ] = None,
) -> ClientRequest:
    """Promise more: further columns, or wider types. Readers go on."""
    return ask(lambda client: client.change_feed(name, columns=columns), _feed_lines)


@command
def list_feeds() -> ClientRequest:
    """List the feeds of this namespace."""
    return ask(lambda client: client.feeds(), _all)


@command
def show_feed(name: Name) -> ClientRequest:
    """Show the contract of a feed, who may read it and who does."""
    return ask(lambda client: client.feed(name), _feed_lines)


@command
def grant_feed(
    name: Name,
    namespace: Namespace,
    dataflows: Annotated[
        str, typer.Option(metavar="PATTERN", help="Which of its dataflows: sales or sales*.")
    ] = "*",
) -> ClientRequest:
    """Let dataflows of a namespace read a feed."""
    return ask(lambda client: client.grant_feed(name, namespace, dataflows=dataflows), _feed_lines)


@command
def revoke_feed(
    name: Name,
    namespace: Namespace,
    dataflows: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Only the grant with this pattern.", show_default=False
        ),
    ] = None,
) -> ClientRequest:
    """Take the grants of a namespace away. Readers keep what they have, and get nothing new."""
    return ask(lambda client: client.revoke_feed(name, namespace, dataflows=dataflows), _feed_lines)


@command
def delete_feed(name: Name) -> ClientRequest:
    """Delete a feed without readers."""
    return do(lambda client: client.delete_feed(name), {"deleted": name})


@command
def list_offered_feeds() -> ClientRequest:
    """List feeds that dataflows of this namespace may read."""
    return ask(lambda client: client.offered_feeds(), _offered)


def _all(items: Sequence[FeedEntry]) -> View:
    columns = ("name", "dataset", "generation", "readers", "by", "made", "contract")
    rows = tuple(
        (
            i["name"],
            i["dataset"],
            _number(i["generation"]),
            str(len(i["readers"])),
            i["by"],
            views.time_of(i["at"]),
            "broken" if i["breaches"] else "kept",
        )
        for i in items
    )
    return [TextTable(columns, rows)]


def _feed_lines(value: FeedEntry) -> View:
    readers = ", ".join(map(_reader, value["readers"])) or "nobody"
    lines = [
        f"feed {value['name']} offers {value['dataset']}, generation {_number(value['generation'])}",
        f"columns {_columns(value['columns'])}",
        f"read by {readers}",
    ]
    if value["breaches"]:
        broken = "; ".join(value["breaches"])
        lines.append(f"generation {_number(value['newest'])} breaks the contract: {broken}")
    rows = tuple(
        (g["namespace"], g["dataflows"], g["by"], views.time_of(g["at"])) for g in value["grants"]
    )
    return [Lines(tuple(lines)), TextTable(("granted to", "dataflows", "by", "since"), rows)]


def _reader(reader: FeedReader) -> str:
    if reader["dataset"] is None:
        return f"namespace {reader['namespace']}"
    return (
        reader["dataset"]
        if reader["branch"] == "main"
        else f"{reader['dataset']} ({reader['branch']})"
    )


def _offered(items: Sequence[OfferedFeed]) -> View:
    columns = ("namespace", "feed", "for dataflows", "generation", "columns")
    rows = tuple(
        (
            i["namespace"],
            i["feed"],
            ", ".join(i["dataflows"]),
            _number(i["generation"]),
            _columns(i["columns"]),
        )
        for i in items
    )
    return [TextTable(columns, rows)]


def _columns(columns: Sequence[FeedColumn]) -> str:
    return ", ".join(f"{column['name']} {column['type']}" for column in columns)


def _number(generation: int | None) -> str:
    return "-" if generation is None else str(generation)


COMMANDS: Commands = {
    "feed": Group(
        "Datasets that others read by a name (docs/feeds.md).",
        {
            "create": create_feed,
            "change": change_feed,
            "list": list_feeds,
            "show": show_feed,
            "grant": grant_feed,
            "revoke": revoke_feed,
            "delete": delete_feed,
            "offered": list_offered_feeds,
        },
    )
}
