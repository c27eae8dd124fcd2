"""Transforms that a driver goes on to in the claim of what they read: their results are taken in
where their keys are right, and left where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.operations.desired import controls
from controlplane.operations.upkeep import orphans
from controlplane.operations.upkeep.fsck import fsck
from tests.property.engine import Taken
from tests.unit.expectations.world import BRANCH, World
from tests.unit.plan.test_begun import arrive, end, go_on

PLUS = "  plus: {transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}}\n"
CHAIN = PLUS + "  sized: {transform: {sql: 'SELECT k, abs(v - 1) AS w FROM plus'}}\n"
NO_SIZE = -(2**63)  # has no absolute value in 64 bits


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.put("a.csv", (1, 10))
    made.apply(CHAIN)
    made.settle()
    return made


def late(world: World, value: int = 20) -> Taken:
    """The claim of a file that arrives."""
    world.put("b.csv", (2, value))
    return arrive(world, "shop.orders")


def computed(world: World, taken: Taken) -> list[Any]:
    [results] = world.engine._carry_out([taken.claim])
    return results


def executed(world: World) -> dict[str, int]:
    """Tasks that were executed so far, by dataset."""
    with world.store.read() as tx:
        events = [e for e in tx.events.newer(BRANCH, 0, 10_000) if e.kind == "task.executed"]
    return {d: sum(e.n for e in events if e.dataset == d) for d in {e.dataset for e in events}}


def test_a_chain_is_computed_in_one_claim_and_committed_in_one_pass(world: World) -> None:
    before = executed(world)
    end(world, late(world))
    assert world.once().changed == 3
    assert executed(world) == {dataset: n + 1 for dataset, n in before.items()}
    assert world.engine._take() is None
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_files_lie_in_the_folders_of_their_datasets(world: World) -> None:
    end(world, late(world))
    world.once()
    with world.store.read() as tx:
        fragments = tx.traces.fragments([of.fragment for of in tx.traces.files()]).values()
    assert {fragment.home for fragment in fragments} == {"shop.orders", "shop.plus", "shop.sized"}
    for fragment in fragments:
        folder = f"default/{fragment.home.replace('.', '/')}/_frags/"
        assert all(file["path"].startswith(folder) for file in fragment.files)


def test_rows_that_are_as_they_were_lead_to_nothing(world: World) -> None:
    before = world.engine.followers
    path = world.home / "orders" / "a.csv"
    path.write_text(path.read_text().replace("1,10", '"1","10"'))
    assert world.settle() == {"parse": 1}
    world.put("a.csv", (1, -10))  # sized gives what it gave before
    assert world.settle() == {"parse": 1, "transform": 2}
    assert world.engine.followers == before + 2


def test_one_that_fails_is_left_to_a_claim_of_its_own(world: World) -> None:
    end(world, late(world, NO_SIZE))
    go_on(world)
    assert world.rows("shop.plus") == [(1, 11), (2, NO_SIZE + 1)]
    assert world.decision("shop.sized").status == "failed"


def test_from_a_wrong_key_on_nothing_is_taken_in(world: World) -> None:
    taken = late(world)
    [result] = results = computed(world, taken)
    assert [r["dataset"] for r in result["then"]] == ["shop.plus", "shop.sized"]
    result["then"][0]["task"] = "0" * 64
    before = executed(world)
    end(world, taken, results)
    assert executed(world) == before | {"shop.orders": before["shop.orders"] + 1}
    go_on(world)
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_contents_other_than_those_of_the_key_are_not_taken_in(world: World) -> None:
    taken = late(world)
    [result] = results = computed(world, taken)
    result["then"][0]["content"] = [9, 9, 9]  # the key of what follows it does not fit
    end(world, taken, results)
    with world.store.read() as tx:
        keys = [bytes.fromhex(r["task"]) for r in result["then"]]
        assert list(tx.traces.hits(keys)) == keys[:1]


def test_datasets_that_are_not_followers_are_not_taken_in(world: World) -> None:
    taken = late(world)
    [result] = results = computed(world, taken)
    result["then"][1]["dataset"] = "shop.other"
    world.lake.objects |= {
        path.replace("/sized/", "/other/"): body for path, body in world.lake.objects.items()
    }
    for file in result["then"][1]["files"]:
        file["path"] = file["path"].replace("/sized/", "/other/")
    end(world, taken, results)
    with world.store.read() as tx:
        assert not tx.traces.hits([bytes.fromhex(result["then"][1]["task"])])


def test_files_outside_of_the_follower_s_folder_damage_the_result(world: World) -> None:
    taken = late(world)
    [result] = results = computed(world, taken)
    for file in result["then"][0]["files"]:
        file["path"] = file["path"].replace("/plus/", "/orders/")
    before = executed(world)
    end(world, taken, results)
    assert executed(world) == before
    world.now += 100.0
    go_on(world)
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_files_of_a_follower_that_are_gone_leave_the_result_before_it(world: World) -> None:
    taken = late(world)
    [result] = results = computed(world, taken)
    for file in result["then"][0]["files"]:
        del world.lake.objects[file["path"]]
    before = executed(world)
    end(world, taken, results)
    assert executed(world)["shop.orders"] == before["shop.orders"] + 1
    go_on(world)
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_a_task_that_failed_before_is_tried_without_followers(world: World) -> None:
    taken = late(world)
    assert "followers" in taken.claim["job"]
    world.engine._end(taken.claim, taken.driver, [], "dies")
    world.now += 100.0
    again = world.engine._take()
    assert again is not None
    assert "followers" not in again.claim["job"]
    end(world, again)
    go_on(world)
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_a_paused_dataset_is_as_it_was_until_it_goes_on(world: World) -> None:
    taken = late(world)
    controls.pause(world.ctx, BRANCH, "shop.plus")
    end(world, taken)
    go_on(world)
    assert world.rows("shop.plus") == [(1, 11)]
    controls.resume(world.ctx, BRANCH, "shop.plus")
    assert world.settle() == {}
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_an_edit_meanwhile_makes_its_result_unused(world: World) -> None:
    taken = late(world)
    world.apply(CHAIN.replace("v + 1", "v + 2"))
    end(world, taken)
    go_on(world)
    assert world.rows("shop.sized") == [(1, 11), (2, 21)]


def test_a_manifest_has_what_a_driver_went_on_to(world: World) -> None:
    taken = late(world)
    world.engine._end(taken.claim, taken.driver, computed(world, taken), "dies late")
    assert world.once().changed == 3
    assert world.rows("shop.sized") == [(1, 10), (2, 20)]


def test_two_of_the_same_code_are_computed_once(world: World) -> None:
    world.apply(CHAIN + PLUS.replace("plus", "again"))
    world.settle()
    taken = late(world)
    [result] = results = computed(world, taken)
    assert len({r["task"] for r in result["then"]}) == len(result["then"])
    end(world, taken, results)
    go_on(world)
    assert world.rows("shop.again") == world.rows("shop.plus")


def test_upkeep_looks_into_all_folders_of_an_attempt(world: World) -> None:
    end(world, late(world))
    world.once()
    assert not fsck(world.store, "default", world.lake)
    before = dict(world.lake.objects)
    assert orphans.sweep(world.store, "default", world.lake) == 0
    world.put("c.csv", (3, 30))
    taken = arrive(world, "shop.orders")
    computed(world, taken)
    world.engine._end(taken.claim, taken.driver, [], "dies")
    assert world.lake.objects == before


def test_an_input_that_a_follower_reads_whole_is_held_and_read(world: World) -> None:
    (world.home / "small").mkdir()
    (world.home / "small" / "s.csv").write_text("k\n2\n")
    place = f"connector: files, path: '{world.home}/small/*.csv', format: csv"
    read = f"{{{place}, options: {{header: true}}, schema: k BIGINT}}"
    met = "SELECT orders.k, v FROM orders JOIN small USING (k)"
    world.apply(
        f"  small: {{read: {read}}}\n  met: {{transform: {{sql: '{met}', inputs: {{orders: each}}}}}}\n"
    )
    world.settle()
    taken = late(world)
    with world.store.read() as tx:
        root = tx.states.newest(BRANCH, ["shop.small"])["shop.small"].root
        assert root in {pointer.root for pointer in tx.upkeep.pointers(("task",))}
    [result] = results = computed(world, taken)
    assert [r["dataset"] for r in result["then"]] == ["shop.met"]
    end(world, taken, results)
    world.once()
    assert world.rows("shop.met") == [(2, 20)]
