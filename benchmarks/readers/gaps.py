"""Gaps that are expected, as `gaps.toml` names them: which an engine shows, and which not any more.

Does not belong here: finding differences.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.readers.comparison import WHOLE, Differences

FILE = Path(__file__).with_name("gaps.toml")
NO_EXAMPLE = "no call for this state"


class Cell(NamedTuple):
    """A read of the matrix."""

    engine: str
    way: str
    state: str


@dataclass(frozen=True)
class Gap:
    """Differences of columns that an engine is expected to show in cells, and why. `findings`: the
    beginnings of their words; each cell shows one of them or more."""

    engine: str
    ways: Sequence[str]
    findings: Sequence[str]
    reason: str
    columns: Sequence[str] = (WHOLE,)
    states: Sequence[str] = ("newest", "generation", "time", "branch")

    def covers(self, cell: Cell, column: str) -> bool:
        return (
            cell.engine == self.engine
            and cell.way in self.ways
            and cell.state in self.states
            and column in self.columns
        )


Matrix = Mapping[Cell, Differences]


def expected_gaps(file: Path = FILE) -> list[Gap]:
    return [Gap(**entry) for entry in tomllib.loads(file.read_text())["gap"]]


def number_of(cell: Cell, column: str, gaps: Sequence[Gap]) -> int | None:
    """Of the gap that names a difference, from 1."""
    for number, gap in enumerate(gaps, 1):
        if gap.covers(cell, column):
            return number
    return None


def problems(matrix: Matrix, gaps: Sequence[Gap]) -> list[str]:
    """Differences that no gap names, and gaps that are closed."""
    return [*_unnamed(matrix, gaps), *_closed(matrix, gaps)]


def _unnamed(matrix: Matrix, gaps: Sequence[Gap]) -> Iterator[str]:
    for cell, differences in matrix.items():
        for column, findings in differences.items():
            number = number_of(cell, column, gaps)
            named = () if number is None else tuple(gaps[number - 1].findings)
            for finding in findings:
                if not finding.startswith(named):
                    yield f"{', '.join(cell)}: {column}: {finding}"


def _closed(matrix: Matrix, gaps: Sequence[Gap]) -> Iterator[str]:
    for cell, differences in matrix.items():
        for gap in gaps:
            covered = [column for column in gap.columns if gap.covers(cell, column)]
            if WHOLE in differences and WHOLE not in gap.columns:
                continue  # no column was read
            for column in covered:
                if column not in differences:
                    yield f"{', '.join(cell)}: the gap of {column} is closed: {gap.reason}"
