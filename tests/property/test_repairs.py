"""Repairs of the lake while the loop is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.core.plan import Commit
from controlplane.operations.desired import controls
from controlplane.operations.planning.planner import Planner
from controlplane.operations.upkeep.repair import repair
from tests.property.model import File, Read
from tests.property.world import LONG_S, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.put("one", "a.csv", File(("k", "v"), ((1, 1),)))
    made.put("one", "b.csv", File(("k", "v"), ((2, 1),)))
    made.apply({"a": {"x": Read("one", declared=("k", "v"))}}, {})
    made.settle()
    yield made
    made.close()


def test_what_is_given_up_while_a_pass_is_planned_is_not_committed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.store.read() as tx:
        [lost] = [
            of for of in tx.traces.files() if b"[[1, " in world.lake.read(of.files[0]["path"])
        ]
    kept = world.folders["one"]["a.csv"]
    world.remove("one", "a.csv")
    world.settle()
    world.lake.delete_prefix(lost.files[0]["path"].rpartition("/")[0])
    world.put("one", "a.csv", kept)  # memory knows its rows
    controls.refresh(world.ctx, "main", None)
    world.once()
    read_plan = Planner.read_plan

    @contextmanager
    def overtaken(planner: Planner) -> Iterator[object]:
        with read_plan(planner) as found:
            yield found
        if any(isinstance(d.step, Commit) for d in found[0].decisions):
            monkeypatch.setattr(Planner, "read_plan", read_plan)
            assert repair(world.store, world.ctx.namespace, world.lake).fragments == 1

    monkeypatch.setattr(Planner, "read_plan", overtaken)
    world.engine.step()  # which lists
    for _ in range(5):
        world.settling.settle()
        while world.engine.step():
            pass
        world._now += LONG_S
    assert Planner.read_plan is read_plan, "a pass was overtaken"
    with world.store.read() as tx:
        state = tx.states.newest("main")["a.x"]
        assert [f.rows for _, f in world._partitions(tx, state)] == [((1, 1),), ((2, 1),)]
