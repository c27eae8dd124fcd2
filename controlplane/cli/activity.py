"""Commands that show work: runs, tasks, logs. They change nothing."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, work_views
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import is_fancy, printable, show

if TYPE_CHECKING:
    from controlplane.cli.output import View
    from controlplane.client import Headgate
    from controlplane.core.model.answers.spending import CostAnswer


class CostTable(StrEnum):
    """What the rows of the table are."""

    dataflow = "dataflow"
    component = "component"
    owner = "owner"
    day = "day"


ATTEMPT = re.compile(r"[0-9a-f]{32}")
FOLLOW_S = 1.0  # between looks at a log that is followed
Shown = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")]


@command
def runs(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[DATAFLOW[.DATASET] | RUN]", help="Everything by default."),
    ] = None,
    limit: Shown = 20,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show runs, the last ones first: what started each, how far it got, what it took; or one with
    its steps."""
    if target is not None and work_views.is_run(target):
        run = target
        return ask(lambda client: client.past_run(run, branch=branch), work_views.run)
    return ask(lambda client: client.runs(target, branch=branch, limit=limit), work_views.runs)


@command
def cost(
    target: Annotated[
        str | None, typer.Argument(metavar="[DATAFLOW[.DATASET]]", help="Everything by default.")
    ] = None,
    by: Annotated[CostTable, typer.Option("--by", help="Rows of the table.")] = CostTable.component,
    days: Annotated[int, typer.Option(min=1, max=30, help="Today and the days before it.")] = 7,
    limit: Shown = 20,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show what work cost, and what did not have to run: seconds, bytes and tasks of the last
    days."""
    return ask(
        lambda client: client.cost(target, branch=branch, days=days, limit=limit),
        lambda answer: _cost_view(answer, by),
    )


def _cost_view(answer: CostAnswer, by: CostTable) -> View:
    from controlplane.cli import cost_views

    return cost_views.cost(answer, by.value)


@command
def tasks(
    dataset: options.Dataset,
    ended: Annotated[
        bool, typer.Option("--ended", help="Attempts that are over, the last ones first.")
    ] = False,
    limit: Shown = 20,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show the tasks that a dataset asks for, or attempts at them that are over."""
    if ended:
        return ask(
            lambda client: client.attempts(dataset, branch=branch, limit=limit),
            lambda value: work_views.attempts(value["items"]),
        )
    return ask(lambda client: client.tasks(dataset, branch=branch, limit=limit), work_views.tasks)


def logs(
    ctx: typer.Context,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[ATTEMPT | DATAFLOW.DATASET]",
            help="An attempt, or a dataset: its newest attempt. All are listed by default.",
            show_default=False,
        ),
    ] = None,
    driver: Annotated[
        str | None, typer.Option("--driver", help="A driver or worker, as `status` names it.")
    ] = None,
    tail: Annotated[
        int, typer.Option("--tail", "-n", min=1, max=10_000, help="How many lines at most.")
    ] = 200,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is said from now on.")
    ] = False,
    home: options.Home = None,
    branch: options.Branch = "main",
) -> None:
    """Show the last lines about an attempt, or list logs. A dataset stands for its newest attempt;
    without a name, the newest attempt of each dataset is listed. --driver shows all lines."""
    if subject is not None and driver is not None:
        raise typer.BadParameter("name an attempt or a dataset, or a driver", param_hint="--driver")
    session = options.session(ctx)
    with session.connect(home) as client:
        if subject is None and driver is None:
            status = client.status(branch=branch, long=True)
            show(status, work_views.newest_attempts(status), session.output)
            return
        read = _reader(client, subject, driver, branch, tail)
        for text in _followed(read) if follow else (read(),):
            _write(text)


def _reader(
    client: Headgate, subject: str | None, driver: str | None, branch: str, tail: int
) -> Callable[[], str]:
    if driver is not None:
        return lambda: client.driver_log(driver, tail=tail)
    assert subject is not None
    if ATTEMPT.fullmatch(subject) or "." not in subject:
        return lambda: client.log(subject, tail=tail)
    return lambda: client.dataset_log(subject, branch=branch, tail=tail)


def _followed(read: Callable[[], str]) -> Iterator[str]:
    """The log as it is, then each new part of it, until Ctrl-C."""
    before: list[str] = []
    while True:
        now = read().splitlines(keepends=True)
        yield "".join(now[overlap(before, now) :])
        before = now
        time.sleep(FOLLOW_S)


def overlap(before: list[str], now: list[str]) -> int:
    """How many lines of `now` were there before: the longest end of `before` that `now` begins
    with."""
    longest = min(len(before), len(now))
    return next((n for n in range(longest, 0, -1) if before[-n:] == now[:n]), 0)


def _write(text: str) -> None:
    if is_fancy(sys.stdout):
        text = "".join(f"{printable(line.expandtabs())}\n" for line in text.splitlines())
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


COMMANDS: Commands = {"runs": runs, "cost": cost, "tasks": tasks, "logs": logs}
