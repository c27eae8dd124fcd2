"""Watermarks and closed partitions over random logs, cut into random slices: what a dataset with
`emit: final` holds is what the whole log says, however it was cut and with whichever restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from controlplane.core.explain.watermark_words import of_dataset
from controlplane.core.plan.event_watermarks import watermark_of_inputs, watermark_us
from controlplane.operations.desired import controls
from controlplane.operations.planning.snapshot import desired
from dataplane.contract.kinds import DRIVER_KINDS, Kind
from tests.property.engine import Fault, Faults
from tests.property.late_model import BASE_S, MINUTE_US
from tests.property.streams import HOUR, StreamWorld, closed_rows, expected_watermark
from tests.property.world import BRANCH, no_faults
from tests.slices import sliced

DELAY = 30
PARTITIONS = 3
FAULTS: tuple[Fault, ...] = ("dies", "dies late", "stutters", "straggles")
FAULT_SHARE = 0.67  # a task whose driver dies several times on end is given up, and retried
NEXT_YEAR = 365 * 24 * HOUR


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StreamWorld]:
    made = StreamWorld(tmp_path, exact=request.param)
    yield made
    made.close()


def settle(world: StreamWorld, faults: Faults = no_faults, *, whole: bool = False) -> None:
    world.engine.is_whole = whole
    controls.refresh(world.ctx, BRANCH, None)
    world._run(faults)
    if faults is not no_faults:
        controls.retry(world.ctx, BRANCH, None)
        world._run(no_faults)


def committed(world: StreamWorld) -> dict[int, list[int | None]]:
    """The log as far as it was listed."""
    last = world.engine.slices[-1]
    return {of.partition: world.engine.log[of.partition][: of.end] for of in last}


def watermark(world: StreamWorld, name: str) -> float | None:
    state = world.state(name)
    with world.store.read() as tx:
        node = desired(tx, BRANCH).nodes[f"a.{name}"]
    at_us = watermark_us(node, state) if node.is_source else watermark_of_inputs(state)
    return None if at_us is None else (at_us - BASE_S * 1_000_000) / MINUTE_US


def fault(chance: random.Random, kind: Kind) -> Fault:
    """Listings have none: the slices that they found are the truth of this test."""
    if kind in DRIVER_KINDS and chance.random() < FAULT_SHARE:
        return chance.choice(FAULTS)
    return "none"


def add(world: StreamWorld, chance: random.Random, partitions: list[int]) -> None:
    """Some messages around now, a few of them late, without a time, or of next year."""
    for partition in partitions:
        times = world.engine.log.setdefault(partition, [])
        for _ in range(chance.randrange(6)):
            spread = chance.choice([0, 5, 5, 90, 600])
            t = world.engine.now - chance.randint(0, spread)
            times.append(chance.choice([t] * 20 + [None, t + NEXT_YEAR]))


def check(world: StreamWorld, idle: int | None = None, delay: int = DELAY) -> None:
    wanted = expected_watermark(world.engine, idle, delay)
    assert watermark(world, "orders") == wanted
    assert watermark(world, "hours") == wanted
    rows = closed_rows(committed(world), wanted)
    assert world.rows("hours") == rows
    assert world.rows("after") == rows


@pytest.mark.parametrize("seed", sliced(range(40), of=8))
def test_random_logs(world: StreamWorld, seed: int) -> None:
    chance = random.Random(seed)
    idle = chance.choice([None, 60, 240])
    rule = f"column: t, delay: {DELAY}m" + (f", idle: {idle}m" if idle else "")
    world.engine.chance = chance
    world.engine.now = 1_000
    add(world, chance, [*range(PARTITIONS)])
    world.engine.log[0].append(990)
    world.write(rule)
    for _ in range(12):
        settle(world, partial(fault, chance))
        if world.engine.slices:
            check(world, idle)
        world.engine.now += chance.choice([0, 7, 50, 130])
        add(world, chance, chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS)))
    settle(world, whole=True)
    check(world, idle)


@pytest.mark.parametrize("seed", sliced(range(20), of=5))
def test_another_slicing_gives_the_same(tmp_path: Path, seed: int) -> None:
    """Without `idle` the watermark is a function of the log: so are the rows that it closes."""
    results = []
    for number in range(2):
        chance = random.Random(seed)
        world = StreamWorld(tmp_path / str(number))
        world.engine.chance = random.Random(seed + number)
        world.engine.now = 1_000
        world.write(f"column: t, delay: {DELAY}m")
        for _ in range(6):
            add(world, chance, [*range(PARTITIONS)])
            world.engine.log[0].append(None)
            if number:
                settle(world)
        settle(world, whole=True)
        results.append((watermark(world, "orders"), world.rows("hours"), world.state("hours").root))
        world.close()
    assert results[0] == results[1]
    assert results[0][1]


def test_a_partition_is_computed_once_when_it_closes(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [600, 610, 630, 650]}
    world.write("column: t, delay: 10m")
    settle(world, whole=True)
    assert not world.rows("hours")
    assert world.state("after").inputs["hours"].watermark_us == (BASE_S + 600 * 60) * 1_000_000
    for t in range(655, 730, 5):
        world.engine.log[0].append(t)
        settle(world, whole=True)
    assert watermark(world, "hours") == 725 - 10
    works = [work.partition for work in world.engine.done if work.dataset == "a.hours"]
    computed = [key for key in works if key.startswith("t=")]
    assert computed == ["t=2026-01-01T10"]
    words = "closed by the watermark of 2026-01-01 11:55:00 UTC"
    with world.store.read() as tx:
        node = desired(tx, BRANCH).nodes["a.hours"]
    assert of_dataset(node, world.state("hours")) == {
        "at": "2026-01-01T11:55:00+00:00",
        "ahead": 0,
        "sentence": words,
    }
    # A late row is no lost row: the closed partition is corrected.
    world.engine.log[0].append(601)
    settle(world, whole=True)
    check(world, delay=10)


def test_a_partition_that_comes_back_opens_what_it_is_behind(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [300], 1: [310]}
    world.write("column: t, delay: 1m, idle: 30m")
    settle(world, whole=True)
    world.engine.now = 1_100
    world.engine.log[1].append(500)
    settle(world, whole=True)
    assert watermark(world, "hours") == 499
    assert world.rows("hours")
    world.engine.log[0].append(301)
    settle(world, whole=True)
    assert watermark(world, "hours") == 300
    assert not world.rows("hours")


def test_sentences_name_idle_partitions_and_rows_ahead(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [300], 1: [310, 5_000]}
    world.write("column: t, delay: 1m, idle: 30m")
    settle(world, whole=True)
    world.engine.now = 1_100
    world.engine.log[1].append(500)
    settle(world, whole=True)
    with world.store.read() as tx:
        watermark_words = of_dataset(desired(tx, BRANCH).nodes["a.orders"], world.state("orders"))
    assert watermark_words == {
        "at": "2026-01-01T08:19:00+00:00",
        "ahead": 1,
        "sentence": "the watermark is 2026-01-01 08:19:00 UTC, by partition 1;"
        " partition 0 is idle since 2026-01-01 16:40:00 UTC;"
        " 1 row is too far ahead, and left out of it",
    }


def test_rows_ahead_are_counted_and_close_nothing(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [990, 1_055, 1_061, 5_000]}
    world.write("column: t, delay: 5m")
    settle(world, whole=True)
    assert watermark(world, "orders") == 1_050
    times = world.state("orders").inputs["objects"].times
    assert times is not None
    assert times.ahead == 2


def test_switching_emit(world: StreamWorld) -> None:
    world.engine.now = 1_000
    world.engine.log = {0: [600, 700, 720]}
    world.write("column: t, delay: 5m")
    settle(world, whole=True)
    check(world, delay=5)
    world.write("column: t, delay: 5m", "changes")
    settle(world, whole=True)
    assert len(world.rows("after")) == 3
    world.write("column: t, delay: 80m")
    settle(world, whole=True)
    assert not world.rows("after")
