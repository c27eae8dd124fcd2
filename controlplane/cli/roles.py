"""Commands about roles of a namespace's own. Does not belong here: who has them (`rights`, `trust`)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.output import Table, View, show
from controlplane.cli.rights import Branches, Dataflows, Datasets, within_words

if TYPE_CHECKING:
    from controlplane.core.model.answers.roles import RoleEntry


class Allows(StrEnum):
    """What a role may allow (docs/rights.md)."""

    view = "view"
    data = "data"
    operate = "operate"
    edit = "edit"
    admin = "admin"


Name = Annotated[str, typer.Argument(help="Name of the role.", show_default=False)]
Permissions = Annotated[
    list[Allows], typer.Option("--permission", "-p", help="What it allows; may be given several times.")
]


def add(app: typer.Typer) -> None:
    role = typer.Typer(help="Roles of your own: named sets of permissions (docs/rights.md).", no_args_is_help=True)
    for command in (create, change, listing, shown, delete):
        role.command({listing: "list", shown: "show"}.get(command))(command)
    app.add_typer(role, name="role")


def create(
    ctx: typer.Context,
    name: Name,
    permission: Permissions,
    dataflow: Dataflows = [],  # noqa: B006  # read only
    dataset: Datasets = [],  # noqa: B006  # read only
    branch: Branches = [],  # noqa: B006  # read only
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Make a role, for --role of tokens and rules of trust."""
    session = options.session(ctx, output)
    allowed = [one.value for one in permission]
    with session.connect(home) as client:
        value = client.create_role(name, allowed, dataflows=dataflow, datasets=dataset, branches=branch)
    show(value, _all([value]), session.output)


def change(
    ctx: typer.Context,
    name: Name,
    permission: Permissions,
    dataflow: Dataflows = [],  # noqa: B006  # read only
    dataset: Datasets = [],  # noqa: B006  # read only
    branch: Branches = [],  # noqa: B006  # read only
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Say anew all that a role allows; it counts at once for all who have it."""
    session = options.session(ctx, output)
    allowed = [one.value for one in permission]
    with session.connect(home) as client:
        value = client.change_role(name, allowed, dataflows=dataflow, datasets=dataset, branches=branch)
    show(value, _all([value]), session.output)


def listing(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List roles, those that are built in first."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.roles()
    show(value, _all(value), session.output)


def shown(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Show a role, and who has it."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.role(name)
    show(value, _all([value]), session.output)


def delete(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Delete a role that no token and no rule of trust has."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        client.delete_role(name)
    value = {"deleted": name}
    show(value, views.fields(value), session.output)


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
    return [Table("", columns, rows)]
