"""Whole random runs by seed, and the command that replays one: `python -m tests.property.runs SEED [KIND] [URL]`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from controlplane.core.plan import EXACT, FEWEST
from tests.property.changes import Changes
from tests.property.world import World, no_faults

MEMORY = "memory:"


def calm(seed: int, url: str = MEMORY, fewest: int = FEWEST) -> None:
    """Changes come while nothing is under way; drivers die and stutter in every third run."""

    def go(world: World, changes: Changes) -> None:
        def settle() -> None:
            world.settle(changes.faults() if seed % 3 == 0 else no_faults)

        settle()
        for _ in range(changes.chance.randint(10, 25)):
            changes.step()
            settle()
        list(changes.mend())
        settle()

    _run("calm" if fewest == FEWEST else "parted", go, seed, url, fewest)


def busy(seed: int, url: str = MEMORY) -> None:
    """Files and code change while work on earlier changes is under way."""

    def go(world: World, changes: Changes) -> None:
        world.settle()
        for _ in range(changes.chance.randint(3, 7)):
            faults = changes.faults() if seed % 3 == 0 else no_faults
            for _ in range(changes.chance.randint(1, 8)):
                changes.step_in_flight()
                world.advance(changes.chance, faults)
            world.settle(faults)

    _run("busy", go, seed, url)


def parted(seed: int, url: str = MEMORY) -> None:
    """As calm ones, and all that can be merged is computed in parts."""
    calm(seed, url, fewest=2)


def folds(seed: int, url: str = MEMORY) -> None:
    """Files and conditions change under partitions that build on each other, in every other run while work goes on."""

    def go(world: World, changes: Changes) -> None:
        world.settle()
        for _ in range(changes.chance.randint(8, 16)):
            for _ in range(changes.chance.choice([1, 1, 1, 3])):
                changes.step_in_flight()
                if seed % 2:
                    world.advance(changes.chance)
            world.settle(changes.faults() if seed % 3 == 0 else no_faults)

    _run("folds", go, seed, url, begin=Changes.begin_with_folds)


KINDS = {"calm": calm, "busy": busy, "parted": parted, "folds": folds}


def _run(
    kind: str,
    go: Callable[[World, Changes], None],
    seed: int,
    url: str,
    fewest: int = FEWEST,
    begin: Callable[[Changes], None] = Changes.begin,
) -> None:
    home = Path(tempfile.mkdtemp(prefix="headgate-property-"))
    world = World(home, url, exact=1 if seed % 4 in (1, 2) else EXACT, fewest=fewest)  # every other one in windows
    changes = Changes(seed, world)
    try:
        begin(changes)
        go(world, changes)
    except Exception as e:
        e.add_note(f"after {', '.join(changes.told)}\nreplay: python -m tests.property.runs {seed} {kind} {url}")
        raise
    finally:
        world.close()
        shutil.rmtree(home)


if __name__ == "__main__":
    KINDS[(sys.argv[2:3] or ["calm"])[0]](int(sys.argv[1]), (sys.argv[3:4] or [MEMORY])[0])
