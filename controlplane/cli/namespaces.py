"""Commands about namespaces: parts of one installation that see nothing of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.output import Table, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers.namespaces import NamespaceEntry

Name = Annotated[str, typer.Argument(help="Name of the namespace.", show_default=False)]


def add(app: typer.Typer) -> None:
    commands = typer.Typer(
        help="Parts of the installation that see nothing of each other (docs/namespaces.md).", no_args_is_help=True
    )
    for command in (create, listing, details, delete):
        commands.command({listing: "list", details: "show"}.get(command))(command)
    app.add_typer(commands, name="namespace")


def create(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Make an empty namespace. `headgate token create NAME --namespace` makes its first token."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.create_namespace(name)
    show(value, _all([value]), session.output)


def listing(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List namespaces, and what waits and runs in each."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.namespaces()
    show(value, _all(value), session.output)


def details(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Show one namespace."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.namespace(name)
    show(value, _all([value]), session.output)


def delete(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """End a namespace without dataflows: its tokens, its audit, and what it has in the lake."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        client.delete_namespace(name)
    value = {"deleted": name}
    show(value, views.fields(value), session.output)


def _all(items: Sequence[NamespaceEntry]) -> View:
    columns = ("name", "by", "made", "dataflows", "branches", "tasks", "drivers")
    rows = tuple(
        (
            one["name"],
            one["by"],
            views.time_of(one["at"] or None),
            one["dataflows"],
            one["branches"],
            one["tasks"],
            one["drivers"],
        )
        for one in items
    )
    return [Table("", columns, rows)]
