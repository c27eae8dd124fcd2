"""Truth and Thrift on real Spark: random dataflows over random files, while files, code and drivers
change.

Each dataset is held against the model and against DuckDB from scratch after every settle, and the
tasks that ran against the model's. Does not belong here: thousands of such runs, which a fake
engine does (property).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.property import test_mutations as planted
from tests.slices import sliced
from tests.spark import oracle

# Seeds are alike: each is a random dataflow on the same executor. So are faults that are planted.
SEEDS = sliced(range(20), 8)
FOLDS = sliced(range(3), 3)
SOAK = int(os.environ.get("ORACLE_SEEDS", "200"))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_dataflow(spark: SparkSession, seed: int) -> None:
    oracle.run(seed, spark)


@pytest.mark.parametrize("seed", FOLDS)
def test_folds(spark: SparkSession, seed: int) -> None:
    oracle.run(seed, spark, oracle.SparkFolds)


@pytest.mark.soak
@pytest.mark.parametrize("draw", [oracle.SparkChanges, oracle.SparkFolds])
def test_for_long(spark: SparkSession, draw: type[oracle.SparkChanges]) -> None:
    chance = random.SystemRandom()
    for _ in range(SOAK):
        oracle.run(chance.randrange(1 << 32), spark, draw)


# seeds
FOUND_BY = {planted.windows_are_read_by_any_key: [8, 10], planted.indexes_are_not_updated: [2, 1]}


@pytest.mark.parametrize("plant", sliced(FOUND_BY, 2), ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(
    plant: Callable[[], planted.Patch], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*plant())
    assert any(is_found(seed, spark) for seed in FOUND_BY[plant]), (
        f"nobody noticed that {plant.__name__}"
    )


def is_found(seed: int, spark: SparkSession) -> bool:
    try:
        oracle.run(seed, spark)
    except AssertionError:
        return True
    return False
