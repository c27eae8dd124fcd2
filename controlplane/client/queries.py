"""SQL over committed rows, Spark sessions, and questions of tests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from controlplane.client.connection import HttpConnection
from controlplane.client.requests import Time
from controlplane.core import rest

if TYPE_CHECKING:
    from controlplane.core.model.answers.promotion import OpenedAnswer, PromotionAnswer
    from controlplane.core.model.answers.queries import CancelAnswer, QueryAnswer
    from controlplane.core.model.answers.spark_sessions import (
        NewSparkSessionAnswer,
        SparkSessionEntry,
    )
    from controlplane.core.model.json_values import JsonObject, JsonValue

ARROW = "application/vnd.apache.arrow.stream"
QUERY_S = 60.0
SPARK_STARTS_S = 150.0
TEST_S = 600.0


class QueryCalls(HttpConnection):
    """SQL over committed rows, and Spark sessions."""

    def query(
        self,
        sql: str,
        *,
        branch: str = "main",
        parameters: Mapping[str, JsonValue] | Sequence[JsonValue] | None = None,
        limit: int = 1000,
        at: Time | None = None,
        timeout_s: float = QUERY_S,
        id: str | None = None,
        engine: Literal["duckdb", "spark"] = "duckdb",
    ) -> QueryAnswer:
        """Rows of a SELECT in the SQL of its engine over `dataflow.dataset`, also `@12`, at a time
        and in other branches, at most `limit`. Pages are put together. `parameters`: for `$name`,
        or in order for `?`; Spark's are `:name`. `at`: the time that is meant of tables that name
        none. `id`: 8 to 64 hexadecimal digits, to cancel it by."""
        body = _query(sql, parameters, limit, at=at, timeout_s=timeout_s, id=id, engine=engine)
        page = self._call(rest.QUERY, self._waiting(timeout_s), branch=branch, **body)
        rows = page
        while page["next"] is not None:
            page = self._call(
                rest.QUERY_PAGE, branch=branch, query=rows["result"], after=page["next"]
            )
            rows["rows"] += page["rows"]
            rows["cut"] += page["cut"]
        return {**rows, "next": None}

    def query_arrow(
        self,
        sql: str,
        *,
        branch: str = "main",
        parameters: Mapping[str, JsonValue] | Sequence[JsonValue] | None = None,
        limit: int | None = None,
        at: Time | None = None,
        timeout_s: float = QUERY_S,
        id: str | None = None,
        engine: Literal["duckdb", "spark"] = "duckdb",
    ) -> Generator[bytes, None, None]:
        """The same, all rows as parts of an Arrow stream, as they come. Closing it early ends the
        query."""
        body = _query(sql, parameters, limit, at=at, timeout_s=timeout_s, id=id, engine=engine)
        wait_s, headers = self._waiting(timeout_s), {"Accept": ARROW}
        with self._stream(rest.QUERY, wait_s, headers, branch=branch, **body) as response:
            yield from response.iter_bytes()

    def promote(
        self,
        sql: str,
        dataset: str,
        *,
        branch: str = "main",
        analyse: bool = False,
        compare: Literal["duckdb", "spark"] | None = None,
        timeout_s: float = QUERY_S,
    ) -> PromotionAnswer:
        """A proposed blueprint with the query as the transform that makes `dataset`. Nothing is
        stored. `analyse`: with the columns that Spark says it would have. `compare`: the engine
        whose rows of the query are compared with those of Spark. Either waits for at most
        `timeout_s`."""
        body = {
            "sql": sql,
            "dataset": dataset,
            "analyse": analyse,
            "compare": compare,
            "timeout_s": timeout_s,
        }
        return self._call(rest.PROMOTE, self._waiting(2 * timeout_s), branch=branch, **body)

    def query_of(self, dataset: str, *, branch: str = "main") -> OpenedAnswer:
        """A transform's SQL as a query over its inputs' present states."""
        return self._call(rest.QUERY_OF, branch=branch, dataset=dataset)

    def cancel_query(self, id: str, *, branch: str = "main") -> CancelAnswer:
        """End a query of one's own that runs."""
        return self._call(rest.CANCEL_QUERY, branch=branch, query=id)

    def ask_test(self, question: Mapping[str, object], files: Mapping[str, bytes]) -> JsonObject:
        """The answer of the service's Spark to a question of a test. `files`: the content of each
        file that the question names, by its path."""
        texts = {path: b64encode(content).decode() for path, content in files.items()}
        return self._call(rest.ASK_TEST, self._waiting(TEST_S), question=question, files=texts)[
            "answer"
        ]

    def open_spark_session(
        self,
        datasets: Sequence[str] = (),
        *,
        branch: str = "main",
        at: Time | None = None,
        ttl_s: float = 3_600.0,
    ) -> NewSparkSessionAnswer:
        """A Spark Connect server of one's own, with datasets as views: `shop.orders`,
        `shop.orders@12`, `shop.*`, or all of them. `at`: the time that is meant of names without a
        point. `ttl_s`: when it ends at the latest."""
        moment = at.isoformat() if isinstance(at, datetime) else at
        body = {"datasets": list(datasets), "at": moment, "ttl_s": ttl_s}
        return self._call(
            rest.OPEN_SPARK_SESSION, self._waiting(SPARK_STARTS_S), branch=branch, **body
        )

    def spark_sessions(self) -> list[SparkSessionEntry]:
        """One's own that are open; all of them for who administers."""
        return self._call(rest.SPARK_SESSIONS)["items"]

    def end_spark_session(self, id: str) -> None:
        """At once, also in the midst of work."""
        self._call(rest.END_SPARK_SESSION, session=id)


def _query(
    sql: str,
    parameters: Mapping[str, JsonValue] | Sequence[JsonValue] | None,
    limit: int | None,
    *,
    at: Time | None,
    timeout_s: float,
    id: str | None,
    engine: str,
) -> JsonObject:
    values = dict(parameters) if isinstance(parameters, Mapping) else list(parameters or ())
    moment = at.isoformat() if isinstance(at, datetime) else at
    query: JsonObject = {
        "sql": sql,
        "parameters": values or None,
        "limit": limit,
        "at": moment,
        "engine": engine,
    }
    return {**query, "timeout_s": timeout_s, "id": id}
