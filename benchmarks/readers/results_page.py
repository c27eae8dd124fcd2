"""The table of results and the list of gaps, as lines of `docs/readers.md`.

Does not belong here: reading, and the examples of the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.pages import ROOT
from benchmarks.readers.comparison import WHOLE
from benchmarks.readers.gaps import Cell, Gap, Matrix, number_of
from benchmarks.readers.service import STATES

RESULTS = ROOT / "benchmarks" / "results" / "readers.json"
MARK = "readers"


def matrix_of(result: Mapping[str, Any]) -> Matrix:
    """The cells of a result as it is stored."""
    return {
        Cell(cell["engine"], cell["way"], cell["state"]): cell["differences"]
        for cell in result["cells"]
    }


def merged(
    matrix: Matrix,
    versions: Mapping[str, str],
    machine: Mapping[str, Any],
    before: Sequence[Mapping[str, Any]],
) -> Mapping[str, Any]:
    """A result as it is stored, with the cells of engines that were not read this time."""
    known = {} if not before else before[-1]
    kept = [cell for cell in known.get("cells", ()) if cell["engine"] not in versions]
    cells = [
        {**cell._asdict(), "differences": {name: list(parts) for name, parts in changed.items()}}
        for cell, changed in matrix.items()
    ]
    every = {**known.get("versions", {}), **versions}
    return {**machine, "versions": every, "cells": [*kept, *cells]}


def lines(result: Mapping[str, Any], gaps: Sequence[Gap]) -> list[str]:
    """Rows are equal, with their types, or a number names the gap below."""
    matrix = matrix_of(result)
    cells = len(matrix)
    equal = sum(1 for differences in matrix.values() if not differences)
    return [
        f"{equal} of {cells} reads have equal rows and types. The others have gaps, by their numbers.",
        "",
        f"| engine | versions | way | {' | '.join(STATES)} |",
        f"|---|---|---|{'---|' * len(STATES)}",
        *_rows(matrix, result["versions"], gaps),
        "",
        "| gap | engine | columns | reason |",
        "|---|---|---|---|",
        *_gaps(gaps),
        "",
        "The last run was on {at}, commit {commit}, Python {python}, {java}.".format(**result),
    ]


def _rows(matrix: Matrix, versions: Mapping[str, str], gaps: Sequence[Gap]) -> Iterator[str]:
    rows = dict.fromkeys((cell.engine, cell.way) for cell in matrix)
    for engine, way in rows:
        marks = [_mark(matrix, Cell(engine, way, state), gaps) for state in STATES]
        yield f"| {' | '.join((engine, versions[engine], way, *marks))} |"


def _mark(matrix: Matrix, cell: Cell, gaps: Sequence[Gap]) -> str:
    numbers = {number_of(cell, column, gaps) for column in matrix[cell]}
    if None in numbers:
        return "unnamed"
    return ", ".join(map(str, sorted(filter(None, numbers)))) or "equal"


def _gaps(gaps: Sequence[Gap]) -> Iterator[str]:
    for number, gap in enumerate(gaps, 1):
        columns = "all" if WHOLE in gap.columns else ", ".join(f"`{name}`" for name in gap.columns)
        yield f"| {number} | {gap.engine} | {columns} | {gap.reason} |"
