"""Contents taken while Spark writes rows: sums of their hashes, observed right below the writer.

Nothing is between the observation and the writer, so it is in the stage that writes. Spark takes the
metrics of one successful attempt of each task of that stage. Another attempt may have written other
rows, if its executor was lost after its files were moved. So nothing is observed where a task
failed. In one process no task is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from dataplane.contract.claims import DriverClaim
from dataplane.contract.identity import Content
from dataplane.contract.schemas import Schema
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content import content_of, half_sums, quoted, row_hash
from dataplane.fragments.content_local import is_simple
from dataplane.fragments.measuring import SMALL_BYTES
from dataplane.fragments.sampling import free_names
from dataplane.spark.job_counts import has_lost_tasks


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """`rows` are to be written. An observation gives the content of them; None: it is read back."""

    rows: DataFrame
    observation: Observation | None = None

    @staticmethod
    def of(attempt: Attempt[DriverClaim], df: DataFrame, schema: Schema) -> ObservedRows:
        """The rows of one fragment of this schema; `df` may have further columns."""
        if not (is_simple(schema) and _is_certain(attempt, df, schema) and _is_large(df)):
            return ObservedRows(df)
        first, second = free_names(schema)
        hashed = df.selectExpr(
            "*", f"{row_hash(schema, 0)} AS {first}", f"{row_hash(schema, 1)} AS {second}"
        )
        sums = [F.expr(text) for name in (first, second) for text in half_sums(name)]
        named = [column.alias(f"s{i}") for i, column in enumerate([F.count(F.lit(1)), *sums])]
        observation = Observation()
        observed = hashed.observe(observation, *named)
        return ObservedRows(observed.select(*map(quoted, df.columns)), observation)

    def content(self, attempt: Attempt[DriverClaim]) -> Content | None:
        """After the rows were written: their content, where it is certain."""
        if self.observation is None or has_lost_tasks(
            self.rows.sparkSession, attempt.claim["attempt"]
        ):
            return None
        observed = self.observation._jo
        # Asked for a value that never comes, it would wait for ever
        if observed is None or not observed.future().isCompleted():
            return None
        rows, *sums = self.observation.get.values()
        return content_of(rows, *sums) if rows else None


def _is_certain(attempt: Attempt[DriverClaim], df: DataFrame, schema: Schema) -> bool:
    """Whether an expression sees the values that are written. Code of users may change the
    functions and settings of its session, and may say of a column with NULLs that it has none."""
    if attempt.claim["kind"] == "transform":
        return attempt.claim["job"]["language"] == "sql"
    return all(df.schema[field["name"]].nullable for field in schema["fields"])


def _is_large(df: DataFrame) -> bool:
    """Whether what the rows are made of is more than few rows, which are read back sooner."""
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    size = 0
    for i in range(leaves.size()):
        size += int(str(leaves.apply(i).stats().sizeInBytes()))
        if size > SMALL_BYTES:
            return True
    return False
