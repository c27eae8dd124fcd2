"""An attempt whose work needs Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

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
        read_bytes = cast("int", self.claim.get("reads_bytes", 0))
        claim_thread(self.spark, self.claim["attempt"], read_bytes)
