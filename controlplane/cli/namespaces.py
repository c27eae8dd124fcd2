"""Commands about namespaces: parts of one installation that see nothing of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.namespaces import NamespaceEntry

Name = Annotated[str, typer.Argument(help="Name of the namespace.", show_default=False)]


@command
def create_namespace(name: Name) -> ClientRequest:
    """Make an empty namespace. `headgate token create NAME --namespace` makes its first token."""
    return ask(lambda client: client.create_namespace(name), lambda value: _all([value]))


@command
def list_namespaces() -> ClientRequest:
    """List namespaces, and what waits and runs in each."""
    return ask(lambda client: client.namespaces(), _all)


@command
def show_namespace(name: Name) -> ClientRequest:
    """Show one namespace."""
    return ask(lambda client: client.namespace(name), lambda value: _all([value]))


@command
def delete_namespace(name: Name) -> ClientRequest:
    """End a namespace without dataflows: its tokens, its audit, and what it has in the lake."""
    return do(lambda client: client.delete_namespace(name), {"deleted": name})


def _all(items: Sequence[NamespaceEntry]) -> View:
    columns = ("name", "by", "made", "dataflows", "branches", "tasks", "drivers")
    rows = tuple(
        (
            namespace["name"],
            namespace["by"],
            views.time_of(namespace["at"] or None),
            namespace["dataflows"],
            namespace["branches"],
            namespace["tasks"],
            namespace["drivers"],
        )
        for namespace in items
    )
    return [TextTable(columns, rows)]


COMMANDS: Commands = {
    "namespace": Group(
        "Parts of the installation that see nothing of each other (docs/namespaces.md).",
        {
            "create": create_namespace,
            "list": list_namespaces,
            "show": show_namespace,
            "delete": delete_namespace,
        },
    )
}
