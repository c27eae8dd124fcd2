"""Whole random runs by seed, and the command that replays one: `python -m tests.property.runs SEED
[KIND] [URL]`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from controlplane.core.plan import EXACT, FEWEST, WIDEST
from tests.property.changes import Changes, Richer
from tests.property.memory_store.store import MEMORY
from tests.property.world import World, no_faults


def calm(seed: int, url: str = MEMORY) -> None:
    """Changes come while nothing is under way; drivers die and stutter in every third run."""
    _calm("calm", seed, url, Changes)


def richer(seed: int, url: str = MEMORY) -> None:
    """The same with windows and functions in PySpark."""
    _calm("richer", seed, url, Richer)


def _calm(
    kind: str, seed: int, url: str, draw: type[Changes], fewest: int = FEWEST, widest: int = WIDEST
) -> None:
    def go(world: World, changes: Changes) -> None:
        def settle() -> None:
            world.settle(changes.faults() if seed % 3 == 0 else no_faults)

        settle()
        for _ in range(changes.chance.randint(10, 25)):
            changes.step()
            settle()
        list(changes.mend())
        settle()

    _run(kind, go, seed, url, draw, fewest, widest=widest)


def busy(seed: int, url: str = MEMORY) -> None:
    """Files and code change while work on earlier changes is under way."""

    def go(world: World, changes: Changes) -> None:
        world.settle()
        for _ in range(changes.chance.randint(3, 7)):
            faults = changes.faults() if seed % 3 == 0 else no_faults
            for _ in range(changes.chance.randint(1, 8)):
                changes.step_in_flight()
                world.advance(changes.chance, faults)
                if seed % 5 == 0:
                    changes.interrupt()
            world.settle(faults)

    _run("busy", go, seed, url)


def parted(seed: int, url: str = MEMORY) -> None:
    """As calm ones, and all that can be merged is computed in parts, in every other run by
    steps."""
    _calm("parted", seed, url, Changes, fewest=2, widest=1 if seed % 2 else WIDEST)


def timed(seed: int, url: str = MEMORY) -> None:
    """As calm, but some transforms are made anew each day, days go by, and datasets are forced."""

    def go(world: World, changes: Changes) -> None:
        changes.declare_daily()
        world.settle()
        for _ in range(changes.chance.randint(6, 12)):
            is_change = changes.chance.random() < 0.5
            (changes.step if is_change else changes.step_of_time)()
            world.settle(changes.faults() if seed % 3 == 0 else no_faults, listing=is_change)
        list(changes.mend())
        world.settle()

    _run("timed", go, seed, url, fewest=2 if seed % 2 else FEWEST)


def folds(seed: int, url: str = MEMORY) -> None:
    """Files and conditions change under partitions that build on each other, in every other run
    while work goes on; a run that is given up leaves what it has built."""

    def go(world: World, changes: Changes) -> None:
        world.settle()
        for _ in range(changes.chance.randint(8, 16)):
            for _ in range(changes.chance.choice([1, 1, 1, 3])):
                changes.step_in_flight()
                if seed % 2:
                    world.advance(changes.chance)
                    changes.interrupt()
            world.settle(changes.faults() if seed % 3 == 0 else no_faults)

    _run("folds", go, seed, url, begin=Changes.begin_with_folds)


KINDS = {
    "calm": calm,
    "busy": busy,
    "parted": parted,
    "timed": timed,
    "richer": richer,
    "folds": folds,
}


def _run(
    kind: str,
    go: Callable[[World, Changes], None],
    seed: int,
    url: str,
    draw: type[Changes] = Changes,
    fewest: int = FEWEST,
    begin: Callable[[Changes], None] = Changes.begin,
    widest: int = WIDEST,
) -> None:
    home = Path(tempfile.mkdtemp(prefix="headgate-property-"))
    exact = 1 if seed % 4 in (1, 2) else EXACT  # every other one in windows
    world = World(home, url, exact, fewest, widest)
    if seed % 8 in (0, 1, 2, 5):  # half of them, with windows and without
        world.pass_of_report = world.pass_between
    changes = draw(seed, world)
    try:
        begin(changes)
        go(world, changes)
    except Exception as e:
        e.add_note(
            f"after {', '.join(changes.told)}\nreplay: python -m tests.property.runs {seed} {kind} {url}"
        )
        raise
    finally:
        world.close()
        shutil.rmtree(home)


if __name__ == "__main__":
    KINDS[(sys.argv[2:3] or ["calm"])[0]](int(sys.argv[1]), (sys.argv[3:4] or [MEMORY])[0])
