"""Runs under way that failed are given up for good."""

from __future__ import annotations

from pathlib import Path

from controlplane.operations.desired import controls
from tests.property.engine import Taken, user_error
from tests.property.model import Distinct, File, Read
from tests.property.world import BRANCH, World


def end(world: World, taken: Taken, *, fails: bool = False) -> None:
    [results] = world.engine._carry_out([taken.claim])
    if fails:
        error = user_error("no")
        results = [
            {"task": r["task"], "epoch": r["epoch"], "state": "failed", "error": error}
            for r in results
        ]
    world.engine._finish(taken, results, "none")


def test_a_failed_run_is_given_up_for_inputs_of_other_columns(tmp_path: Path) -> None:
    """A file that the query fails on is replaced by one with a column more."""
    world = World(tmp_path)
    world.put("a", "f.csv", File(("k", "v"), ((1, 1),)))
    world.apply({"x": {"a": Read("a"), "b": Distinct("a")}}, {})
    world.settle()
    world._is_busy = True
    world.put("a", "g.csv", File(("k", "v"), ((2, 2),)))
    bad: set[str] = set()

    def rest() -> int:
        controls.refresh(world.ctx, BRANCH, None)
        tried = 0
        for _ in range(40):
            changed = world.once().changed
            if not changed and (taken := world.engine._take()) is not None:
                tasks = {t["task"] for t in taken.claim["tasks"]}
                if (
                    taken.claim["dataset"] == "x.b"
                    and taken.claim["kind"] == "transform"
                    and not bad
                ):
                    bad.update(tasks)
                tried += bool(tasks & bad)
                end(world, taken, fails=bool(tasks & bad))
            elif not changed:
                return tried
        raise AssertionError(f"no rest; tried {tried} times")

    assert rest() == 1
    world.remove("a", "g.csv")
    world.put("a", "h.csv", File(("k", "v", "x"), ((3, 3, 3),)))
    assert rest() == 0
    world.settle()
