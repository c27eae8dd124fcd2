"""Commands that change the desired state: apply, delete, refresh, retry, pause, resume; and waiting
for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import completion, failures, options, plan_views, source_views, views, words
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import show
from controlplane.cli.partition_keys import with_stored_key

if TYPE_CHECKING:
    from controlplane.cli.session import Session
    from controlplane.client import Headgate
    from controlplane.core.model.answers import (
        ApplyAnswer,
        RunAnswer,
        StatusAnswer,
    )

MOVING = ("stale", "building")


def apply(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Blueprints, or one plan.", show_default=False)
    ],
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the dataflows are made.")
    ] = False,
    revision: Annotated[
        int | None, typer.Option(min=0, help="Only if the dataflow is at this revision.")
    ] = None,
    explain: options.Explain = False,
    override: options.Override = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Store blueprints, all or none; a running service then makes it so. A plan (`headgate plan
    --out FILE`) is stored if all that it rests on is as it was."""
    from controlplane.cli import plan_files, sources

    session = options.session(ctx, output)
    planned = plan_files.read(files[0]) if len(files) == 1 else None
    if planned is not None and revision is not None:
        raise typer.BadParameter(
            "--revision does not go with a plan, which names the revisions that it rests on"
        )
    documents = [] if planned else sources.as_documents(session.load(files))

    def store(client: Headgate) -> ApplyAnswer:
        if planned is not None:
            of = planned["branch"]
            return client.carry_out(
                planned["blueprints"], planned["basis"], branch=of, override=override
            )
        return client.apply(documents, branch=branch, revision=revision, override=override)

    with session.connect(home) as client:
        if not wait:
            value = store(client)
            value["plan"] = plan_views.with_names(value["plan"], session.names)
            show(value, views.applied(value), session.output)
            return
        done = _applied(
            session, client, store, branch, list(planned["basis"]["revisions"]) if planned else []
        )
    show(done, [*views.summary(done), *words.counts(done, explain)], session.output)
    raise typer.Exit(0 if done["state"] in failures.FINE else failures.ERROR)


def _applied(
    session: Session,
    client: Headgate,
    store: Callable[[Headgate], ApplyAnswer],
    branch: str,
    stored: list[str],
) -> RunAnswer:
    """Apply, wait, and answer as `run` does. `stored`: the dataflows of a plan, for one that stores
    nothing new."""
    import sys

    from controlplane.cli import once, service_run, service_target
    from controlplane.cli.progress import ProgressDisplay

    service = session.require_loop()
    service_target.say(service)
    since = client.run_progress(branch=branch)["since"]
    flows = list(store(client)["revisions"]) or stored
    with ProgressDisplay(sys.stderr) as progress:
        outcome = service_run.Waiting(service, client, branch, progress.show).settled(flows, since)
    return once.answer(outcome, spark_started=outcome["spark_started"], since=session.started)


@command
def delete(
    dataflow: Annotated[str, typer.Argument(metavar="DATAFLOW", show_default=False)],
    revision: Annotated[
        int | None, typer.Option(min=1, help="Only if the dataflow is at this revision.")
    ] = None,
    override: options.Override = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """End a dataflow. What it computed stays."""
    return ask(
        lambda client: client.delete(dataflow, branch=branch, revision=revision, override=override),
        views.fields,
    )


def wait(
    ctx: typer.Context,
    target: options.Target = None,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Wait until all is made, or nothing can go on. Exits with 0 if all is up to date, paused or
    held."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        value = settled(session, client, target, branch)
    show(value, views.status(value), session.output)
    raise typer.Exit(0 if value["state"] in failures.FINE else failures.ERROR)


def settled(session: Session, client: Headgate, target: str | None, branch: str) -> StatusAnswer:
    """The status once nothing of it moves any more; looked at again at each event."""
    value = client.status(target, branch=branch)
    if not moves(value):
        return value
    service = session.require_service()
    from httpx2 import TransportError

    from controlplane.cli.service_run import ended

    with suppress(TransportError):
        for _ in client.events(branch=branch):
            value = client.status(target, branch=branch)
            if not moves(value):
                return value
    raise ended(service)


def moves(value: StatusAnswer) -> bool:
    things = [t for flow in value["dataflows"] for t in (*flow["datasets"], *flow["targets"])]
    held = [
        d
        for flow in value["dataflows"]
        for d in flow["datasets"]
        if d["state"] == "held" and d["table"]
    ]
    is_following = any(d["published_generation"] < d["generation"] for d in held)
    return is_following or any(t["state"] in MOVING for t in things)


def refresh(
    ctx: typer.Context,
    target: options.Target = None,
    accept_deletes: options.AcceptDeletes = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compute the target again, also where its result is known."),
    ] = False,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="KEY", help="With --force: only partitions from this key."),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--to", metavar="KEY", help="With --force: only partitions up to this key."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Infer the columns of its sources again.")
    ] = False,
    timeout: options.Timeout = options.LISTED_S,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """List sources now, and show the changes there; with --force, compute the target again; with
    --schema, infer columns again."""
    session = options.session(ctx, output)
    has_range = first is not None or last is not None
    if has_range and not force:
        raise typer.BadParameter("--from and --to are of --force")
    partitions = (first or "", last) if has_range else None
    how = {"accept_deletes": accept_deletes, "force": force, "schema": schema}
    with session.connect_to_list(home, timeout or None) as (client, timeout_s):
        value = client.refresh(
            target, branch=branch, partitions=partitions, wait_s=timeout_s or 0.0, **how
        )
    show(value, source_views.refreshed(value), session.output)


@command
def retry(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="DATAFLOW[.DATASET[/PARTITION]]",
            autocompletion=completion.datasets,
            help="Everything by default. Of a partition, nothing upstream of it is tried.",
            show_default=False,
        ),
    ] = None,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Try failed work again."""
    name, slash, partition = (target or "").partition("/")
    return ask(
        lambda client: with_stored_key(
            lambda key: client.retry(name or None, branch=branch, partition=key),
            partition if slash else None,
        ),
        views.fields,
    )


@command
def pause(target: options.Target = None, branch: options.Branch = "main") -> ClientRequest:
    """Start no more work; committed rows stay readable."""
    return ask(lambda client: client.pause(target, branch=branch), views.fields)


@command
def resume(target: options.Target = None, branch: options.Branch = "main") -> ClientRequest:
    """Take back a pause, and let datasets that were rolled back go on."""
    return ask(lambda client: client.resume(target, branch=branch), views.fields)


COMMANDS: Commands = {
    "apply": apply,
    "delete": delete,
    "wait": wait,
    "refresh": refresh,
    "retry": retry,
    "pause": pause,
    "resume": resume,
}
