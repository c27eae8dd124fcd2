"""Profiles of datasets: merged along the tree, kept beside its nodes, bounded in one look; and
their switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from controlplane.core import tree
from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Generation
from controlplane.operations.inspect import dataset_profiles
from dataplane.contract.identity import Content
from dataplane.contract.profiles import packed
from tests.unit.expectations.world import World
from tests.unit.profiles.test_merging import VALUES, profile

BRANCH = "main"
TOTAL = "  totals:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM orders GROUP BY k'}\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.put("a.csv", (1, 10), (2, None))
    world.put("b.csv", (3, 30), (4, 40), (5, None))
    yield world
    world.store.close()


def told(world: World, **wish: Any) -> Any:
    return dataset_profiles.profile(
        world.ctx, BRANCH, "shop.orders", **{"with_values": True, **wish}
    )


def column(found: Any, name: str = "v") -> Any:
    [one] = [c for c in found["columns"] if c["name"] == name]
    return one


def test_the_profile_is_that_of_all_partitions_and_a_withdrawn_file_shrinks_it(
    world: World,
) -> None:
    world.apply("")
    world.settle()
    found = told(world)
    v = column(found)
    assert (found["rows"], found["partitions"], found["sample"]) == (5, 2, {"rows": 5, "of": 5})
    assert (v["nulls"], v["null_share"], v["distinct"], v["distinct_basis"]) == (2, 0.4, 3, "exact")
    assert (v["values"]["min"], v["values"]["max"], v["values"]["bounds"]) == (10, 40, "exact")
    assert v["values"]["top"][0] == {"value": 10, "share": 0.2, "rows": 1}
    assert column(told(world, partition="a.csv"))["nulls"] == 1
    (world.home / "orders" / "b.csv").unlink()
    world.settle()
    after = told(world)
    assert (after["rows"], column(after)["nulls"], column(after)["values"]["max"]) == (2, 1, 10)
    assert column(told(world, point=Generation(1)))["values"]["max"] == 40


def test_without_the_right_to_rows_no_value_is_told(world: World) -> None:
    world.apply("")
    world.settle()
    found = told(world, with_values=False)
    assert found["values_need"] == "data"
    assert column(found).keys() == {
        "name",
        "type",
        "nulls",
        "null_share",
        "nulls_basis",
        "distinct",
        "distinct_basis",
    }
    world.put("c.csv", *((i, 10_000) for i in range(40)))
    world.settle()
    over = dataset_profiles.history(world.ctx, BRANCH, "shop.orders", with_values=False)
    assert {point["mean"] for one in over["columns"] for point in one["points"]} == {None}
    assert not any(
        "mean" in text
        for one in over["columns"]
        for point in one["points"]
        for text in point["moved"]
    )


def test_an_edit_of_the_switch_runs_nothing_and_new_partitions_follow_it(world: World) -> None:
    world.apply(TOTAL)
    world.settle()
    before = world.dataset("shop.totals")["logic"]
    world.apply("    profile: off\n" + TOTAL + "    profile: basic\n")
    assert not world.settle()
    assert world.dataset("shop.totals")["logic"] == before
    world.put("c.csv", (6, 60))
    world.settle()
    found = told(world)
    assert (found["rows"], found["unprofiled_rows"], found["sample"]["of"]) == (6, 1, 5)
    assert column(found)["null_share"] == 0.4  # of the rows that are known
    totals = dataset_profiles.profile(world.ctx, BRANCH, "shop.totals", with_values=True)
    assert (totals["sample"]["of"], column(totals)["values"]["max"]) == (0, 60)


def test_where_a_column_moved_is_marked(world: World) -> None:
    world.put("a.csv", *((i, i % 10) for i in range(40)))
    world.apply("")
    world.settle()
    world.put("c.csv", *((i, None) for i in range(40)))
    world.settle()
    world.put("d.csv", *((i, 500) for i in range(80)))
    world.settle()
    over = dataset_profiles.history(world.ctx, BRANCH, "shop.orders", column="v", with_values=True)
    [one] = over["columns"]
    assert [point["generation"] for point in one["points"]] == [1, 2, 3]
    first, second, third = (point["moved"] for point in one["points"])
    assert (first, second) == ([], ["NULL from 2% to 49%"])
    assert third[0] == "NULL from 49% to 25%"
    assert third[1].startswith("mean from 5")
    with pytest.raises(NotFound):
        dataset_profiles.history(world.ctx, BRANCH, "shop.orders", column="nope", with_values=True)


# --- wide ones ------------------------------------------------------------------------------------


def entries(numbers: Sequence[int]) -> list[tree.Entry]:
    return [tree.Entry(f"{i:07}", i.to_bytes(32, "big"), Content(1, i, i)) for i in numbers]


def test_a_look_reads_a_bounded_number_of_leaves_and_the_next_ones_go_on(world: World) -> None:
    count = 9_000
    row: dict[str, Any] = {**dict.fromkeys(map(str, VALUES)), "number": 1}
    with world.store.begin() as tx:
        root = tree.build(tx.nodes, entries(range(count)))
        bodies = {
            e.fragment: packed(profile([(i, {**row, "number": i})]))
            for i, e in enumerate(entries(range(count)))
        }
        tx.traces.put_profiles(bodies)
    seen: list[int] = []
    while True:
        with world.store.read() as tx:
            look = dataset_profiles.ProfileRequest(tx)
            found = look.at(root, count)
        dataset_profiles._keep(world.ctx, look)
        seen.append(found["rows"] - found.get("unprofiled", 0))
        assert found["rows"] == count
        if not look.is_partial:
            break
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert (seen[-1], found["columns"]["number"]["bounds"]) == (count, [0, count - 1])
    with world.store.read() as tx:
        again = dataset_profiles.ProfileRequest(tx, left=0)
        assert again.at(root, count) == found
    with world.store.begin() as tx:  # one partition more: one leaf is looked at
        [late] = entries([count + 7])
        tx.traces.put_profiles({late.fragment: packed(profile([(5, {**row, "number": -1})]))})
        edited = tree.edit(tx.nodes, root, [(late.key, late)])
    with world.store.read() as tx:
        look = dataset_profiles.ProfileRequest(tx)
        assert look.at(edited, count + 1)["columns"]["number"]["bounds"] == [-1, count - 1]
        assert (look.left, look.is_partial) == (dataset_profiles.LEAVES_A_LOOK - 1, False)


def test_what_is_kept_of_a_node_goes_with_it(world: World) -> None:
    with world.store.begin() as tx:
        root = tree.build(tx.nodes, entries(range(3)))
        tx.traces.put_profiles({root: b"node", entries([1])[0].fragment: b"fragment"})
    with world.store.begin() as tx:
        assert tx.upkeep.drop_nodes([root], world.now + 1) == 1
        assert tx.traces.profiles([root, entries([1])[0].fragment]) == {
            entries([1])[0].fragment: b"fragment"
        }
