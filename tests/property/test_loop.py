"""Whatever happens to files, code and drivers: Truth and Thrift (and what `world.World.settle`
compares besides)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.property import runs
from tests.slices import sliced

BATCH = 3
QUICK = 3
# Batches differ in their seeds only; the first few, and each kind of run, are part of every commit
SLICES = 4
# Half of these seeds at each commit: `tests/store` asks each statement of the store
RUNS_ON_SQLITE = [("calm", 3), ("calm", 7), ("busy", 11), ("folds", 3)]
SOAK = int(os.environ.get("PROPERTY_SEEDS", "2000"))  # HEADGATE_ is for settings of the product


def some_slow(batches: int, quick: int = QUICK) -> list[object]:
    """The first few run at every commit, of the others a slice in the whole suite."""
    slow = [pytest.param(n, marks=pytest.mark.slow) for n in range(quick, batches)]
    return [*range(quick), *sliced(slow, SLICES)]


def seeds(batch: int) -> range:
    return range(batch * BATCH, (batch + 1) * BATCH)


@pytest.mark.parametrize("batch", some_slow(10))
def test_changes_between_runs(batch: int) -> None:
    for seed in seeds(batch):
        runs.calm(seed)


@pytest.mark.parametrize("batch", some_slow(6))
def test_changes_while_work_is_under_way(batch: int) -> None:
    for seed in seeds(batch):
        runs.busy(seed)


@pytest.mark.parametrize("batch", some_slow(3, quick=1))
def test_days_go_by_and_datasets_are_forced(batch: int) -> None:
    for seed in seeds(batch):
        runs.timed(seed)


@pytest.mark.parametrize("batch", some_slow(6))
def test_partitions_that_build_on_each_other(batch: int) -> None:
    for seed in seeds(batch):
        runs.folds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sliced([1, 3, 6, 14], 2))
def test_aggregates_in_parts(seed: int) -> None:
    runs.parted(seed)


@pytest.mark.slow
@pytest.mark.parametrize("batch", sliced(range(4), SLICES))
def test_changes_with_windows_and_pyspark(batch: int) -> None:
    for seed in seeds(batch):
        runs.richer(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed"), sliced([pytest.param(*run) for run in RUNS_ON_SQLITE], 2)
)
def test_the_same_on_sqlite(kind: str, seed: int, tmp_path: Path) -> None:
    runs.KINDS[kind](seed, f"sqlite:///{tmp_path}/metadata.db")


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted(runs.KINDS))
def test_for_long(kind: str) -> None:
    chance = random.SystemRandom()
    for _ in range(SOAK):
        runs.KINDS[kind](chance.randrange(1 << 32))
