"""Sorting more than fits into memory: sorted runs in temporary files, merged as they are read."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import groupby, islice
from tempfile import TemporaryFile
from typing import IO, TypeAlias

HELD = 100_000  # records in memory at a time: some 30 MB

Record: TypeAlias = tuple[str, ...]


def sorted_unique(records: Iterable[Record], held: int = HELD) -> Generator[Record, None, None]:
    """The distinct records by the code points of their texts, which is the order of their UTF-8
    bytes."""
    source = iter(records)
    with ExitStack() as files:
        runs = [sorted(islice(source, held))]
        spilled = [
            _spilled(run, files.enter_context(TemporaryFile("w+"))) for run in _runs(source, held)
        ]
        for record, _ in groupby(merge(*runs, *spilled)):
            yield record


def _runs(source: Iterator[Record], held: int) -> Iterator[list[Record]]:
    while run := sorted(islice(source, held)):
        yield run


def _spilled(run: Iterable[Record], file: IO[str]) -> Iterator[Record]:
    """The run as it is read back from the file, line by line."""
    file.writelines(f"{json.dumps(record)}\n" for record in run)
    file.seek(0)
    return (tuple(json.loads(line)) for line in file)
