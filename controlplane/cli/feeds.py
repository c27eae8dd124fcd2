"""Commands for feeds: datasets that are offered to other dataflows and namespaces (docs/feeds.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.output import Lines, Table, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers.feeds import FeedColumn, FeedEntry, FeedReader, OfferedFeed

Name = Annotated[str, typer.Argument(metavar="FEED", help="Name of the feed.", show_default=False)]
Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Whose dataflows read it.", show_default=False)]


def add(app: typer.Typer) -> None:
    feeds = typer.Typer(help="Datasets that others read by a name (docs/feeds.md).", no_args_is_help=True)
    for command in (create, change, listing, details, grant, revoke, delete, offered):
        feeds.command({listing: "list", details: "show"}.get(command))(command)
    app.add_typer(feeds, name="feed")


def create(
    ctx: typer.Context,
    name: Name,
    dataset: options.Dataset,
    columns: Annotated[
        str | None, typer.Option(metavar="DDL", help="The contract: 'id BIGINT, name STRING'. All columns by default.")
    ] = None,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Offer a dataset that has data. Dataflows read it once it is granted to them."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.create_feed(name, dataset, columns=columns)
    show(value, _one(value), session.output)


def change(
    ctx: typer.Context,
    name: Name,
    columns: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="The contract from now on. All columns that the dataset has by default."),
    ] = None,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Promise more: further columns, or wider types. Readers go on."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.change_feed(name, columns=columns)
    show(value, _one(value), session.output)


def listing(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List the feeds of this namespace."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.feeds()
    show(value, _all(value), session.output)


def details(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Show the contract of a feed, who may read it and who does."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.feed(name)
    show(value, _one(value), session.output)


def grant(
    ctx: typer.Context,
    name: Name,
    namespace: Namespace,
    dataflows: Annotated[str, typer.Option(metavar="PATTERN", help="Which of its dataflows: sales or sales*.")] = "*",
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Let dataflows of a namespace read a feed."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.grant_feed(name, namespace, dataflows=dataflows)
    show(value, _one(value), session.output)


def revoke(
    ctx: typer.Context,
    name: Name,
    namespace: Namespace,
    dataflows: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only the grant with this pattern.", show_default=False)
    ] = None,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Take the grants of a namespace away. Readers keep what they have, and get nothing new."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.revoke_feed(name, namespace, dataflows=dataflows)
    show(value, _one(value), session.output)


def delete(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Delete a feed without readers."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        client.delete_feed(name)
    value = {"deleted": name}
    show(value, views.fields(value), session.output)


def offered(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List feeds that dataflows of this namespace may read."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.offered_feeds()
    show(value, _offered(value), session.output)


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
    return [Table("", columns, rows)]


def _one(value: FeedEntry) -> View:
    readers = ", ".join(map(_reader, value["readers"])) or "nobody"
    lines = [
        f"feed {value['name']} offers {value['dataset']}, generation {_number(value['generation'])}",
        f"columns {_columns(value['columns'])}",
        f"read by {readers}",
    ]
    if value["breaches"]:
        broken = "; ".join(value["breaches"])
        lines.append(f"generation {_number(value['newest'])} breaks the contract: {broken}")
    rows = tuple((g["namespace"], g["dataflows"], g["by"], views.time_of(g["at"])) for g in value["grants"])
    return [Lines(tuple(lines)), Table("", ("granted to", "dataflows", "by", "since"), rows)]


def _reader(one: FeedReader) -> str:
    if one["dataset"] is None:
        return f"namespace {one['namespace']}"
    return one["dataset"] if one["branch"] == "main" else f"{one['dataset']} ({one['branch']})"


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
    return [Table("", columns, rows)]


def _columns(columns: Sequence[FeedColumn]) -> str:
    return ", ".join(f"{one['name']} {one['type']}" for one in columns)


def _number(generation: int | None) -> str:
    return "-" if generation is None else str(generation)
