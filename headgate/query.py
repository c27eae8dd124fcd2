"""A query as a lazy value. Its SQL is DuckDB's, as `headgate query` takes it; the service runs
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from controlplane.client import Headgate, Time
from controlplane.core.model.json_values import JsonValue
from headgate.errors import as_refused, refused
from headgate.lazy import Lazy
from headgate.shown import Shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from controlplane.ui.result_charts import ChartKind


@dataclass(frozen=True, slots=True, repr=False)
class Query(Lazy):
    """One SELECT over `dataflow.dataset`. It is run each time that rows are wanted."""

    client: Headgate
    sql: str
    parameters: Mapping[str, JsonValue] | None = None
    branch_name: str = "main"
    moment: Time | None = None
    most: int | None = None

    def __repr__(self) -> str:
        return f"<{self.label}>"

    @property
    def label(self) -> str:
        first = " ".join(self.sql.split())
        return f"query {first}" if len(first) <= 80 else f"query {first[:79]}…"

    def branch(self, name: str) -> Self:
        """The same in another branch."""
        return replace(self, branch_name=name)

    def at(self, moment: Time) -> Self:
        """The same at a time, for all tables that name none themselves."""
        return replace(self, moment=moment)

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        return replace(self, most=rows)

    def chart(self, kind: ChartKind | None = None) -> Shown:
        """A chart of the first rows: `bar`, `line` or `scatter`. It has the columns, and by default
        the kind, that the query page chooses. Runs the query. Raises Refused."""
        # Only a chart needs the code of the page
        from headgate import query_chart

        if kind is not None and kind not in query_chart.KINDS:
            listed = ", ".join(query_chart.KINDS)
            raise refused("not-found", f"there is no chart {kind!r}; there are {listed}")
        with as_refused():
            answer = self.client.query(
                self.sql,
                branch=self.branch_name,
                parameters=self.parameters,
                limit=min(self.most or query_chart.POINTS, query_chart.POINTS),
                at=self.moment,
            )
        return query_chart.chart(answer, kind)

    @contextmanager
    def _body(self, limit: int | None) -> Iterator[Iterator[bytes]]:
        bounds = [bound for bound in (self.most, limit) if bound is not None]
        stream = self.client.query_arrow(
            self.sql,
            branch=self.branch_name,
            parameters=self.parameters,
            limit=max(min(bounds), 1) if bounds else None,
            at=self.moment,
        )
        with closing(stream):
            yield stream

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """All rows as a DataFrame of Spark 4 or newer, by way of this process: Spark does not know
        DuckDB's SQL."""
        return spark.createDataFrame(self.to_arrow())
