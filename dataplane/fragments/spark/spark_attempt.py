"""An attempt whose work needs Spark."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from dataplane.fragments.attempt import Attempt, C_co
from dataplane.spark.spark_session import claim_thread


@dataclass(frozen=True, slots=True)
class SparkAttempt(Attempt[C_co]):
    """An attempt with the session that its Spark jobs are started on."""

    spark: SparkSession

    def enter(self) -> None:
        """Called by each thread before it starts Spark jobs for this attempt. Raises Cancelled."""
        self.check()
        claim = self.claim
        read_bytes = claim["reads_bytes"] if "reads_bytes" in claim else 0
        claim_thread(self.spark, claim["attempt"], read_bytes)
