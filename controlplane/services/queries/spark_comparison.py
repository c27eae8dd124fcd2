"""A query's rows beside those that Spark gives for the same text, as a transform of it would."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from controlplane.core.errors import HeadgateError
from controlplane.core.model.answers.promotion import PromotionComparison
from controlplane.core.model.json_values import JsonObject
from controlplane.operations.context import Context
from controlplane.services.queries import queries
from controlplane.services.queries.port import KeptResult
from controlplane.services.queries.queries import EngineName, Queries, QueryRequest
from controlplane.services.queries.running_queries import Cancel
from dataplane.contract.jobs import JobSparkSettings
from dataplane.contract.query_protocol import Compared

MOST_ROWS = 100_000
SAMPLES = 5
TOO_MANY = f"it has more than {MOST_ROWS:,} rows, which are not compared; compare a part of them"
MOVED = "data was committed meanwhile; ask again"


def compare(
    ctx: Context,
    queried: Queries,
    branch: str,
    sql: str,
    *,
    engine: EngineName,
    settings: JobSparkSettings,
    timeout_s: float,
    cancel: Cancel,
) -> PromotionComparison:
    """Run both, unless their results are kept from before, over the tables that the reader may see.
    A failure of either is answered as the reason, and raised only where the query was cancelled."""
    request = QueryRequest(sql, limit=MOST_ROWS, engine=engine, timeout_s=timeout_s)
    by_spark = replace(request, engine="spark", settings=cast("JsonObject", dict(settings)))
    try:
        of_query = queries.kept_result(ctx, queried, branch, request, cancel=cancel)
        of_transform = queries.kept_result(ctx, queried, branch, by_spark, cancel=cancel)
        if of_query.more or of_transform.more:
            return _comparison(engine, of_query, reason=TOO_MANY)
        if of_query.generations != of_transform.generations:
            return _comparison(engine, of_query, reason=MOVED)
        with queried.engine.session(queries.user(ctx), cancel, timeout_s=timeout_s) as session:
            compared = session.compare(of_query.path, of_transform.path, SAMPLES)
    except HeadgateError as error:
        if cancel.is_cancelled:
            raise
        return _comparison(engine, None, reason=str(error))
    return _comparison(engine, of_query, compared)


NOTHING: Compared = {"rows": [0, 0], "only": [0, 0], "samples": [[], []]}


def _comparison(
    engine: EngineName,
    of_query: KeptResult | None,
    compared: Compared | None = None,
    reason: str | None = None,
) -> PromotionComparison:
    counts = compared or NOTHING
    return {
        "engine": engine,
        "equal": None if compared is None else compared["only"] == [0, 0],
        "reason": reason,
        "generations": {} if of_query is None else dict(of_query.generations),
        "query_rows": counts["rows"][0],
        "transform_rows": counts["rows"][1],
        "only_in_query": counts["only"][0],
        "only_in_transform": counts["only"][1],
        "samples_of_query": counts["samples"][0],
        "samples_of_transform": counts["samples"][1],
    }
