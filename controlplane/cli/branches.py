"""Commands about branches: create, list, show, protect, update, merge, delete. `diff` is in a
module of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import diff, operate, options, views
from controlplane.cli.command import ClientRequest, Commands, Group, ask, command
from controlplane.cli.output import Lines, TextTable, View, show

if TYPE_CHECKING:
    from controlplane.cli.session import Session
    from controlplane.client import Headgate
    from controlplane.core.model.answers import BranchAnswer, MergeAnswer

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


class Take(StrEnum):
    """Which side of a conflict wins."""

    ours = "ours"
    theirs = "theirs"


@command
def create_branch(
    name: Name,
    source: Annotated[str, typer.Option("--from", help="The branch to make it from.")] = "main",
    days: Annotated[
        float, typer.Option(min=0.001, help="Days without an edit after which it ends.")
    ] = 14.0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep it until it is deleted.")] = False,
    protected: Annotated[
        bool, typer.Option("--protected", help="It changes by merges alone.")
    ] = False,
    redirect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLOW.COMPONENT=PLACE",
            help="Write to this table, path or topic; else it is off.",
        ),
    ] = None,
    pin: Annotated[
        bool,
        typer.Option("--pin", help="See main as it is now, and nothing that comes there later."),
    ] = False,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish", help="Make Delta tables of its own datasets, too; they end with it."
        ),
    ] = False,
) -> ClientRequest:
    """Make a branch. It costs nothing, and computes nothing until something is edited in it."""
    places = dict(_redirect(text) for text in redirect or ())
    return ask(
        lambda client: client.create_branch(
            name,
            source=source,
            days=None if keep else days,
            protected=protected,
            redirect=places,
            pinned=pin,
            publish=publish,
        ),
        lambda value: _branches([value]),
    )


@command
def list_branches() -> ClientRequest:
    """List the branches beside main."""
    return ask(lambda client: client.branches(), _branches)


@command
def show_branch(name: Name) -> ClientRequest:
    """Show one branch."""
    return ask(lambda client: client.branch(name), views.fields)


@command
def protect_branch(
    name: Name,
    off: Annotated[bool, typer.Option("--off", help="Let it be edited again.")] = False,
) -> ClientRequest:
    """Let a branch change by merges alone."""
    return ask(lambda client: client.protect_branch(name, protected=not off), views.fields)


@command
def update_branch(name: Name) -> ClientRequest:
    """Have a pinned branch see main as it is now."""
    return ask(lambda client: client.update_branch(name), views.fields)


def merge_branch(
    ctx: typer.Context,
    name: Name,
    into: Annotated[str, typer.Option("--into", help="The branch to merge it into.")] = "main",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what it would bring, and cost.")
    ] = False,
    take: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SIDE=FLOW.COMPONENT", help="Settle a conflict: ours=... or theirs=..."
        ),
    ] = None,
    when_ready: Annotated[
        bool,
        typer.Option(
            "--when-ready", help="Wait until it leaves nothing to compute; always so if protected."
        ),
    ] = False,
    home: options.Home = None,
    output: options.As = options.OutputForm.table,
) -> None:
    """Bring the edits of a branch into another one, all or nothing. Its results come along."""
    session = options.session(ctx, output)
    sides = dict(_side(text) for text in take or ())
    with session.connect(home) as client:

        def attempt() -> MergeAnswer:
            return client.merge_branch(
                name, into=into, dry_run=dry_run, take=sides, when_ready=when_ready
            )

        value = _when_ready(session, client, (name, into), attempt)
    show(value, _merged(value), session.output)


def _when_ready(
    session: Session, client: Headgate, names: Sequence[str], attempt: Callable[[], MergeAnswer]
) -> MergeAnswer:
    """Merge once both branches have settled. Raises ApiError where they had settled before: then no
    further work is to come."""
    from controlplane.client import ApiError

    while True:
        is_moving = any(operate.moves(client.status(branch=name)) for name in names)
        try:
            return attempt()
        except ApiError as error:
            if error.code != "merge-not-ready" or not is_moving:
                raise
        for name in names:
            operate.settled(session, client, None, name)


@command
def delete_branch(name: Name, override: options.Override = False) -> ClientRequest:
    """End a branch."""
    return ask(lambda client: client.delete_branch(name, override=override), views.fields)


def _side(text: str) -> tuple[str, str]:
    side, _, component = text.partition("=")
    if side not in tuple(Take) or not component:
        raise typer.BadParameter(
            "write ours=FLOW.COMPONENT or theirs=FLOW.COMPONENT", param_hint="--take"
        )
    return component, side


def _redirect(text: str) -> tuple[str, str]:
    component, _, place = text.partition("=")
    if not component or not place:
        raise typer.BadParameter("write FLOW.COMPONENT=PLACE", param_hint="--redirect")
    return component, place


def _branches(items: Sequence[BranchAnswer]) -> View:
    columns = ("name", "from", "made", "by", "ends", "edited", "own datasets")
    rows = tuple(
        (
            i["name"],
            i["source"],
            i["created_at"],
            i["actor"],
            _ends(i),
            ", ".join(i["dataflows"]),
            i["datasets"],
        )
        for i in items
    )
    return (
        [TextTable(columns, rows)]
        if rows
        else [Lines(("there is no branch beside main: headgate branch create NAME",))]
    )


def _ends(branch: BranchAnswer) -> str:
    marks = [mark for mark in ("pinned", "protected") if branch[mark]]
    marks += ["published"] if branch["publish"] else []
    return ", ".join([branch["expires_at"] or "never", *marks])


def _merged(value: MergeAnswer) -> View:
    verb = "would bring" if value["dry_run"] else "brought"
    what = ", ".join(value["taken"] or value["revisions"]) or "nothing"
    lines = [f"{verb} {what} of {value['source']} into {value['into']}"]
    lines += [f"{flow} {'would end' if value['dry_run'] else 'ended'}" for flow in value["ended"]]
    return [Lines(tuple(lines)), *views.plan(value["plan"])]


COMMANDS: Commands = {
    "branch": Group(
        "Try edits on all of the data, beside main.",
        {
            "create": create_branch,
            "protect": protect_branch,
            "update": update_branch,
            "merge": merge_branch,
            "delete": delete_branch,
            "diff": diff.branch_diff,
            "list": list_branches,
            "show": show_branch,
        },
    )
}
