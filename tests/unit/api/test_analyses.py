"""A plan of an edit asks Spark for its columns, layer by layer, and waits; SQLite answers in
Spark's place.

Does not belong here: what an edit breaks (tests/unit/review), and Spark itself
(tests/e2e/test_service.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.api.services import Services
from controlplane.client import ApiError, Headgate
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.desired import tokens
from controlplane.operations.planning.edit_review import demand_of
from controlplane.reconciler.wake import WakeCounter
from tests.unit.api.world import render, serving
from tests.unit.expectations.world import BRANCH, HEAD, World

FLOW = """\
  dear: {transform: {sql: "SELECT k, v FROM orders WHERE v > 1", inputs: {orders: all}}}
  all_dear: {transform: {sql: "SELECT * FROM dear", inputs: {dear: all}}}
  spent: {transform: {sql: "SELECT sum(v) AS v FROM all_dear", inputs: {all_dear: all}}}
"""
DATASETS = ("shop.dear", "shop.all_dear", "shop.spent")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.apply(FLOW)
    world.settle()
    return world


@contextmanager
def client(world: World, analyser: Callable[[], str]) -> Iterator[Headgate]:
    """Of a server that calls `analyser` while it waits for answers."""
    lake = open_lake(str(world.home))
    services = Services(world.store, lake, WakeCounter(), render, lambda *_: "", analyser=analyser)
    admin, _ = tokens.create(world.ctx, "test", ("admin",))
    with serving(services) as url, Headgate(url, admin) as found:
        yield found


def planned(
    world: World, edit: tuple[str, str], analyser: Callable[[], str], timeout_s: float = 60.0
) -> Any:
    text = (HEAD + FLOW.replace("{", "{{").replace("}", "}}")).format(home=world.home)
    assert edit[0] in text
    document: Any = {"name": "/shop.yaml", "text": text.replace(*edit), "files": {}}
    with client(world, analyser) as api:
        return api.apply([document], dry_run=True, analyse_s=timeout_s)["plan"]


def assert_forgotten(world: World) -> None:
    with world.store.read() as tx:
        assert not any(tx.queue.demands(BRANCH, demand_of(dataset)) for dataset in DATASETS)
        assert not any(tx.queue.backlog().values())


def working(world: World, asked: list[int]) -> Callable[[], str]:
    """A driver; `asked` counts how often it found something."""

    def work() -> str:
        asked.extend([1] if world.work() else [])
        return ""

    return work


def no_driver() -> str:
    raise AssertionError("Spark is not needed")


def test_spark_tells_the_columns_of_an_edit_layer_by_layer_and_is_not_asked_again(
    world: World,
) -> None:
    edit = ("SELECT k, v FROM", "SELECT k, v, k + v AS both FROM")
    layers: list[int] = []
    before = world.kinds["analyse"]
    plan = planned(world, edit, working(world, layers))
    found = {c["component"]: (c["schema_from"], c["columns"]["added"]) for c in plan["changes"]}
    assert found == {"shop.dear": ("spark", ["both"]), "shop.all_dear": ("spark", ["both"])}
    assert (len(layers), world.kinds["analyse"] - before) == (2, 2)  # `spent` reads what it read
    assert_forgotten(world)
    assert planned(world, edit, no_driver)["changes"] == plan["changes"]
    world.apply(FLOW.replace(*edit))
    assert world.settle()["analyse"] == 0  # a run has the answers


def test_what_spark_refuses_breaks_itself_at_its_place(world: World) -> None:
    plan = planned(world, ("SELECT k, v FROM", "SELECT k, value AS v FROM"), working(world, []))
    [found] = [one for one in plan["breaks"] if one["component"] == "shop.dear"]
    assert (found["code"], found["file"], found["line"]) == ("edit-breaks-itself", "/shop.yaml", 11)
    assert "no such column: value" in found["message"]
    assert_forgotten(world)


def test_what_is_not_answered_in_time_is_told_by_sqlglot_with_the_reason(world: World) -> None:
    edit = ("SELECT k, v FROM", "SELECT k, v, 1 AS one FROM")
    plan = planned(world, edit, lambda: "", timeout_s=0.0)
    late = "Spark has not answered in 0 s"
    assert [(c["component"], c["schema_from"], c["schema_unknown"]) for c in plan["changes"]] == [
        ("shop.dear", "sqlglot", late),
        ("shop.all_dear", "sqlglot", late),
    ]
    assert_forgotten(world)


def test_a_driver_that_ends_is_not_waited_for(world: World) -> None:
    plan = planned(world, ("v > 1", "v > 2"), lambda: "Spark's JVM did not start", timeout_s=3600.0)
    [change] = plan["changes"]
    assert change["schema_unknown"] == "Spark ended: Spark's JVM did not start"
    assert_forgotten(world)


@pytest.mark.parametrize(
    "edit", [("v > 1", "v > 1"), ("v > 1", "v  >  1"), ("  spent:", "  # words\n  spent:")]
)
def test_nothing_is_asked_where_no_logic_is_edited(world: World, edit: tuple[str, str]) -> None:
    assert planned(world, edit, no_driver)["breaks"] == []


def test_what_is_applied_is_not_analysed_first(world: World) -> None:
    with (
        client(world, no_driver) as api,
        pytest.raises(ApiError, match="analyse goes with dry_run"),
    ):
        api.apply([{"name": "a.yaml", "text": "dataflow: a\n", "files": {}}], analyse_s=1.0)
