"""The command that opens, lists and ends Spark Connect sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options, views
from controlplane.cli.command import ClientRequest, Commands, ask, command, do
from controlplane.cli.links import seconds
from controlplane.cli.output import Lines, TextTable, View

if TYPE_CHECKING:
    from controlplane.core.model.answers.spark_sessions import (
        NewSparkSessionAnswer,
        SparkSessionEntry,
    )

SHOWN_VIEWS = 10
KEPT = "which would keep the session"  # by a service
CLIENT = 'pip install "headgate[connect]"'

Datasets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DATASET[@AT]]...",
        help="Datasets as views, also shop.*; all by default.",
        show_default=False,
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Datasets as they were at this time, such as 2026-11-24T07:00Z."
    ),
]
Expires = Annotated[
    str, typer.Option(metavar="TIME", help="When it ends at the latest: 30m or 8h from now.")
]
Listing = Annotated[bool, typer.Option("--list", help="List the sessions that are open instead.")]
End = Annotated[
    str | None,
    typer.Option("--end", metavar="ID", help="End this session instead.", show_default=False),
]


@command
def connect(
    datasets: Datasets = None,
    at: At = None,
    expires: Expires = "1h",
    is_list: Listing = False,
    end: End = None,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Open a Spark Connect session with datasets as views, and print the lines that a notebook
    connects with."""
    ttl_s = seconds(expires)
    if end is not None:
        session = end
        return do(
            lambda client: client.end_spark_session(session), {"ended": end}, needs_service=KEPT
        )
    if is_list:
        return ask(lambda client: client.spark_sessions(), _all, needs_service=KEPT)
    return ask(
        lambda client: client.open_spark_session(datasets or (), branch=branch, at=at, ttl_s=ttl_s),
        _opened,
        needs_service=KEPT,
    )


def _opened(value: NewSparkSessionAnswer) -> View:
    names = [f"`{view['name']}`" for view in value["views"]]
    others = f" and {len(names) - SHOWN_VIEWS} more" if len(names) > SHOWN_VIEWS else ""
    example = [f'spark.table("{names[0]}").show()'] if names else []
    notes = (
        f"views: {', '.join(names[:SHOWN_VIEWS]) or 'none, as nothing has data'}{others}, as they are now",
        f"session {value['id']} ends at {views.time_of(value['expires'])}, or by headgate connect --end {value['id']}",
        f"the client needs pyspark[connect]: {CLIENT}",
    )
    forward = [Lines((f"# beside it: {value['forward']}",))] if value["forward"] else []
    return [*forward, Lines((*value["python"].splitlines(), *example)), Lines(notes)]


def _all(items: Sequence[SparkSessionEntry]) -> View:
    columns = ("id", "branch", "by", "opened", "ends", "views")
    rows = tuple(
        (
            i["id"],
            i["branch"],
            i["by"],
            views.time_of(i["at"]),
            views.time_of(i["expires"]),
            len(i["views"]),
        )
        for i in items
    )
    return [TextTable(columns, rows)]


COMMANDS: Commands = {"connect": connect}
