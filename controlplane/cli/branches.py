"""Commands about branches: create, list, show, protect, update, merge, delete. `diff` is in a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import diff, operate, options, views
from controlplane.cli.output import Lines, Table, View, show

if TYPE_CHECKING:
    from controlplane.cli.session import Session
    from controlplane.client import Headgate
    from controlplane.core.model.answers import BranchAnswer, MergeAnswer

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


class Take(StrEnum):
    """Which side of a conflict wins."""

    ours = "ours"
    theirs = "theirs"


def add(app: typer.Typer) -> None:
    branch = typer.Typer(help="Try edits on all of the data, beside main.", no_args_is_help=True)
    for command in (create, protect, update, merge, delete):
        branch.command()(command)
    branch.command("diff")(diff.branch_diff)
    branch.command("list")(listing)
    branch.command("show")(one)
    app.add_typer(branch, name="branch")


def create(
    ctx: typer.Context,
    name: Name,
    source: Annotated[str, typer.Option("--from", help="The branch to make it from.")] = "main",
    days: Annotated[float, typer.Option(min=0.001, help="Days without an edit after which it ends.")] = 14.0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep it until somebody deletes it.")] = False,
    protected: Annotated[bool, typer.Option("--protected", help="It changes by merges alone.")] = False,
    redirect: Annotated[
        list[str] | None,
        typer.Option(metavar="FLOW.COMPONENT=PLACE", help="Write to this table, path or topic; else it is off."),
    ] = None,
    pin: Annotated[bool, typer.Option("--pin", help="See main as it is now, whatever comes there later.")] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Make Delta tables of its own datasets, too; they end with it.")
    ] = False,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Make a branch. It costs nothing, and computes nothing until something is edited in it."""
    session = options.session(ctx, output)
    places = dict(_redirect(text) for text in redirect or ())
    with session.connect(home) as client:
        value = client.create_branch(
            name,
            source=source,
            days=None if keep else days,
            protected=protected,
            redirect=places,
            pinned=pin,
            publish=publish,
        )
    show(value, _branches([value]), session.output)


def listing(ctx: typer.Context, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """List the branches beside main."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.branches()
    show(value, _branches(value), session.output)


def one(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Show one branch."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.branch(name)
    show(value, views.fields(value), session.output)


def protect(
    ctx: typer.Context,
    name: Name,
    off: Annotated[bool, typer.Option("--off", help="Let it be edited again.")] = False,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Let a branch change by merges alone."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.protect_branch(name, protected=not off)
    show(value, views.fields(value), session.output)


def update(ctx: typer.Context, name: Name, home: options.Home = None, output: options.As = options.Form.table) -> None:
    """Have a pinned branch see main as it is now."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.update_branch(name)
    show(value, views.fields(value), session.output)


def merge(
    ctx: typer.Context,
    name: Name,
    into: Annotated[str, typer.Option("--into", help="The branch to merge it into.")] = "main",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would bring, and cost.")] = False,
    take: Annotated[
        list[str] | None, typer.Option(metavar="SIDE=FLOW.COMPONENT", help="Settle a conflict: ours=... or theirs=...")
    ] = None,
    when_ready: Annotated[
        bool, typer.Option("--when-ready", help="Wait until it leaves nothing to compute; always so if protected.")
    ] = False,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """Bring what was edited in a branch into another one, all or nothing. Its results come along."""
    session = options.session(ctx, output)
    sides = dict(_side(text) for text in take or ())
    with session.connect(home) as client:

        def attempt() -> MergeAnswer:
            return client.merge_branch(name, into=into, dry_run=dry_run, take=sides, when_ready=when_ready)

        value = _when_ready(session, client, (name, into), attempt)
    show(value, _merged(value), session.output)


def _when_ready(
    session: Session, client: Headgate, names: Sequence[str], attempt: Callable[[], MergeAnswer]
) -> MergeAnswer:
    """Tried again each time that both branches have come to rest, unless they rested before: then nobody would do what
    is missing. Raises ApiError."""
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


def delete(
    ctx: typer.Context,
    name: Name,
    override: options.Override = False,
    home: options.Home = None,
    output: options.As = options.Form.table,
) -> None:
    """End a branch."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = client.delete_branch(name, override=override)
    show(value, views.fields(value), session.output)


def _side(text: str) -> tuple[str, str]:
    side, _, component = text.partition("=")
    if side not in tuple(Take) or not component:
        raise typer.BadParameter("write ours=FLOW.COMPONENT or theirs=FLOW.COMPONENT", param_hint="--take")
    return component, side


def _redirect(text: str) -> tuple[str, str]:
    component, _, place = text.partition("=")
    if not component or not place:
        raise typer.BadParameter("write FLOW.COMPONENT=PLACE", param_hint="--redirect")
    return component, place


def _branches(items: Sequence[BranchAnswer]) -> View:
    columns = ("name", "from", "made", "by", "ends", "edited", "own datasets")
    rows = tuple(
        (i["name"], i["source"], i["created_at"], i["actor"], _ends(i), ", ".join(i["dataflows"]), i["datasets"])
        for i in items
    )
    return (
        [Table("", columns, rows)]
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
