"""What a query answers."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.json_values import JsonValue


class QueryColumnAnswer(TypedDict):
    """`type` is the engine's name of it."""

    name: str
    type: str


class QueryAnswer(TypedDict):
    """A page of a query's rows. `generations`: which generation of each table was read, by the name that the query has
    for it. `result`: where more pages are, from row `next` on (None: this is the last one). `more`: the query has more
    rows than its limit. `cached`: it was not run again, as its tables have the same rows."""

    result: str
    columns: list[QueryColumnAnswer]
    rows: list[list[JsonValue]]
    generations: dict[str, int]
    total: int
    more: bool
    next: int | None
    cached: bool


class CancelAnswer(TypedDict):
    """`cancelled`: the query that was running."""

    cancelled: str
