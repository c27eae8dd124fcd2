"""Tables of branches, with a death at every step: nothing is left that nobody knows of, and nothing
is amiss later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from controlplane.operations.desired import branches
from controlplane.operations.projections import branch_tables
from controlplane.ports.store import Tx
from tests.property.engine import MemoryLake
from tests.unit.branches.tables import Logs, PublishedWorld
from tests.unit.branches.test_overlay import EDITED, REST

OWN = {"doubled", "sums"}


class Killed(BaseException):
    """Nobody is to catch it, as nobody survives it."""


class Life:
    """Ends at its n-th step. Transactions, and each object that is deleted, are steps."""

    def __init__(self, world: PublishedWorld, steps: int) -> None:
        self._world, self._left = world, steps
        self.uri = world.lake.uri

    def step(self, _what: str = "") -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        self.step()
        with self._world.store.begin(namespace) as tx:
            yield tx
            self.step()
        self.step()

    def read(self, namespace: str = "default") -> Any:
        return self._world.store.read(namespace)

    def delete_prefix(self, prefix: str) -> None:
        for path in list(self._world.lake.sizes(prefix)):
            self.step()
            del self._world.lake.objects[path]
        self.step()

    def work(self) -> None:
        """What the publishing thread does of branches."""
        lake: Any = self
        store: Any = self
        logs = Logs(self._world.lake, step=self.step)
        for left in branch_tables.left_over(store, "default"):
            branch_tables.delete(store, "default", left, lake)
        for state in self._world.branching.published():
            branch_tables.follow(store, "default", state, logs, lake)


@pytest.fixture
def world(tmp_path: Path) -> PublishedWorld:
    made = PublishedWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.apply(REST)
    made.settle()
    branches.create(made.ctx, "dev", publish=True)
    return made


def known(world: PublishedWorld) -> dict[str, int]:
    """The version of each table that somebody knows of, by the dataset's name."""
    with world.store.read() as tx:
        return {
            p.dataset.partition(".")[2]: p.version for p in tx.projections.branch_publications()
        }


def lives(world: PublishedWorld) -> int:
    """Life after life, each a step longer, until one ends in peace; how many."""
    for n in count(1):
        try:
            Life(world, n).work()
        except Killed:
            assert world.folders("dev") <= known(world).keys(), f"after {n} steps"
            continue
        return n
    raise AssertionError


def check(world: PublishedWorld, tables: set[str], versions: int | None = None) -> None:
    assert (world.folders("dev"), set(known(world))) == (tables, tables)
    for name in tables:
        assert world.shown("dev", f"shop.{name}") == world.held("dev", f"shop.{name}")
        found = world.logs.versions(f"default/shop/{name}/_branches/dev")
        assert known(world)[name] == len(found) - 1
        assert versions in (None, len(found))


def test_a_death_at_every_step(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    assert lives(world) > 5
    check(world, OWN, versions=1)
    world.put("b.csv", (1, 30))
    world.settle()
    lives(world)
    check(world, OWN, versions=2)
    world.apply_in("dev", REST)  # main's again
    world.ran()
    assert known(world) == dict.fromkeys(OWN, -1)
    assert lives(world) > 5
    check(world, set())
    world.apply_in("dev", EDITED)
    world.ran()
    lives(world)
    check(world, OWN, versions=1)
    branches.delete(world.ctx, "dev")
    world.ran()
    assert lives(world) > 5
    check(world, set())


def test_a_branch_that_comes_back_while_its_tables_are_being_deleted(world: PublishedWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    for n in range(1, 9):
        Life(world, 0).work()
        check(world, OWN, versions=1)
        branches.delete(world.ctx, "dev")
        with pytest.raises(Killed):
            Life(world, n).work()
        branches.create(world.ctx, "dev", publish=True)
        world.apply_in("dev", EDITED)
        world.ran()


Ending = Callable[[PublishedWorld], object]


@pytest.mark.parametrize(
    "end",
    [lambda world: branches.delete(world.ctx, "dev"), lambda world: world.apply_in("dev", REST)],
)
@pytest.mark.parametrize("when", ["before the log", "after the log"])
def test_what_ends_while_its_table_is_written_is_deleted(
    world: PublishedWorld, end: Ending, when: str
) -> None:
    """By the loop, which is told by nobody."""
    world.apply_in("dev", EDITED)
    ended: list[str] = []

    def step(what: str) -> None:
        if what == when and not ended and world.folders("dev"):
            ended.append(what)
            end(world)

    world.logs.step = step
    world.rest()
    assert ended
    world.rest()
    check(world, set())
    world.loop.close()


def test_a_lake_that_is_away_while_a_table_is_to_go_is_asked_again(
    world: PublishedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.apply_in("dev", EDITED)
    world.rest()
    branches.delete(world.ctx, "dev")

    delete = MemoryLake.delete_prefix

    def refused(self: MemoryLake, prefix: str) -> None:
        if "/_branches/" in prefix:
            raise OSError(f"{prefix}: the lake is away")
        delete(self, prefix)

    with monkeypatch.context() as patched:
        patched.setattr(MemoryLake, "delete_prefix", refused)
        patched.setattr("controlplane.reconciler.publishing.RETRY_S", 0.0)
        world.rest()
        assert world.folders("dev") == OWN == known(world).keys()
    world.loop.close()
    world.begin()
    world.rest()
    check(world, set())
    world.loop.close()
