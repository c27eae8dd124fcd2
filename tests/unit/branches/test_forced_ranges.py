"""A range of partitions is computed again, and no partition beside it. A merge keeps the newest
recomputation of each partition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from controlplane.core.errors import NotFound, TooManyRanges
from controlplane.core.model.forces import (
    MOST_RANGES,
    ForcedRange,
    KeyRange,
    joined,
    number_at,
)
from controlplane.operations.desired import branches, controls, merging
from tests.unit.branches.test_overlay import REST
from tests.unit.branches.world import BranchWorld


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    made = BranchWorld(tmp_path)
    for name in ("a", "b", "c", "d"):
        made.put(f"{name}.csv", (1, 10), (2, 20))
    made.apply(REST)
    made.settle()
    branches.create(made.ctx, "dev")
    return made


def again(world: BranchWorld, first: str, last: str | None, branch: str = "main") -> dict[str, int]:
    """The tasks that run after a request for partitions of `doubled`."""
    controls.refresh(world.ctx, branch, "shop.doubled", partitions=KeyRange(first, last))
    return dict(world.ran())


def test_only_partitions_of_the_range_run(world: BranchWorld) -> None:
    assert again(world, "b.csv", "c.csv") == {"transform": 2}
    assert again(world, "c.csv", None) == {"transform": 2}
    assert again(world, "", "a.csv") == {"transform": 1}
    assert world.values("main", "shop.doubled") == [(1, 20)] * 4 + [(2, 40)] * 4
    controls.refresh(world.ctx, "main", "shop.doubled", force=True)
    assert world.ran() == {"transform": 4}


def test_a_late_partition_runs_alone_after_a_range(world: BranchWorld) -> None:
    again(world, "b.csv", "d.csv")
    world.put("c1.csv", (3, 30))
    world.settle()
    with world.store.read() as tx:
        states = tx.states.newest("main", ["shop.doubled"])
    assert list(world.parts(states["shop.doubled"])) == [
        "a.csv",
        "b.csv",
        "c.csv",
        "c1.csv",
        "d.csv",
    ]


def test_partitions_of_a_source_are_read_again(world: BranchWorld) -> None:
    controls.refresh(world.ctx, "main", "shop.orders", partitions=KeyRange("a.csv", "b.csv"))
    assert world.ran() == {"parse": 2}  # equal rows: nothing after them


def test_ranges_of_both_sides_of_a_merge_stay(world: BranchWorld) -> None:
    assert again(world, "a.csv", "a.csv") == {"transform": 1}
    assert again(world, "c.csv", "d.csv", branch="dev") == {"transform": 2}
    merging.merge_branch(world.ctx, "dev")
    assert not world.ran()
    # The numbers of both sides are part of the new one
    assert again(world, "b.csv", "b.csv") == {"transform": 1}


def test_a_whole_recomputation_replaces_earlier_ranges_of_the_other_side(
    world: BranchWorld,
) -> None:
    again(world, "a.csv", "b.csv")
    controls.refresh(world.ctx, "dev", "shop.doubled", force=True)
    assert world.ran() == {"transform": 4}
    merging.merge_branch(world.ctx, "dev")
    assert not world.ran()


@pytest.mark.parametrize("seed", range(200))
def test_a_join_has_the_newest_number_of_each_partition(seed: int) -> None:
    chance, keys = Random(seed), "abcdef"
    ranges: dict[int, ForcedRange] = {}
    numbers = [0, 0]
    for number in range(1, chance.randint(2, 9)):
        side = chance.randint(0, 1)
        if chance.random() < 0.7:
            first, last = sorted(chance.choices(keys, k=2))
            ranges[number] = ForcedRange(first, last, number, numbers[side])
        numbers[side] = number
    expected = [max(number_at(ranges, n, key) for n in numbers) for key in keys]
    last_number, added = joined(ranges, *sorted(numbers))
    for id, forced in enumerate(added, start=100):
        ranges[id] = replace(forced, before=last_number)
        last_number = id
    assert [number_at(ranges, last_number, key) for key in keys] == expected


def test_a_number_that_stands_for_both_branches_stays() -> None:
    of_main, after_a_whole_one = ForcedRange("a", "b", 1, 0), ForcedRange("c", "c", 3, 2)
    assert joined({1: of_main, 3: after_a_whole_one}, 1, 3) == (3, ())


@pytest.mark.parametrize(
    ("target", "first", "last"),
    [
        ("shop.doubled", "x.csv", None),
        ("shop.doubled", "c.csv", "b.csv"),
        ("shop.sums", "", None),  # it has no partitions
        ("shop", "a.csv", "b.csv"),
    ],
)
def test_a_range_without_partitions_is_refused(
    world: BranchWorld, target: str, first: str, last: str | None
) -> None:
    with pytest.raises(NotFound):
        controls.refresh(world.ctx, "main", target, partitions=KeyRange(first, last))
    assert not world.ran()


def test_ranges_are_bounded_until_the_whole_dataset_is_computed(world: BranchWorld) -> None:
    for _ in range(MOST_RANGES):
        controls.refresh(world.ctx, "main", "shop.doubled", partitions=KeyRange("a.csv", None))
    with pytest.raises(TooManyRanges, match=r"headgate refresh shop\.doubled --force"):
        controls.refresh(world.ctx, "main", "shop.doubled", partitions=KeyRange("a.csv", None))
    controls.refresh(world.ctx, "main", "shop.doubled", force=True)
    assert again(world, "a.csv", "a.csv") == {"transform": 4}
