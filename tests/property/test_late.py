"""Late rows of random logs, cut into random slices, with restarts: those that one pass over the whole
log finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from controlplane.core import tree
from controlplane.core.explain.watermark_words import of_dataset
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.upkeep.repair import repair
from tests.property.late_model import sorted_out
from tests.property.model import Row
from tests.property.streams import HOUR, StreamWorld
from tests.property.test_event_time import (
    PARTITIONS,
    add,
    fault,
    settle,
    watermark,
)
from tests.property.world import BRANCH
from tests.slices import sliced

COLUMNS = ("t", "_partition", "_offset")
RULE = "column: t, delay: {}m"


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StreamWorld]:
    made = StreamWorld(tmp_path, exact=request.param)
    yield made
    made.close()


def listed_log(world: StreamWorld) -> dict[int, list[tuple[int | None, int]]]:
    """Each listed message, with the minute of its listing."""
    log: dict[int, list[tuple[int | None, int]]] = {}
    for ranges, listed in zip(world.engine.slices, world.engine.listed, strict=True):
        for of in ranges:
            times = world.engine.log[of.partition][of.first : of.end]
            log.setdefault(of.partition, []).extend((t, listed) for t in times)
    return log


def check_late(world: StreamWorld, delay: int, *, quarantined: bool) -> int:
    """The number of late rows."""
    on_time, late = sorted_out(listed_log(world), delay, HOUR)
    assert world.rows("orders_messages", COLUMNS) == on_time + late
    assert world.rows("orders", COLUMNS) == on_time
    if quarantined:
        reasons = world.rows("orders__quarantine", (*COLUMNS, "_reason"))
        assert {(*row, "late"): n for row, n in late.items()} == reasons
    with world.store.read() as tx:
        words = of_dataset(desired(tx, BRANCH).nodes["a.orders"], world.state("orders"))
    assert words is not None
    total = on_time.total() + late.total()
    assert words["sentence"].startswith(f"{late.total():,} of {total:,} rows are late, and ")
    return late.total()


@pytest.mark.parametrize("seed", sliced(range(60), of=10))
def test_random_logs(world: StreamWorld, seed: int) -> None:
    chance = random.Random(seed)
    delay = chance.choice([1, 5, 30, 200])
    late = chance.choice(["drop", "quarantine"])
    world.engine.chance = chance
    world.engine.is_unordered = chance.random() < 0.3
    world.engine.now = 1_000
    add(world, chance, [*range(PARTITIONS)])
    world.engine.log[0].append(990)
    world.write(RULE.format(delay))
    settle(world, partial(fault, chance))
    parsed = _parsed(world)
    world.write(RULE.format(delay), late=late)
    for _ in range(10):
        settle(world, partial(fault, chance))
        if world.engine.slices:
            check_late(world, delay, quarantined=late == "quarantine")
        world.engine.now += chance.choice([0, 7, 50, 130])
        add(world, chance, chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS)))
    settle(world, whole=True)
    check_late(world, delay, quarantined=late == "quarantine")
    # Slices are read once, whatever becomes of late rows.
    world.write(RULE.format(delay + 20), late="drop")
    settle(world, whole=True)
    check_late(world, delay + 20, quarantined=False)
    world.write(RULE.format(delay + 20))
    settle(world, whole=True)
    assert world.rows("orders", COLUMNS).total() == sum(map(len, listed_log(world).values()))
    assert _parsed(world) == len(world.engine.slices) >= parsed


def _parsed(world: StreamWorld) -> int:
    return len([work for work in world.engine.done if work.key[:1] == ("slice",)])


@pytest.mark.parametrize("seed", sliced(range(20), of=5))
def test_another_slicing_drops_the_same(tmp_path: Path, seed: int) -> None:
    roots: list[set[object]] = []
    for number in range(2):
        chance = random.Random(seed)
        world = StreamWorld(tmp_path / str(number))
        world.engine.chance = random.Random(seed + number)
        world.engine.now = 1_000
        world.write(RULE.format(10), late="drop")
        for _ in range(6):
            add(world, chance, [*range(PARTITIONS)])
            if number:
                settle(world)
        settle(world, whole=True)
        roots.append({*world.rows("orders", COLUMNS)})
        world.close()
    assert roots[0] == roots[1]


@pytest.mark.parametrize("seed", sliced(range(20), of=5))
def test_corrected_messages_make_other_rows_late(world: StreamWorld, seed: int) -> None:
    chance = random.Random(seed)
    world.engine.chance = chance
    world.engine.now = 1_000
    world.write(RULE.format(20), late="quarantine")
    for _ in range(6):
        add(world, chance, [*range(PARTITIONS)])
        settle(world, whole=True)
        world.engine.now += 30
    for _ in range(4):
        _correct(world, chance)
        add(world, chance, [*range(PARTITIONS)])
        settle(world, whole=True)
        check_late(world, 20, quarantined=True)


def _correct(world: StreamWorld, chance: random.Random) -> None:
    """A slice is lost, and read again with another time of one of its messages."""
    with world.store.read() as tx:
        state = tx.states.newest(BRANCH)["a.orders_messages"]
        entries = [entry for entry in tree.scan(tx.nodes, state.root) if entry.content.rows]
        entry = chance.choice(entries[: len(entries) // 2])
        [file] = tx.traces.fragments([entry.fragment])[entry.fragment].files
    world.lake.delete_prefix(file["path"].rpartition("/")[0])
    ranges = world.engine.slices[int(entry.key) - 1]
    of = chance.choice([of for of in ranges if of.first < of.end])
    world.engine.log[of.partition][chance.randrange(of.first, of.end)] = chance.choice([900, 1_150])
    assert repair(world.store, world.ctx.namespace, world.lake).fragments


def test_a_slice_without_late_rows_is_taken_as_it_is(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [600, 595, 610]}
    world.write(RULE.format(10), late="drop")
    settle(world, whole=True)
    world.engine.log[0] += [700, 691]
    settle(world, whole=True)
    assert _computed(world) == []
    assert world.state("orders").root == world.state("orders_messages").root
    world.engine.log[0] += [705, 689]
    settle(world, whole=True)
    ends = [ranges[0].end for ranges in world.engine.slices]
    assert _computed(world) == [f"{ends.index(7) + 1:012}"]
    assert check_late(world, 10, quarantined=False) == 1


def test_rows_are_judged_by_the_last_max_ahead(world: StreamWorld) -> None:
    """Slices are read again with equal rows, and other newest times."""
    world.engine.now = 1_000
    world.engine.log = {0: [1_000, 1_300, 990]}
    rule = "column: t, delay: 5m, max_ahead: {}h"
    for hours, t in ((1, 1_200), (10, 1_210), (1, 1_220), (10, 1_230)):
        world.write(rule.format(hours), late="drop")
        settle(world, whole=True)
        world.engine.log[0].append(t)
        settle(world, whole=True)
        on_time, _ = sorted_out(listed_log(world), 5, hours * HOUR)
        assert world.rows("orders", COLUMNS) == on_time


def test_times_that_an_earlier_version_measured(world: StreamWorld) -> None:
    """Its slices are read again."""
    world.engine.now = 1_000
    world.engine.log = {0: [600, 620, 605, 590]}
    world.engine.is_earlier_version = True
    world.write(RULE.format(10))
    settle(world, whole=True)
    world.engine.is_earlier_version = False
    world.write(RULE.format(10), late="drop")
    settle(world, whole=True)
    assert check_late(world, 10, quarantined=False) == 2


def test_slices_that_an_earlier_driver_measured_are_looked_at(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [600, 620, 605, 590]}
    world.engine.is_earlier_version = True
    world.write(RULE.format(10), late="quarantine")
    settle(world, whole=True)
    world.engine.log[0] += [609, 610]
    settle(world, whole=True)
    assert check_late(world, 10, quarantined=True) == 3


def _computed(world: StreamWorld) -> list[str]:
    return [work.partition for work in world.engine.done if work.dataset == "a.orders"]


def test_a_closed_window_never_changes(world: StreamWorld) -> None:
    chance = random.Random(3)
    world.engine.chance = chance
    world.engine.now = 1_000
    world.engine.log = {p: [900] for p in range(PARTITIONS)}
    world.write(RULE.format(30), late="drop")
    bound, closed = 0.0, Counter[Row]()
    for _ in range(40):
        add(world, chance, [*range(PARTITIONS)])
        settle(world, whole=True)
        rows = world.rows("hours")
        assert _before(rows, bound) == closed
        at = watermark(world, "hours")
        assert at is not None
        bound = at // HOUR * HOUR
        closed = _before(rows, bound)
        world.engine.now += 20
    assert closed
    assert check_late(world, 30, quarantined=False)


def _before(rows: Counter[Row], bound: float) -> Counter[Row]:
    return Counter({row: n for row, n in rows.items() if row[0] < bound})  # type: ignore[operator]  # a minute
