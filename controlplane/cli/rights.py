"""Commands about who may do what, and who did: tokens and the audit."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command, do
from controlplane.cli.output import Lines, TextTable, View, show

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        AuditEntry,
        NewTokenAnswer,
        ReadEntry,
        TokenEntry,
        WithinAnswer,
    )


class AuditForm(StrEnum):
    """How an audit is written."""

    table = "table"
    json = "json"
    ndjson = "ndjson"
    yaml = "yaml"
    md = "md"


MOST = 10_000
ROLES_HELP = "view, data, operate, edit, admin, driver, or a role of your own"
Dataflows = Annotated[
    list[str], typer.Option("--dataflow", help="Only these dataflows; * and ? stand for others.")
]
Datasets = Annotated[
    list[str], typer.Option("--dataset", help="Only these datasets, as DATAFLOW.DATASET.")
]
Branches = Annotated[list[str], typer.Option("--branch", help="Only these branches.")]


@command
def create_token(
    name: Annotated[str, typer.Argument(help="Who or what it is for.", show_default=False)],
    role: Annotated[
        list[str],
        typer.Option("--role", "--scope", metavar="ROLE", help=f"What it may do: {ROLES_HELP}."),
    ] = ["admin"],  # noqa: B006  # read only
    dataflow: Dataflows = [],  # noqa: B006  # read only
    dataset: Datasets = [],  # noqa: B006  # read only
    branch: Branches = [],  # noqa: B006  # read only
    namespace: Annotated[
        str | None, typer.Option(help="Another namespace than one's own.", show_default=False)
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 12h, 30d; never by default.")
    ] = None,
    ttl_s: Annotated[float | None, typer.Option(help="The same in seconds.")] = None,
) -> ClientRequest:
    """Make a token. Its text is shown once."""
    ttl_s = ttl_of(expires, ttl_s)
    return ask(
        lambda client: client.create_token(
            name,
            role,
            ttl_s=ttl_s,
            dataflows=dataflow,
            datasets=dataset,
            branches=branch,
            namespace=namespace,
        ),
        _made,
    )


def ttl_of(expires: str | None, ttl_s: float | None) -> float | None:
    """Either of the two."""
    if ttl_s is not None and not 0 < ttl_s < math.inf:
        raise typer.BadParameter("must be seconds, more than none", param_hint="--ttl-s")
    if expires is None:
        return ttl_s
    from controlplane.core.blueprint.value_kinds import seconds

    duration_s = seconds(expires)
    if duration_s is None or ttl_s is not None:
        raise typer.BadParameter(
            "write 90s, 30m, 12h or 30d, and not beside --ttl-s", param_hint="--expires"
        )
    return duration_s


@command
def list_tokens() -> ClientRequest:
    """List tokens, without their texts."""
    return ask(lambda client: client.tokens(), _tokens)


@command
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="ID or NAME", show_default=False)],
) -> ClientRequest:
    """End a token now: by its id, or by its name if no other live token has it."""
    return do(lambda client: client.revoke_token(token), {"revoked": token})


def audit(
    ctx: typer.Context,
    reads: Annotated[
        bool, typer.Option("--reads", help="Who read data, instead of who changed what.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="With its zone: from then on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="With its zone: what was before.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many.")] = 100,
    branch: Annotated[
        str | None, typer.Option("--branch", "-b", help="Branch; all by default.")
    ] = None,
    home: options.Home = None,
    output: Annotated[
        AuditForm, typer.Option("--output", "-o", help="Form on standard output.")
    ] = AuditForm.table,
) -> None:
    """Show who changed the desired state, or who read data; the last ones first."""
    is_ndjson = output is AuditForm.ndjson
    session = options.session(
        ctx, options.OutputForm.json if is_ndjson else options.OutputForm(output.value)
    )
    items: Sequence[AuditEntry] | Sequence[ReadEntry]
    with session.connect(home) as client:
        if reads:
            items = read = client.audit_reads(limit, branch=branch, since=since, until=until)[
                "items"
            ]
            view = _reads(read)
        else:
            items = changed = client.audit(limit, branch=branch, since=since, until=until)["items"]
            view = _changes(changed)
    if is_ndjson:
        sys.stdout.writelines(json.dumps(item) + "\n" for item in items)
    else:
        show(items, view, session.output)
    if len(items) == limit:
        sys.stderr.write(f"there may be more: --until {items[-1]['at']}, or a larger --limit\n")


def _made(value: NewTokenAnswer) -> View:
    """A new token, with its text in a line of its own."""
    expires = f", ends {views.time_of(value['expires'])}" if value["expires"] else ""
    of = "" if value["namespace"] == "default" else f"namespace {value['namespace']}"
    what = "; ".join(
        part for part in (", ".join(value["scopes"]), within_words(value["within"]), of) if part
    )
    words = f"{value['id']} {value['name']} ({what}){expires}; the token is shown only now"
    return [Lines((value["token"], words))]


def _tokens(items: Sequence[TokenEntry]) -> View:
    columns = ("id", "name", "roles", "within", "made", "used", "expires", "state")
    rows = tuple(
        (
            i["id"],
            i["name"],
            ", ".join(i["scopes"]),
            within_words(i["within"]),
            views.time_of(i["at"]),
            views.time_of(i["used"]),
            views.time_of(i["expires"]),
            views.token_state(i),
        )
        for i in items
    )
    return [TextTable(columns, rows)]


def within_words(within: WithinAnswer) -> str:
    kinds: Mapping[str, Sequence[str]] = {
        "dataflow": within["dataflows"],
        "dataset": within["datasets"],
        "branch": within["branches"],
    }
    return "; ".join(
        f"{kind} {', '.join(patterns)}" for kind, patterns in kinds.items() if patterns
    )


def _changes(items: Sequence[AuditEntry]) -> View:
    columns = ("at", "who", "action", "target", "branch")
    rows = tuple((i["at"], i["actor"], i["action"], i["target"], i["branch"]) for i in items)
    return [TextTable(columns, rows)] if rows else [Lines(("nothing was changed",))]


def _reads(items: Sequence[ReadEntry]) -> View:
    columns = ("at", "who", "how", "dataset", "branch", "requests", "bytes")
    rows = tuple(
        (i["at"], i["actor"], i["how"], i["dataset"], i["branch"], i["times"], i["bytes"])
        for i in items
    )
    return [TextTable(columns, rows)] if rows else [Lines(("nothing was read",))]


COMMANDS: Commands = {
    "token": Group(
        "Make, list and revoke tokens.",
        {"create": create_token, "list": list_tokens, "revoke": revoke_token},
    ),
    "audit": audit,
}
