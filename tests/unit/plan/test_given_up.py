"""A run under way that failed is given up for good (SEMANTICS 2.8, 2.11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.property.engine import Taken, user_error
from tests.unit.expectations.world import World
from tests.unit.plan.test_begun import end, under_way

UNIQUE = "  plus: {transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}, expect: [{unique: [k]}]}\n"


def fail(world: World, taken: Taken) -> None:
    state = {"state": "failed", "error": user_error("no")}
    end(
        world,
        taken,
        [{"task": t["task"], "epoch": t["epoch"], **state} for t in taken.claim["tasks"]],  # type: ignore[typeddict-item]
    )


def rest(world: World, is_bad: Callable[[Taken], bool]) -> int:
    """Goes on until nothing is left to do; how often what is bad was tried."""
    tried = 0
    for _ in range(30):
        changed = world.once().changed
        if not changed and (taken := world.engine._take()) is not None:
            tried += is_bad(taken)
            (fail if is_bad(taken) else end)(world, taken)
        elif not changed:
            return tried
    raise AssertionError(f"no rest; tried {tried} times")


def test_a_run_whose_check_failed_is_given_up_for_good(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    world.apply(UNIQUE)
    world.settle()
    world.put("c.csv", (3, 30))
    world.refresh()
    bad: list[str] = []

    def is_bad(taken: Taken) -> bool:
        if taken.claim["kind"] == "check" and not bad:
            bad.append(taken.claim["tasks"][0]["task"])
        return bool(bad) and taken.claim["tasks"][0]["task"] == bad[0]

    assert rest(world, is_bad) == 1
    (world.home / "orders" / "b.csv").unlink()
    (world.home / "orders" / "c.csv").unlink()
    world.refresh()
    assert rest(world, is_bad) == 0
    assert world.rows("shop.plus") == [(1, 11)]
    assert under_way(world) == 0
