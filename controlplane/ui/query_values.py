"""The content of the page of queries, as types: the JSON of its twin."""

from __future__ import annotations

from typing_extensions import TypedDict

from controlplane.core.model.answers.problems import ProblemDetail
from controlplane.core.model.answers.promotion import PromotionAnswer
from controlplane.core.model.answers.queries import QueryAnswer
from controlplane.services.queries.queries import EngineName


class QueryPage(TypedDict):
    """A query and, where it was run, its result.

    `engine`: whose SQL it is. `has_spark`: whether Spark is offered beside DuckDB. `parameters`:
    lines of `NAME=VALUE`. `at`: the time that is meant of tables that name none; empty for now.
    `after`: how many rows of the result stand before those of `answer`. `problem`: why it was not
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
    answer: QueryAnswer | None
    seconds: float | None
    problem: ProblemDetail | None
    refused: str | None
    dataset: str
    promotion: PromotionAnswer | None
