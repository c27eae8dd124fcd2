"""An inferred schema that files made wider, and that is taken back once they are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.core.errors import NothingPinned
from controlplane.core.model.pins import TAKEN_BACK
from controlplane.core.plan import Commit, Plan
from controlplane.operations.desired import controls
from controlplane.operations.inspect import overview
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import StoreSnapshot, plan_now
from controlplane.ports.store import Store
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import BRANCH
from tests.unit.schema.world import World

ORDERS = "shop.orders"
BRANCHES = ("main", "dev")


IN_WINDOWS = pytest.mark.parametrize("world", [1000, 1], ids=["exact", "windows"], indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    exact = getattr(request, "param", 1000)
    world = World(tmp_path, exact=exact, window=exact + 1)
    for name in "ab":
        world.file(f"{name}.csv", "k,v\n1,1\n")
    yield world
    world.store.close()


def told(world: World) -> list[str]:
    """What `status` says of the schema."""
    [flow] = overview.status(world.ctx, BRANCH, None)["dataflows"]
    [orders] = (d for d in flow["datasets"] if d["name"] == ORDERS)
    return orders.get("wider", [])


def take_back(world: World, target: str | None = ORDERS) -> list[str]:
    return controls.refresh(world.ctx, BRANCH, target, schema=True)["schemas"]


def widened(world: World) -> None:
    """A file with halves came and went again."""
    world.read(children=["SELECT * FROM orders"])
    world.settle()
    world.file("c.csv", "k,v\n3,0.5\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "double"}
    assert told(world) == []
    world.remove("c.csv")
    world.settle()


def test_a_type_that_a_file_made_wider_is_told_once_the_file_is_gone(world: World) -> None:
    widened(world)
    assert world.schema == {"k": "integer", "v": "double"}
    sentence = "v is DOUBLE because of c.csv, which is gone; it was INT; `headgate refresh --schema` infers it again"
    assert told(world) == [sentence]


@IN_WINDOWS
def test_a_schema_that_is_taken_back_has_the_types_of_the_files_of_now(world: World) -> None:
    widened(world)
    assert take_back(world) == [ORDERS]
    found = world.settle()
    # Both files were read under INT before, and that is remembered
    assert (found["infer"], found["parse"]) == (0, 0)
    assert world.schema == {"k": "integer", "v": "integer"}
    assert world.rows("shop.c0") == [("1", "1"), ("1", "1")]
    assert told(world) == []
    assert world.decision().status == world.decision("shop.c0").status == "up_to_date"
    assert not world.settle()


@IN_WINDOWS
def test_a_type_that_files_still_need_comes_back(world: World) -> None:
    widened(world)
    world.file("d.csv", "k,v\n4,0.25\n")
    world.settle()
    take_back(world)
    world.settle()
    assert world.schema == {"k": "integer", "v": "double"}
    assert told(world) == []
    assert len(world.rows()) == 3


def test_a_file_that_came_back_with_other_values_is_no_cause_any_more(world: World) -> None:
    widened(world)
    world.file("c.csv", "k,v\n3,3\n")
    world.settle()
    assert told(world)[0].startswith("v is DOUBLE because of c.csv, which is gone")


def test_a_column_that_no_file_has_is_told(world: World) -> None:
    world.read()
    world.settle()
    for name in "ab":
        world.file(f"{name}.csv", "k\n1\n")
    world.settle()
    assert told(world) == [
        "no object has the column v any more; `headgate refresh --schema` infers it again"
    ]
    take_back(world)
    world.settle()
    assert (world.schema, told(world)) == ({"k": "integer"}, [])


def test_the_listing_is_waited_for_before_anything_is_inferred(world: World) -> None:
    widened(world)
    take_back(world)
    assert world.decision().reason == "waits for a listing"


def test_a_declared_schema_is_not_taken_back(world: World) -> None:
    world.read(schema="k INT, v INT")
    world.settle()
    with pytest.raises(NothingPinned, match="none of these datasets has an inferred schema"):
        take_back(world)
    with world.store.read() as tx:
        assert not plan_now(tx, BRANCH, None)[0].decisions[0].items


class Interrupted(Planner):
    """Something happens between a plan and what is done about it."""

    def __init__(self, store: Store, interrupt: Callable[[], object]) -> None:
        super().__init__(store, branch=BRANCH)
        self._interrupt = interrupt

    @contextmanager
    def read_plan(self, flows: Iterable[str] | None = None) -> Iterator[tuple[Plan, StoreSnapshot]]:
        with super().read_plan(flows) as found:
            yield found
        self._interrupt()


def test_a_commit_that_was_planned_before_does_not_undo_it(world: World) -> None:
    widened(world)
    world.file("d.csv", "k,v\n4,4\n")
    world.refresh()
    world.work()
    world.once()
    world.work()
    assert isinstance(world.decision().step, Commit)
    late = PlanExecutor(
        world.store, Interrupted(world.store, lambda: take_back(world)), "default", BRANCH
    )
    late.settle()
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer"}


def test_a_branch_keeps_its_own_schema_when_that_of_main_is_taken_back(tmp_path: Path) -> None:
    world = BranchWorld(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,v\n1,2\n")
    source = f"files, path: {tmp_path}/in/*.csv, format: csv, options: {{header: true}}"
    world.apply_in("main", f"  other:\n    read: {{connector: {source}}}\n")
    world.ran()
    world.create("dev")
    controls.refresh(world.ctx, "dev", "shop.other", force=True)
    world.ran()
    controls.refresh(world.ctx, "main", "shop.other", schema=True)
    with world.store.read() as tx:
        pins = {b: tx.states.pinned_schemas(b, ["shop.other"])["shop.other"] for b in BRANCHES}
    assert [b for b, pin in pins.items() if pin.settings == TAKEN_BACK] == ["main"]
