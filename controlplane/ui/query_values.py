"""The content of the page of queries, as types: the JSON of its twin. And the kinds of types
and numbers in results."""

from __future__ import annotations

import math
import re
from typing import Literal, TypeAlias

from typing_extensions import TypedDict

from controlplane.core.model.answers.problems import ProblemDetail
from controlplane.core.model.answers.promotion import PromotionAnswer
from controlplane.core.model.answers.queries import QueryAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.services.queries.queries import EngineName
from dataplane.contract.query_protocol import RowOrder

TypeKind: TypeAlias = Literal["number", "text", "time", "truth", "nested", "other"]
_KINDS: dict[TypeKind, str] = {
    "number": "tinyint smallint integer int bigint hugeint utinyint usmallint uinteger ubigint"
    " uhugeint byte short long float double real decimal",
    "text": "varchar string char uuid enum",
    "time": "date time timestamp timestamp_ntz timestamp_s timestamp_ms timestamp_ns timestamptz",
    "truth": "boolean",
    "nested": "struct map array list union json variant",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def type_kind(type_name: str) -> TypeKind:
    """The kind of a type as DuckDB or Spark names it: `DECIMAL(18,3)`, `bigint`, `INTEGER[]`."""
    if type_name.endswith("]"):
        return "nested"
    head = type_name.lower().replace("<", "(").partition("(")[0].split(" ")[0]
    return _KIND_OF.get(head, "other")


def number_in(cell: JsonValue) -> float | None:
    """A finite number, also one that is a text, as decimals are; None for anything else."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        number = float(cell)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


ORDER = re.compile(r"([1-9]\d{0,4})([ad])")


def row_order(text: str) -> RowOrder | None:
    """`2d`: by the second column, descending. None for any other text."""
    match = ORDER.fullmatch(text)
    return {"column": int(match[1]) - 1, "descending": match[2] == "d"} if match else None


class QueryPage(TypedDict):
    """A query and, where it was run, its result.

    `engine`: whose SQL it is. `has_spark`: whether Spark is offered beside DuckDB. `parameters`:
    lines of `NAME=VALUE`. `at`: the time that is meant of tables that name none; empty for now.
    `after`: how many rows of the result stand before those of `answer`. `order`: such as `2d`, by
    the second column, descending (`a`: ascending); empty for that of the query. `runs`: a browser
    with scripts runs it at once, as it was named by a link of ours. `problem`: why it was not
    run, with its place in the text; `refused`: without a place. `promotion`: the dataset that it
    would make.
    """

    sql: str
    engine: EngineName
    has_spark: bool
    parameters: str
    at: str
    limit: int
    after: int
    order: str
    runs: bool
    answer: QueryAnswer | None
    seconds: float | None
    problem: ProblemDetail | None
    refused: str | None
    dataset: str
    promotion: PromotionAnswer | None
