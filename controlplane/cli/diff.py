"""Commands that compare data: two branches, or two generations of a dataset."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import completion, diff_views, options
from controlplane.cli.command import Commands
from controlplane.cli.output import show

if TYPE_CHECKING:
    from controlplane.client import Headgate
    from controlplane.core.model.answers import BranchDifference, DataDifference

COMPARED_S = 120.0
MOST_DATASETS = 20  # whose rows are compared by one command
Rows = Annotated[bool, typer.Option("--rows", help="Also compare rows of partitions that differ.")]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns that pair rows, as in day,city; implies --rows. By default the columns that"
        " the dataset expects to be unique, else those that did not change.",
    ),
]
Partition = Annotated[str | None, typer.Option(help="Only this partition.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=1, max=3600, help="Seconds to wait at most for the rows of one dataset."
    ),
]


def diff(
    ctx: typer.Context,
    first: Annotated[
        str,
        typer.Argument(
            metavar="DATAFLOW.DATASET[@POINT]",
            show_default=False,
            autocompletion=completion.datasets,
        ),
    ],
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATAFLOW.DATASET[@POINT]]", help="By default the newest generation."
        ),
    ] = None,
    rows: Rows = False,
    key: Key = None,
    partition: Partition = None,
    timeout: Timeout = COMPARED_S,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Show how two generations of a dataset differ: columns, partitions and, with --rows, rows.
    POINT is a generation (shop.totals@3) or a time with its zone
    (shop.totals@2026-11-24T07:00Z)."""
    from controlplane.core.model import addresses

    session = options.session(ctx, output)
    before, after = addresses.parse(first), addresses.parse(other or first.partition("@")[0])
    if before.name != after.name:
        raise typer.BadParameter("both have to be of one dataset", param_hint="DATAFLOW.DATASET")
    points = [None if address.point is None else str(address.point) for address in (before, after)]
    with session.connect(home) as client:
        value = client.diff_dataset(
            before.name,
            one=points[0],
            other=points[1],
            branch=branch,
            partition=partition,
            rows_s=timeout if rows or key else None,
            key=_columns(key),
        )
    if session.output == "md":
        sys.stdout.write(diff_views.dataset_comment(value))
    else:
        show(value, diff_views.dataset(value), session.output)


def branch_diff(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="BRANCH", show_default=False)],
    other: Annotated[str, typer.Argument(metavar="OTHER", show_default=False)],
    dataset: Annotated[
        str | None, typer.Option(metavar="DATAFLOW.DATASET", help="Only this dataset.")
    ] = None,
    rows: Rows = False,
    key: Key = None,
    partition: Partition = None,
    timeout: Timeout = COMPARED_S,
    home: options.Home = None,
    output: options.As = options.OutputForm.table,
) -> None:
    """Show how two branches differ: texts, datasets and partitions; with --rows also rows and
    columns of each dataset that differs."""
    session = options.session(ctx, output)
    if dataset is None and (key or partition):
        raise typer.BadParameter(
            "--key and --partition are of one dataset: add --dataset DATAFLOW.DATASET"
        )
    with session.connect(home) as client:
        rows_s = timeout if rows or key else None
        if dataset is not None:
            difference = client.diff_dataset(
                dataset,
                branch=first,
                onto=other,
                partition=partition,
                rows_s=rows_s,
                key=_columns(key),
            )
            _show_dataset(difference, session.output)
            return
        value = client.diff_branches(first, other)
        data = [] if rows_s is None else _data(client, value, rows_s)
    if session.output == "md":
        sys.stdout.write(diff_views.comment(value, data))
    else:
        with_data = {**value, "data": data} if rows else value
        show(with_data, [*diff_views.branches(value), *diff_views.data(data)], session.output)


def _show_dataset(value: DataDifference, output: str) -> None:
    if output == "md":
        sys.stdout.write(diff_views.dataset_comment(value))
    else:
        show(value, diff_views.dataset(value), options.OutputForm(output).value)


def _columns(key: str | None) -> list[str]:
    return [name.strip() for name in key.split(",")] if key else []


def _data(client: Headgate, value: BranchDifference, rows_s: float) -> list[diff_views.Data]:
    """Compare the rows of each dataset that differs, up to MOST_DATASETS. A dataset that cannot be
    compared has a problem."""
    from controlplane.client import ApiError

    differences: list[diff_views.Data] = []
    changed = [each["dataset"] for each in value["datasets"] if each["state"] != "equal"]
    for name in changed[:MOST_DATASETS]:
        try:
            data = client.diff_dataset(
                name, branch=value["one"], onto=value["other"], rows_s=rows_s
            )
            differences.append({"dataset": name, "difference": data, "problem": None})
        except ApiError as error:
            if error.code not in ("not-compared", "unavailable"):
                raise
            differences.append({"dataset": name, "difference": None, "problem": str(error)})
    return differences


COMMANDS: Commands = {"diff": diff}
