"""What a query answers."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.json_values import JsonValue


class QueryColumnAnswer(TypedDict):
    """`type` is the engine's name of it."""

    name: str
    type: str


class CutCellAnswer(TypedDict):
    """A value of which a page has the beginning alone. `row`: its number in the result; `column`:
    its place in `columns`; both from 0. `size_bytes`: of the whole value, of its JSON where it is
    no text."""

    row: int
    column: int
    size_bytes: int


class QueryExtent(TypedDict):
    """All that the tables of a query had: `partitions`, and `bytes` of their files. An engine reads
    no more than that; of a file it reads what the query needs."""

    partitions: int
    bytes: int


class QueryPageHead(TypedDict):
    """All of a page but its rows. `generations`: which generation of each table was read, by the
    name that the query has for it. `result`: where more pages are, from row `next` on (None: this
    is the last one). `more`: the query has more rows than its limit. `cut`: values that are too
    long for a page. `cached`: it was not run again, as its tables have the same rows. `extent`: of
    the tables that it ran over, where it ran now."""

    result: str
    columns: list[QueryColumnAnswer]
    generations: dict[str, int]
    total: int
    more: bool
    next: int | None
    cut: list[CutCellAnswer]
    cached: bool
    extent: NotRequired[QueryExtent]


class QueryAnswer(QueryPageHead):
    """A page of a query's rows, in order. It ends after 10,000 rows or 8 MB."""

    rows: list[list[JsonValue]]


class CancelAnswer(TypedDict):
    """`cancelled`: the query that was running."""

    cancelled: str
