"""Commands to explore a service: search, the graph, waves, ranges of partitions, one partition.

They change nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from controlplane.cli import completion, explore_views, options
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.partition_keys import with_stored_key

Steps = Annotated[
    int, typer.Option(min=0, max=1000, help="Steps from the dataset that --around names.")
]


class Collapse(StrEnum):
    """Nodes that are drawn as one."""

    flow = "flow"
    tag = "tag"


@command
def search(
    words: Annotated[
        list[str],
        typer.Argument(
            help="All have to be found. col:, tag:, owner:, state: and is: before a word say where.",
            show_default=False,
        ),
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many at most.")
    ] = 20,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Find datasets by words in names, columns, descriptions, tags and owners, or by the beginning
    of a partition."""
    return ask(
        lambda client: client.search(
            " ".join(f'"{word}"' if " " in word else word for word in words),
            branch=branch,
            limit=limit,
        ),
        explore_views.search,
    )


@command
def graph(
    dataflow: Annotated[
        str | None, typer.Argument(help="All by default.", show_default=False)
    ] = None,
    around: Annotated[
        str | None, typer.Option(metavar="DATAFLOW.DATASET", help="Only what is near this.")
    ] = None,
    up: Steps = 2,
    down: Steps = 2,
    collapse: Annotated[
        Collapse | None, typer.Option(help="Show what has the same dataflow or tag as one.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many datasets at most.")
    ] = 300,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show datasets, how they read each other, and how each stands."""
    return ask(
        lambda client: client.graph(
            dataflow,
            around=around,
            up=up,
            down=down,
            collapse=None if collapse is None else collapse.value,
            branch=branch,
            limit=limit,
        ),
        explore_views.graph,
    )


@command
def waves(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="DATAFLOW | WAVE", help="A dataflow, or the id of one wave.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100, help="How many at most.")
    ] = 20,
    before: Annotated[str | None, typer.Option(help="Those before this wave.")] = None,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show what each late file, edit or request led to, latest first; or the commits of one, and
    what it left."""
    if which is not None and "." in which:
        wave = which
        return ask(lambda client: client.wave(wave, branch=branch), explore_views.wave)
    return ask(
        lambda client: client.waves(which, before=before, limit=limit, branch=branch),
        explore_views.waves,
    )


@command
def ranges(
    dataset: options.DatasetAt,
    against: Annotated[
        str | None, typer.Option(metavar="AT", help="Which differ from this generation or time.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--from", help="`after` of a range, to look into it.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="`last` of a range, to look into it.")
    ] = None,
    cells: Annotated[int, typer.Option(min=1, max=2_000, help="How many ranges at most.")] = 20,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show the partitions of a dataset as ranges of their keys, however many there are; and which
    of them differ."""
    point = int(against) if against is not None and against.isdecimal() else against
    return ask(
        lambda client: client.ranges(
            dataset, against=point, after=after, last=last, cells=cells, branch=branch
        ),
        explore_views.ranges,
    )


@command
def partition(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DATAFLOW.DATASET[@AT]/PARTITION",
            show_default=False,
            autocompletion=completion.datasets,
        ),
    ],
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show one partition: its files, the attempt that wrote it, its inputs, and the partitions that
    read it."""
    dataset, _, key = target.partition("/")
    return ask(
        lambda client: with_stored_key(
            lambda typed: client.partition(dataset, typed or "", branch=branch), key
        ),
        explore_views.partition,
    )


COMMANDS: Commands = {
    "search": search,
    "graph": graph,
    "waves": waves,
    "ranges": ranges,
    "partition": partition,
}
