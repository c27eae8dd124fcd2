"""When a commit is a new generation: readers see other columns, or other rows."""

from __future__ import annotations

import pytest

from tests.unit.plan.facts import Facts
from tests.unit.plan.test_examples import ORDERS

pytestmark = pytest.mark.unit


def test_columns_that_are_edited_over_no_partitions_are_a_new_generation() -> None:
    world = Facts()
    generations = []
    for columns in ("v INT", "v INT, w INT", "v INT, w INT"):
        world.apply(ORDERS.replace("v INT", columns))
        world.list({}, "shop.orders")
        world.settle()
        generations.append(world.states["shop.orders"][-1].generation)
    assert generations == [1, 2, 2]
