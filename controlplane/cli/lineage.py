"""The command that shows where a dataset comes from, and what depends on it. Changes nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from controlplane.cli import lineage_views, options
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.partition_keys import with_stored_key

Column = Annotated[str | None, typer.Option("--column", "-c", help="Only this column.")]
Downstream = Annotated[
    bool,
    typer.Option(
        "--downstream", "--impact", help="What depends on it, in place of what it comes from."
    ),
]
Object = Annotated[
    str | None,
    typer.Option(
        "--object",
        help="The partitions that rows of this source object are in; of a read component.",
    ),
]
Generation = Annotated[
    int | None, typer.Option(min=1, help="An earlier generation; the same as DATASET@GENERATION.")
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many links at most.")
]


@command
def lineage(
    target: options.PartitionAt,
    column: Column = None,
    downstream: Downstream = False,
    object: Object = None,
    generation: Generation = None,
    limit: Limit = 1_000,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show where the columns and partitions of a dataset come from, up to source objects; or what
    depends on them."""
    dataset, slash, partition = target.partition("/")
    return ask(
        lambda client: with_stored_key(
            lambda key: client.lineage(
                dataset,
                column=column,
                partition=key,
                generation=generation,
                direction="downstream" if downstream or object is not None else "upstream",
                object=object,
                branch=branch,
                limit=limit,
            ),
            partition if slash else None,
        ),
        lineage_views.lineage,
    )


COMMANDS: Commands = {"lineage": lineage}
