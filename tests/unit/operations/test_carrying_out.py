"""Small decisions on the way from a plan to the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.model.tasks import Demand, Task
from controlplane.operations.planning import edited
from controlplane.operations.planning.step_visitors import is_well_supplied

TASK = Task(b"0", "transform", "shop.total", partition="0", job=b"job", spec={"slots": {}})
WINDOW = [replace(TASK, key=bytes([n])) for n in range(4)]
WAITING = Demand("queued", "standard", 0)


@pytest.mark.parametrize(
    ("demanded", "is_supplied"),
    [
        ([0, 1, 2], True),
        ([0, 1], False),  # half of the window is done: it moves on
        ([0, 1, 2, 9], False),  # a task that nobody wants any more
        ([7, 8, 9], False),
    ],
)
def test_a_window_waits_while_more_than_half_of_it_is_queued(
    demanded: list[int], is_supplied: bool
) -> None:
    assert is_well_supplied(WINDOW, {bytes([n]): WAITING for n in demanded}) is is_supplied


def test_a_dataset_that_takes_a_forced_name_has_the_later_force() -> None:
    names = {"shop.old": "shop.new"}
    assert edited.renamed_forces({"shop.old": 1, "shop.new": 3}, names)["shop.new"] == 3
    assert edited.renamed_forces({"shop.old": 3, "shop.new": 1}, names)["shop.new"] == 3
    assert edited.renamed_forces({"shop.new": 1}, names) == {"shop.new": 1}
