"""Results of expectations for pages: shares, rows that fail as a table, and a line over
generations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.core.model.answers import ChecksAnswer
from controlplane.core.model.answers.datasets import CheckPoint
from controlplane.core.model.check_results import CheckResult, Example
from controlplane.core.model.json_values import JsonObject
from controlplane.ui.sparklines import Sparkline, sparkline

ROWS: Final = 20
COLUMNS: Final = 30


@dataclass(frozen=True, slots=True)
class FailingRow:
    """`cells` by column; None where the row was too long to be kept: then `text` is its begin."""

    partition: str | None
    cells: JsonObject | None
    text: str


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """`share`: of the rows that fail, where both numbers are known. `points` and `line`: over
    generations."""

    check: CheckResult
    is_rejected: bool
    share: float | None
    columns: list[str]
    rows: list[FailingRow]
    points: Sequence[CheckPoint]
    line: Sparkline | None


def shown_checks(
    answer: ChecksAnswer, points: Mapping[str, Sequence[CheckPoint]]
) -> list[ShownCheck]:
    """Checks of rows that did not become a generation come first."""
    every = [(True, check) for check in answer["rejected"]]
    every += [(False, check) for check in answer["items"]]
    return [_shown(check, is_rejected, points) for is_rejected, check in every]


def _shown(
    check: CheckResult, is_rejected: bool, points: Mapping[str, Sequence[CheckPoint]]
) -> ShownCheck:
    rows = [_row(example) for example in check["examples"][:ROWS]]
    names = (name for row in rows for name in row.cells or ())
    own = points.get(check["name"], ())
    shares = [point["failing"] / max(1, point["rows"]) for point in own]
    above = [share > check["threshold"] for share in shares]
    return ShownCheck(
        check,
        is_rejected=is_rejected,
        share=share_of(check),
        columns=list(dict.fromkeys(names))[:COLUMNS],
        rows=rows,
        points=own,
        line=sparkline(shares, above),
    )


def share_of(check: CheckResult) -> float | None:
    """The share of failing rows: 0.42 for `8 of 19 rows`. None where it is not known."""
    if check["failing"] is None or not check["rows"]:
        return None
    return check["failing"] / check["rows"]


def _row(example: Example) -> FailingRow:
    try:
        cells = json.loads(example["row"])
    except ValueError:
        cells = None
    is_row = isinstance(cells, dict)
    return FailingRow(example["partition"], cells if is_row else None, example["row"])
