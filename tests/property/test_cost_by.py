"""What planning by key costs: statements grow neither with the keys that changed nor with what
holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.plan import FEWEST
from controlplane.operations.desired import controls
from controlplane.operations.planning.planner import Planner
from tests.property.model import File, Grouped, Meeting, Read
from tests.property.world import BRANCH, World

STATEMENTS, A_LAYER, LAYERS = 10, 4, 2
PARTS = 3  # further look-ups of keys that are merged from parts
ROUNDS = 10  # listing, parse, index, keys, and a few more


def files(count: int, keys: int, more: int = 0) -> dict[str, File]:
    """Every key in every file."""
    return {
        f"{n}.csv": File(("k", "v"), tuple((k, n + more) for k in range(keys)))
        for n in range(count)
    }


def most_statements(folder: Path, count: int, keys: int) -> int:
    """Of any plan on the way from one corrected file to rest."""
    folder.mkdir()
    world = World(folder, f"sqlite:///{folder}/metadata.db")
    reads = {"x": Read("one", declared=("k", "v")), "y": Read("two", declared=("k", "v"))}
    for name, file in files(count, keys).items():
        world.put("one", name, file)
        world.put("two", name, file)
    world.apply({"a": {**reads, "sums": Grouped("x"), "met": Meeting("x", "y")}}, {})
    world.settle()
    world.put("one", "0.csv", files(1, keys, more=7)["0.csv"])
    planner, costs = Planner(world.store, branch=BRANCH), list[int]()
    planner.plan()
    controls.refresh(world.ctx, BRANCH, None)
    for _ in range(ROUNDS):
        before = world.store.statements
        planner.plan()
        costs.append(world.store.statements - before)
        world.once()
        while world.engine.step():
            """All that there is to do."""
    assert not planner.plan().items
    world.settle()
    world.close()
    return max(costs)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "keys"), [(3, 5), (3, 200), (60, 5), (60, 40)])
def test_neither_keys_nor_partitions_cost_statements(tmp_path: Path, count: int, keys: int) -> None:
    most = STATEMENTS + A_LAYER * LAYERS + PARTS * (count >= FEWEST)
    assert most_statements(tmp_path / "world", count, keys) <= most
