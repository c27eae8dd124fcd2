"""Commands about roles of a namespace's own."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import TextTable, View
from controlplane.cli.rights import Branches, Dataflows, Datasets, within_words

if TYPE_CHECKING:
    from controlplane.core.model.answers.roles import RoleEntry


class Allows(StrEnum):
    """Permissions of a role (docs/rights.md)."""

    view = "view"
    data = "data"
    operate = "operate"
    edit = "edit"
    admin = "admin"


Name = Annotated[str, typer.Argument(help="Name of the role.", show_default=False)]
Permissions = Annotated[
    list[Allows],
    typer.Option("--permission", "-p", help="What it allows; may be given several times."),
]


@command
def create_role(
    name: Name,
    permission: Permissions,
    dataflow: Dataflows = [],  # noqa: B006  # read only
    dataset: Datasets = [],  # noqa: B006  # read only
    branch: Branches = [],  # noqa: B006  # read only
) -> ClientRequest:
    """Make a role, for --role of tokens and rules of trust."""
    allowed = [each.value for each in permission]
    return ask(
        lambda client: client.create_role(
            name, allowed, dataflows=dataflow, datasets=dataset, branches=branch
        ),
        lambda value: _all([value]),
    )


@command
def change_role(
    name: Name,
    permission: Permissions,
    dataflow: Dataflows = [],  # noqa: B006  # read only
    dataset: Datasets = [],  # noqa: B006  # read only
    branch: Branches = [],  # noqa: B006  # read only
) -> ClientRequest:
    """Replace all that a role allows; it counts at once for all who have it."""
    allowed = [each.value for each in permission]
    return ask(
        lambda client: client.change_role(
            name, allowed, dataflows=dataflow, datasets=dataset, branches=branch
        ),
        lambda value: _all([value]),
    )


@command
def list_roles() -> ClientRequest:
    """List roles, those that are built in first."""
    return ask(lambda client: client.roles(), _all)


@command
def show_role(name: Name) -> ClientRequest:
    """Show a role, and who has it."""
    return ask(lambda client: client.role(name), lambda value: _all([value]))


@command
def delete_role(name: Name) -> ClientRequest:
    """Delete a role that no token and no rule of trust has."""
    return do(lambda client: client.delete_role(name), {"deleted": name})


def _all(items: Sequence[RoleEntry]) -> View:
    columns = ("name", "permissions", "within", "used by", "by", "made")
    rows = tuple(
        (
            i["name"],
            ", ".join(i["permissions"]),
            within_words(i["within"]),
            "" if i["built_in"] else "; ".join(i["used_by"]) or "nobody",
            "built in" if i["built_in"] else i["by"],
            views.time_of(i["at"]),
        )
        for i in items
    )
    return [TextTable(columns, rows)]


COMMANDS: Commands = {
    "role": Group(
        "Roles of your own: named sets of permissions (docs/rights.md).",
        {
            "create": create_role,
            "change": change_role,
            "list": list_roles,
            "show": show_role,
            "delete": delete_role,
        },
    )
}
