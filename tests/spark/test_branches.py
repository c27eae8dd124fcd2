"""Truth and Thrift with branches on real Spark: the random runs of `property.branching`, shorter
ones.

Does not belong here: thousands of such runs, which a fake engine does.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from dataplane.runtime.driver import CLAIMERS
from dataplane.runtime.executor import Executor
from dataplane.storage.lake import LocalLake
from tests.property import branching
from tests.slices import sliced
from tests.spark.oracle import SparkEngine
from tests.spark.session_settings import INTERPRETED, new_sessions_with
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import Same

STEPS = 6


class SparkBranchWorld(BranchWorld):
    """`spark` outlives it."""

    def __init__(self, home: Path, url: str, spark: SparkSession) -> None:
        super().__init__(home, url)
        (home / "lake").mkdir()
        self.lake = LocalObjects(home / "lake")  # type: ignore[assignment]  # another one of the same kind
        self.ctx = Context(self.store, lake=self.lake.uri)
        self.executor = Executor(spark, LocalLake(home / "lake"), home / "scratch")
        self.engine = SparkEngine(
            self.ctx, self.lake, Same(), lambda _: None, at_once=CLAIMERS, executor=self.executor
        )

    def close(self) -> None:
        self.executor.close()
        super().close()


@pytest.mark.parametrize("seed", sliced(range(10), 10))
def test_whatever_happens_to_main_and_its_branches(spark: SparkSession, seed: int) -> None:
    with new_sessions_with(spark, INTERPRETED):
        branching.run(seed, steps=STEPS, world=partial(SparkBranchWorld, spark=spark))
