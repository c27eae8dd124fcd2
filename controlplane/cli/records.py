"""Commands that write rows: records of one generation, and changes between two."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO
from uuid import uuid4

import typer

from controlplane.cli import options
from controlplane.cli.command import Commands
from controlplane.cli.partition_keys import with_stored_key
from controlplane.core.records.requested_columns import names_of


class Format(StrEnum):
    """How records are written."""

    json = "json"
    ndjson = "ndjson"
    csv = "csv"
    arrow = "arrow"
    parquet = "parquet"


class ChangeFormat(StrEnum):
    """How changes are written."""

    ndjson = "ndjson"
    csv = "csv"
    arrow = "arrow"
    parquet = "parquet"


class Compression(StrEnum):
    """Compression inside Arrow and Parquet."""

    none = "none"
    gzip = "gzip"
    zstd = "zstd"
    lz4 = "lz4"
    snappy = "snappy"


Partition = Annotated[str | None, typer.Option(help="Only this partition.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="These columns, in this order; all by default."),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help="Rows of which it is true (docs/records.md)."),
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="How many at most.")]
Compressed = Annotated[Compression | None, typer.Option(help="Of Arrow and Parquet.")]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output-file", help="Write here, once it is whole; else to standard output."),
]


def records(
    ctx: typer.Context,
    dataset: options.DatasetAt,
    format: Annotated[Format, typer.Option(help="Form of the records.")] = Format.json,
    columns: Columns = None,
    where: Where = None,
    partition: Partition = None,
    offset: Annotated[int, typer.Option(min=0, help="How many to leave out first.")] = 0,
    limit: Limit = None,
    generation: Annotated[
        int | None,
        typer.Option(min=1, help="An earlier generation; the same as DATASET@GENERATION."),
    ] = None,
    compression: Compressed = None,
    output_file: OutputFile = None,
    home: options.Home = None,
    branch: options.Branch = "main",
) -> None:
    """Write records of a dataset, all by default."""
    session = options.session(ctx)
    with session.connect(home) as client, ExitStack() as stack:
        parts = with_stored_key(
            lambda key: stack.enter_context(
                client.records(
                    dataset,
                    branch=branch,
                    format=format.value,
                    partition=key,
                    generation=generation,
                    columns=names_of(columns or ()),
                    where=where,
                    offset=offset or None,
                    limit=limit,
                    compression=None if compression is None else compression.value,
                )
            ),
            partition,
        )
        out = stack.enter_context(_target(output_file))
        for part in parts:
            out.write(part)


def changes(
    ctx: typer.Context,
    dataset: options.Dataset,
    since: Annotated[
        str,
        typer.Option(
            help="A generation or a time; 0: from nothing, so that all rows are added.",
            show_default=False,
        ),
    ],
    until: Annotated[
        str | None, typer.Option(help="A generation or a time; the newest by default.")
    ] = None,
    format: Annotated[
        ChangeFormat, typer.Option(help="Form of the changes.")
    ] = ChangeFormat.ndjson,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B", help="Compare rows by these columns, and write them; by default all."
        ),
    ] = None,
    where: Where = None,
    compression: Compressed = None,
    output_file: OutputFile = None,
    home: options.Home = None,
    branch: options.Branch = "main",
) -> None:
    """Write the rows that were added to a dataset and removed from it. The last line on standard
    error says from where to go on."""
    session = options.session(ctx)
    with (
        session.connect(home) as client,
        client.changes(
            dataset,
            since=since,
            until=until,
            branch=branch,
            format=format.value,
            columns=names_of(columns or ()),
            where=where,
            compression=None if compression is None else compression.value,
        ) as stream,
    ):
        with _target(output_file) as out:
            for part in stream.parts:
                out.write(part)
        sys.stderr.write(f"up to generation {stream.until}; go on with --since {stream.until}\n")


@contextmanager
def _target(path: Path | None) -> Iterator[BinaryIO]:
    """A file that is there once it is whole; what fails leaves the one before."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        with part.open("xb") as out:
            yield out
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


COMMANDS: Commands = {"records": records, "changes": changes}
