"""Whatever is rolled back, edited and resumed in between: once nothing is held, rows are those of
the text and files of now. While it is, a planner that looks at what was marked says what planning
from nothing says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.errors import CutsDisagree, NotFound
from controlplane.core.model.addresses import Generation, Moment, Point
from controlplane.operations.desired import controls, rollback
from tests.unit.branches.world import BranchWorld
from tests.unit.rollback.test_rollback import REST, status

names = st.sampled_from(["orders", "doubled", "other", "sums", "both"])
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(1, 9)),
    st.tuples(st.just("edit"), st.integers(2, 4), st.none()),
    st.tuples(st.just("back"), names, st.integers(1, 3)),
    st.tuples(st.just("back"), names, st.integers(1, 3)),
    st.tuples(st.just("flow"), st.integers(1, 9), st.none()),
    st.tuples(st.just("resume"), names, st.none()),
)


class Told:
    """A world, and what its rows are to be."""

    def __init__(self, home: Path) -> None:
        self.world, self.factor, self.files = BranchWorld(home), 2, dict[str, int]()
        self.times = [self.world.now]
        self.world.apply(REST)

    def step(self, kind: str, one: Any, other: Any) -> None:
        match kind:
            case "put":
                self.files[one] = other
                self.world.put(f"{one}.csv", (other, other))
            case "edit":
                self.factor = one
                self.world.apply(REST.replace("2 * v", f"{one} * v"))
            case "back":
                self.back(f"shop.{one}", Generation(other))
            case "flow":
                self.back("shop", Moment.of(self.times[-min(one, len(self.times))]))
            case _:
                controls.resume(self.world.ctx, "main", f"shop.{one}")
        self.world.settle()
        self.world.now += 100.0
        self.times.append(self.world.now)

    def back(self, target: str, to: Point) -> None:
        try:
            rollback.rollback(self.world.ctx, "main", target, to)
        except (NotFound, CutsDisagree):
            return  # there was nothing, or not all of it
        held = {
            f"{name}": self.world.values("main", name)
            for name, s in status(self.world).items()
            if s == "held"
        }
        self.world.settle()
        assert {name: self.world.values("main", name) for name in held} == held

    def check(self) -> None:
        controls.resume(self.world.ctx, "main", "shop")
        self.world.settle()
        assert status(self.world) == dict.fromkeys(status(self.world), "up_to_date")
        rows = list(self.files.values())
        assert self.world.values("main", "shop.orders") == sorted((v, v) for v in rows)
        assert self.world.values("main", "shop.doubled") == sorted(
            (v, self.factor * v) for v in rows
        )
        sums = sorted((v, self.factor * v * rows.count(v)) for v in set(rows))
        assert self.world.values("main", "shop.sums") == sums
        both = sorted((v, self.factor * v + v + 1) for v in rows for _ in range(rows.count(v)))
        assert self.world.values("main", "shop.both") == both


@settings(max_examples=max(4, settings().max_examples // 10))
@given(steps=st.lists(STEPS, min_size=3, max_size=9))
def test_rows_are_right_once_nothing_is_held(steps: list[tuple[str, Any, Any]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        told = Told(Path(home))
        told.step("put", "a", 1)
        for step in steps:
            told.step(*step)
        told.check()
