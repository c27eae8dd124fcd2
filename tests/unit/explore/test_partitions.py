"""One partition with what it is made of and what is made of it; some partitions; ranges of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Generation
from controlplane.operations.explore.partition import partition
from controlplane.operations.explore.partition_ranges import ranges
from controlplane.operations.explore.partitions import KeyPage, changed_in, with_work
from controlplane.operations.inspect import datasets
from tests.unit.expectations.world import World

REST = """\
  doubled: {transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}}
  total: {transform: {sql: 'SELECT sum(v) AS v FROM doubled'}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Generation 1 has a and b; generation 2 has a as it was, other rows in b, and c."""
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    world.apply(REST)
    world.settle()
    world.put("b.csv", (2, 21))
    world.put("c.csv", (3, 30))
    world.settle()
    yield world
    world.store.close()


def of(world: World, name: str, key: str, generation: int | None = None) -> Any:
    point = None if generation is None else Generation(generation)
    return partition(world.ctx, "main", f"shop.{name}", key, point)


def test_a_partition_knows_its_file_its_attempt_and_its_neighbours(world: World) -> None:
    found = of(world, "doubled", "b.csv")
    assert (found["generation"], found["rows"], len(found["files"])) == (2, 1, 1)
    # Its driver went on to it from the file
    assert found["attempt"]["dataset"] == "shop.orders"
    assert of(world, "doubled", "a.csv")["attempt"]["dataset"] == "shop.doubled"
    assert found["task_seconds"] is not None
    [made_of] = found["inputs"]
    assert (made_of["slot"], made_of["dataset"], made_of["partitions"]) == (
        "orders",
        "shop.orders",
        ["b.csv"],
    )
    [read_by] = found["readers"]
    assert (read_by["dataset"], read_by["mode"], read_by["whole"]) == ("shop.total", "all", True)
    source = of(world, "orders", "b.csv")
    assert [one["objects"][0].endswith("/b.csv") for one in source["objects"]] == [True]
    assert source["inputs"] == []


def test_since_when_a_partition_is_as_it_is(world: World) -> None:
    since = {key: of(world, "doubled", key)["since"] for key in ("a.csv", "b.csv", "c.csv")}
    assert {key: one["generation"] for key, one in since.items()} == {
        "a.csv": 1,
        "b.csv": 2,
        "c.csv": 2,
    }
    assert all(one["is_exact"] for one in since.values())
    assert (since["a.csv"]["cause"], since["b.csv"]["cause"]) == ("missing", "input")


def test_a_partition_of_an_earlier_generation_has_no_readers_that_moved_on(world: World) -> None:
    assert of(world, "orders", "b.csv", 1)["readers"] == []
    [reader] = of(world, "orders", "a.csv", 1)["readers"]
    assert reader["partitions"] == ["a.csv"]
    with pytest.raises(NotFound, match=r"no partition 'c.csv' in generation 1"):
        of(world, "orders", "c.csv", 1)


def test_what_a_generation_changed(world: World) -> None:
    def told(number: int, page: KeyPage = KeyPage()) -> Any:  # noqa: B008  # a value
        found = changed_in(world.ctx, "main", "shop.doubled", number, page)
        return {item["partition"]: item["change"] for item in found["items"]}, found["next"]

    assert told(1) == ({"a.csv": "added", "b.csv": "added"}, None)
    assert told(2) == ({"b.csv": "changed", "c.csv": "added"}, None)
    assert told(2, KeyPage(limit=1)) == ({"b.csv": "changed"}, "b.csv")
    assert told(2, KeyPage(after="b.csv")) == ({"c.csv": "added"}, None)
    assert told(2, KeyPage(prefix="c")) == ({"c.csv": "added"}, None)
    (world.home / "orders" / "a.csv").unlink()
    world.settle()
    assert told(3) == ({"a.csv": "removed"}, None)


def test_partitions_with_work_to_do_and_with_failures(world: World) -> None:
    world.apply(REST.replace("2 * v", "no_such_function(v)"))
    to_do = with_work(world.ctx, "main", "shop.doubled", "to_do", KeyPage())
    assert [item["partition"] for item in to_do["items"]] == ["", "a.csv", "b.csv", "c.csv"]
    assert to_do["items"][0]["fragment"] is None
    world.settle()
    failed = with_work(world.ctx, "main", "shop.doubled", "failed", KeyPage())
    assert [item["work"] for item in failed["items"]] == ["failed"]
    assert with_work(world.ctx, "main", "shop.orders", "failed", KeyPage())["items"] == []


def test_work_is_paged_by_keys(world: World) -> None:
    world.apply(REST.replace("2 * v", "3 * v"))
    first = with_work(world.ctx, "main", "shop.doubled", "to_do", KeyPage(limit=2))
    assert ([item["partition"] for item in first["items"]], first["next"]) == (
        ["a.csv", "b.csv"],
        "b.csv",
    )
    rest = with_work(world.ctx, "main", "shop.doubled", "to_do", KeyPage(after="b.csv"))
    assert [(item["partition"], item["rows"]) for item in rest["items"]] == [("c.csv", 1)]


def test_keys_that_begin_alike(world: World) -> None:
    found = datasets.partitions(world.ctx, "main", "shop.orders", after=None, limit=9, prefix="b")
    assert [item["partition"] for item in found["items"]] == ["b.csv"]


def test_ranges_of_a_small_dataset_are_its_partitions(world: World) -> None:
    found = ranges(world.ctx, "main", "shop.doubled", against=Generation(1))
    assert [(one["last"], one["differs"]) for one in found["items"]] == [
        ("a.csv", False),
        ("b.csv", True),
        ("c.csv", True),
    ]
    assert (found["generation"], found["against"], found["partitions"], found["reads"]) == (
        2,
        1,
        3,
        2,
    )
    alone = ranges(world.ctx, "main", "shop.doubled", Generation(1), cells=1)
    assert [
        (one["after"], one["last"], one["partitions"], one["differs"]) for one in alone["items"]
    ] == [(None, "b.csv", 2, None)]


def test_history_says_what_changed_who_wanted_it_and_which_generation_is_the_same(
    world: World,
) -> None:
    world.apply(REST.replace("2 * v", "3 * v"))
    world.settle()
    world.apply(REST)
    world.settle()
    found = datasets.history(world.ctx, "main", "shop.doubled", before=None, limit=3)
    items = {one["generation"]: one for one in found["items"]}
    assert [items[n]["same_as"] for n in (4, 3, 2)] == [2, None, None]
    assert items[3]["changes"] == {"added": 0, "changed": 3, "removed": 0, "is_all": True}
    assert items[2]["changes"] == {"added": 1, "changed": 1, "removed": 0, "is_all": True}
    assert [items[n]["actor"] for n in (4, 3, 2)] == ["local", "local", None]
    [last] = datasets.history(world.ctx, "main", "shop.doubled", before=None, limit=1)["items"]
    assert last["same_as"] == 2
    [first] = datasets.history(world.ctx, "main", "shop.doubled", before=2, limit=1)["items"]
    assert (first["actor"], first["changes"]) == (
        "local",
        {"added": 2, "changed": 0, "removed": 0, "is_all": True},
    )
