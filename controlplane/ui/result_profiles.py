"""A profile of a query's result: counts of each column over the rows that were read."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from typing_extensions import TypedDict

from controlplane.core.model.answers.queries import QueryColumnAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.ui.query_values import number_in, type_kind

ROWS: Final = 10_000  # that a profile looks at
TOP = 3  # values


class CommonValue(TypedDict):
    """The text of a value, and in how many rows it is."""

    text: str
    rows: int


class ResultColumnProfile(TypedDict):
    """`distinct`: values that are not NULL. `min`, `max`, `mean`: without NaN and infinite numbers.
    `mean`: of numbers alone. `top`: the most common values, where one comes twice."""

    name: str
    type: str
    nulls: int
    distinct: int
    min: str | None
    max: str | None
    mean: float | None
    top: list[CommonValue]


def of_rows(
    columns: Sequence[QueryColumnAnswer], rows: Sequence[Sequence[JsonValue]]
) -> list[ResultColumnProfile]:
    """A profile of each column, in their order."""
    return [_column(column, [row[place] for row in rows]) for place, column in enumerate(columns)]


def _column(column: QueryColumnAnswer, cells: Sequence[JsonValue]) -> ResultColumnProfile:
    present = [cell for cell in cells if cell is not None]
    numbers = _numbers(column, present)
    texts = Counter(map(_text, present))
    bounds = _bounds(column, present, numbers)
    return {
        "name": column["name"],
        "type": column["type"],
        "nulls": len(cells) - len(present),
        "distinct": len(texts),
        "min": bounds[0] if bounds else None,
        "max": bounds[1] if bounds else None,
        "mean": statistics.mean(numbers) if numbers else None,  # whose sum is beyond no float
        "top": [
            CommonValue(text=text, rows=rows) for text, rows in texts.most_common(TOP) if rows > 1
        ],
    }


def _numbers(column: QueryColumnAnswer, present: Sequence[JsonValue]) -> list[float]:
    if type_kind(column["type"]) != "number":
        return []
    return [number for cell in present if (number := number_in(cell)) is not None]


def _bounds(
    column: QueryColumnAnswer, present: Sequence[JsonValue], numbers: Sequence[float]
) -> tuple[str, str] | None:
    """The least and the greatest value, as text. ISO times are in the order of their texts."""
    if numbers:
        finite = [_text(cell) for cell in present if number_in(cell) is not None]
        # As decimals: floats of long ones are equal
        return min(finite, key=Decimal), max(finite, key=Decimal)
    if not present or type_kind(column["type"]) not in ("text", "time"):
        return None
    texts = list(map(_text, present))
    return min(texts), max(texts)


def _text(cell: JsonValue) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
