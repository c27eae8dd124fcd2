"""What becomes of a query as a transform, and of a transform as a query."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.plans import InputMode


class PromotionAnswer(TypedDict):
    """A proposed blueprint. `text` is all of it, `component` what is new in it. `revision`: of the dataflow that it is
    an edit of, 0 for a new one. `inputs`: how Spark would read each table, by its name in the query's new text, and
    why."""

    dataset: str
    file: str
    revision: int
    component: str
    text: str
    inputs: dict[str, InputMode]


class OpenedAnswer(TypedDict):
    """A transform's SQL over its inputs' present states. It is Spark's SQL: DuckDB may read it otherwise, or not."""

    dataset: str
    sql: str
