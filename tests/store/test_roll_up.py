"""Roll-ups on PostgreSQL: a listing and a roll-up that meet lose nothing, in either order."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text

from controlplane.core.model.branches import MAIN
from controlplane.core.model.roll_ups import is_span
from controlplane.operations.desired import controls
from controlplane.operations.upkeep import fsck
from controlplane.operations.work import claims, reports
from dataplane.contract.claims import CONTRACT
from tests.property.rolling import RollWorld
from tests.servers.postgres import Postgres

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
LOCK = text("SELECT id FROM listings FOR UPDATE")


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.create(f"t{uuid.uuid4().hex}")


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
    engine.dispose()


def world_at(home: Path, seed: int, url: str) -> RollWorld:
    world = RollWorld(home, random.Random(seed), url=url)
    world.apply()
    world.engine.is_whole = True
    return world


def report_of_listing(world: RollWorld) -> Callable[[], object]:
    """Reports one more slice, which a worker has listed."""
    world.engine.log[0].append(world.engine.now)
    controls.refresh(world.ctx, MAIN, None)
    world.once()
    claim = claims.claim(world.ctx, "worker", CONTRACT, ["list"])
    assert claim is not None
    assert claim["kind"] == "list"
    results = [world.engine._result(claim, task) for task in claim["tasks"]]
    return lambda: reports.report(world.ctx, "worker", claim["attempt"], results, lake=world.lake)


def wait_for_locks(connection: Connection, count: int) -> None:
    while connection.execute(WAITING).scalar_one() < count:
        pass


@pytest.mark.parametrize("is_listing_first", [True, False])
def test_a_listing_and_a_roll_up_that_meet(
    tmp_path: Path, url: str, connection: Connection, *, is_listing_first: bool
) -> None:
    """Both are held up by a third transaction, at the first lock or write of the listing."""
    world = world_at(tmp_path, 1, url)
    for _ in range(6):
        world.add(5)
        world.list_and_run()
    report = report_of_listing(world)
    operations = [report, world.roll_up]
    first, second = operations if is_listing_first else reversed(operations)
    with connection.engine.connect() as locking, ThreadPoolExecutor(2) as pool:
        locking.execute(LOCK)
        ahead = pool.submit(first)
        wait_for_locks(connection, 1)
        behind = pool.submit(second)
        wait_for_locks(connection, 2)
        locking.rollback()
        ahead.result()
        behind.result()
    assert world.rolled_up > 0
    world.list_and_run()
    world.check()
    assert any(map(is_span, world.keys("orders")))
    assert world.read_spans() == []
    assert fsck.fsck(world.store, world.ctx.namespace) == ()
    world.close()


@pytest.mark.parametrize("seed", range(2))
def test_random_logs_and_roll_ups_on_postgresql(tmp_path: Path, url: str, seed: int) -> None:
    world = RollWorld(tmp_path, random.Random(seed), exact=1 if seed % 2 else 1_000, url=url)
    world.apply()
    world.play(steps=6, has_faults=False)
    assert world.read_spans() == []
    assert fsck.fsck(world.store, world.ctx.namespace) == ()
    world.close()
