"""What becomes of a query as a transform, and of a transform as a query."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.plans import InputMode, PlanBreak
from controlplane.core.model.answers.queries import QueryColumnAnswer
from controlplane.core.model.json_values import JsonObject, JsonValue


class PromotionAnalysis(TypedDict):
    """What the transform would give. `columns`, None where they are not known; `schema_from` says
    where they come from, and `schema_unknown` why that is not Spark. `breaks`: what Spark says
    against it, with its place in the new text."""

    columns: list[QueryColumnAnswer] | None
    schema_from: Literal["spark", "declared", "sqlglot", "unknown"]
    schema_unknown: str | None
    breaks: list[PlanBreak]


class PromotionComparison(TypedDict):
    """The query's rows, by its engine, beside those of the transform, by Spark over the same
    generations. `equal`: the same rows, in any order, with numbers that are not whole to nine
    digits; None where they were not compared, for a `reason`. `rows` of each; rows that only one of
    them has are counted, and a few of them are given."""

    engine: Literal["duckdb", "spark"]
    equal: bool | None
    reason: str | None
    generations: dict[str, int]
    query_rows: int
    transform_rows: int
    only_in_query: int
    only_in_transform: int
    samples_of_query: list[list[JsonValue]]
    samples_of_transform: list[list[JsonValue]]


class PromotionAnswer(TypedDict):
    """A proposed blueprint. `text` is the whole blueprint, `component` its new part. `revision`: of
    the dataflow that it is an edit of, 0 for a new one. `inputs`: how Spark would read each table,
    by its name in the query's new text, and why. `analysis` and `comparison` where they were
    requested."""

    dataset: str
    file: str
    revision: int
    component: str
    text: str
    inputs: dict[str, InputMode]
    analysis: PromotionAnalysis | None
    comparison: PromotionComparison | None


class OpenedAnswer(TypedDict):
    """A transform's SQL over its inputs' present states. It is Spark's SQL: DuckDB may read it
    otherwise, or not.

    `parameters`: its `params`, by the names that follow a colon in the text."""

    dataset: str
    sql: str
    parameters: JsonObject
