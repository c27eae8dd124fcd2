"""A database's clock that jumps, back and forth: nothing waits for a time that was, and no driver
is taken for dead.

Does not belong here: who holds a lease (`store.test_leases`) and when a task is tried
(`store.test_queue`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.core.errors import LogGone
from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import SIZES, Size
from controlplane.operations.context import Context
from controlplane.operations.work import claims
from controlplane.reconciler.fleet import SILENT_S, Fleet
from dataplane.contract.claims import CONTRACT
from tests.hostile.test_kills import Shop
from tests.property.engine import MemoryLake
from tests.store.examples import d, stored_job, task
from tests.stores import new_store

HOURS_S = 6 * 3600.0
DRIVER = "driver-1"


@pytest.mark.parametrize("jump_s", [-HOURS_S, HOURS_S])
def test_a_file_that_comes_after_a_jump_is_read(tmp_path: Path, jump_s: float) -> None:
    shop = Shop(tmp_path)
    shop.rest()
    shop.now += jump_s
    (tmp_path / "orders" / "late.csv").write_text("id,price\n9,90\n")
    assert set(shop.rest().values()) == {"up_to_date"}
    with shop.store.read() as tx:
        assert {state.dataset: state.partitions for state in tx.states.newest("main").values()} == {
            "shop.orders": 4,
            "shop.doubled": 4,
        }
    shop.store.close()


@dataclass
class Alive:
    """A driver that the pool sees."""

    name: str = "local"
    outlives: bool = False
    shares: tuple[PoolShare, ...] = (PoolShare("driver", "standard", SIZES, PoolLimits(1, 1)),)
    ends: list[str] = field(default_factory=list)

    def scale(
        self, kind: str, wanted: int, size: Size = "standard", busy: Collection[str] = ()
    ) -> None:
        """It stays."""

    def end(self, driver: str, reason: str) -> None:
        self.ends.append(driver)

    def poll(self) -> tuple[Driver, ...]:
        return (Driver(DRIVER, "local", "driver", 1.0, 2.0),)

    def log(self, driver: str, lines: int) -> str:
        raise LogGone("it says nothing")

    def close(self) -> None:
        """Nothing to end."""


class Place:
    """A driver at work, the database's clock, and a clock that nobody sets."""

    def __init__(self) -> None:
        self.now, self.monotonic = 1e9, 50.0
        self.ctx = Context(new_store(lambda: self.now))
        self.fleet = Fleet(self.ctx, MemoryLake(), Alive(), monotonic=lambda: self.monotonic)
        with self.ctx.store.begin() as tx:
            tx.queue.put_job(d(0), stored_job(shared={}))
            tx.queue.enqueue("main", "flights.daily", [task(1, spec={"slots": {}})])
        self.fleet.look_after()
        assert claims.claim(self.ctx, DRIVER, CONTRACT, ["transform"]) is not None

    def goes_on(self) -> bool:
        """Whether the driver's attempt does, after a look."""
        self.fleet.look_after()
        with self.ctx.store.read() as tx:
            return bool(tx.queue.attempts())

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.monotonic += seconds


@pytest.mark.parametrize("jump_s", [-HOURS_S, HOURS_S])
def test_a_driver_is_silent_by_time_that_passed_not_by_a_jump(jump_s: float) -> None:
    """Also where the machine slept: a clock that nobody sets stands still then."""
    place = Place()
    place.passes(1.0)
    assert place.goes_on()
    place.now += jump_s
    assert place.goes_on()
    place.passes(claims.LEASE_S + SILENT_S - 1.0)
    assert place.goes_on()
    place.passes(2.0)
    assert not place.goes_on()
