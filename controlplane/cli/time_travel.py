"""Commands about states of the past: the partitions of a generation, and which generations go
together."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import options
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import Lines, TextTable, View, partition_name

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        DatasetGeneration,
        GenerationsAnswer,
        PartitionsAnswer,
    )

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")]


class PartitionWork(StrEnum):
    """Work on a partition."""

    to_do = "to_do"
    failed = "failed"


@command
def partitions(
    dataset: options.DatasetAt,
    limit: Limit = 20,
    after: Annotated[str | None, typer.Option(help="Those behind this key.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Those whose keys begin so.")] = None,
    state: Annotated[
        PartitionWork | None, typer.Option(help="Those with work to do, or with a failed task.")
    ] = None,
    changed_in: Annotated[
        int | None, typer.Option(min=1, help="What this generation added, changed, removed.")
    ] = None,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show the partitions of a dataset, in order of their keys."""
    return ask(
        lambda client: client.partitions(
            dataset,
            branch=branch,
            after=after,
            limit=limit,
            prefix=prefix,
            state=None if state is None else state.value,
            changed_in=changed_in,
        ),
        _partitions,
    )


@command
def generations(
    dataflow: Annotated[
        str,
        typer.Argument(
            metavar="DATAFLOW[@TIME]",
            help="TIME is as 2026-11-24T07:00Z; now by default.",
            show_default=False,
        ),
    ],
    consistent: Annotated[
        bool,
        typer.Option("--consistent", help="The newest by then that were made of the same sources."),
    ] = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show which generation each dataset of a dataflow has, or had at a time."""
    return ask(
        lambda client: client.generations(dataflow, branch=branch, consistent=consistent),
        _generations,
    )


def _partitions(value: PartitionsAnswer) -> View:
    words = [item.get("change") or item.get("work") for item in value["items"]]
    columns = ["partition", "rows", "bytes"]
    rows = [(partition_name(i["partition"]), i["rows"], i["bytes"]) for i in value["items"]]
    if any(words):
        columns.append("what")
    shown = tuple(
        (*row, word) if any(words) else row for row, word in zip(rows, words, strict=True)
    )
    next_page = [] if value["next"] is None else [Lines((f"more: --after {value['next']!r}",))]
    return [TextTable(tuple(columns), shown, f"generation {value['generation']}"), *next_page]


def _generations(value: GenerationsAnswer) -> View:
    rows = tuple(_generation(item) for item in value["items"])
    summary = "all are made of the same sources"
    if not value["consistent"]:
        summary = "not all are made of the same sources: --consistent steps back to those that are"
    return [TextTable(("dataset", "at", "partitions", "rows"), rows), Lines((summary,))]


def _generation(item: DatasetGeneration) -> tuple[str, str, int | None, int | None]:
    """With its address, and its time to the millisecond: both can be read again."""
    if item["generation"] is None or item["at"] is None:
        state = "no data then" if item["found"] == "none" else "not kept any more"
        return item["dataset"], state, None, None
    return f"{item['dataset']}@{item['generation']}", item["at"], item["partitions"], item["rows"]


COMMANDS: Commands = {"partitions": partitions, "generations": generations}
