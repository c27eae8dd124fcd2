"""How many drivers are worth while."""

from __future__ import annotations

import pytest

from controlplane.core.model.scaling import Level, PoolLimits


@pytest.mark.parametrize(
    ("tasks", "worth"), [(0, 0), (1, 1), (64, 1), (65, 2), (200, 3), (10_000, 3)]
)
def test_one_for_so_many_tasks(tasks: int, worth: int) -> None:
    assert PoolLimits(0, 3, tasks_each=64).worth(tasks) == worth


def test_a_minimum_is_kept() -> None:
    assert PoolLimits(1, 3).worth(0) == 1


def test_up_at_once_down_after_the_idle_time() -> None:
    limits, level = PoolLimits(0, 3, idle_s=60.0), Level(0, 0.0)
    kept = []
    for now, tasks in (
        (0.0, 200),
        (1.0, 100),
        (61.0, 60),
        (90.0, 1),
        (122.0, 0),
        (125.0, 80),
        (184.0, 0),
        (186.0, 0),
    ):
        level = level.after(limits, tasks, now)
        kept.append(level.count)
    assert kept == [3, 3, 1, 1, 1, 2, 2, 0]


def test_a_lower_maximum_holds_at_once() -> None:
    assert Level(3, 0.0).after(PoolLimits(0, 2), 0, 1.0).count == 2
