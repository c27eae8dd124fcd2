"""The loop through an outage of PostgreSQL, whenever it comes: passes fail, then work goes on to
its end."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.core.errors import LogGone
from controlplane.core.model.drivers import Driver
from controlplane.core.model.projections import TableContent
from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import SIZES, Size
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.upkeep.fsck import fsck
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Progress, Reconciler
from controlplane.reconciler.wake import WakeCounter
from controlplane.store import open_store, upgrade
from tests.property.engine import Engine, MemoryLake
from tests.servers.postgres import Postgres, running
from tests.store.test_outage import restart

SQL = "SELECT id, 2 * price AS twice FROM orders"
TOTAL = "SELECT count(*) AS n, sum(twice) AS total FROM doubled"
FLOW = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: {folder}/*.csv
      format: csv
      options: {{header: true}}
      schema: id BIGINT, price BIGINT
  doubled:
    transform: {{sql: "{sql}"}}
  total:
    transform: {{sql: "{total}"}}
"""
DATASETS = {"shop.orders", "shop.doubled", "shop.total"}


class Following:
    """Tables that follow at once."""

    def __init__(self) -> None:
        self.tables: dict[str, TableContent] = {}

    def publish(self, table: TableContent, told: object = None) -> int:
        self.tables[table.dataset] = table
        return table.generation

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class Pool:
    """A pool whose drivers work whenever the loop looks after them, as far as they can reach the
    control plane."""

    engine: Engine
    polls: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    name: str = "local"

    outlives: bool = False
    shares: tuple[PoolShare, ...] = (PoolShare("worker", "standard", SIZES, PoolLimits(1, 1)),)

    def scale(
        self, kind: str, wanted: int, size: Size = "standard", busy: Collection[str] = ()
    ) -> None:
        """They are always there."""

    def end(self, driver: str, reason: str) -> None:
        """None of them is a process."""

    def poll(self) -> tuple[Driver, ...]:
        self.polls.release()
        try:
            while self.engine.step():
                """Take the next claim."""
        except OSError:
            """As a driver whose call fails: it asks again."""
        return ()

    def log(self, driver: str, lines: int) -> str:
        raise LogGone("it says nothing")

    def close(self) -> None:
        """Nothing to end."""


class Failing:
    """A store before whose n-th transaction from now, or within it, something happens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counting = threading.Lock()  # transactions begin in several threads
        self._left, self._within = 0, False
        self._happen: Callable[[], None] = lambda: None

    def happen(self, happen: Callable[[], None], transaction: int, *, within: bool) -> None:
        with self._counting:
            self._happen, self._within, self._left = happen, within, transaction

    @property
    def statements(self) -> int:
        return self._store.statements

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        is_now = self._is_now()
        with self._store.begin(namespace) as tx:
            if is_now:
                self._happen()
            yield tx

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Tx]:
        is_now = self._is_now()
        with self._store.read(namespace) as tx:
            if is_now:
                self._happen()
            yield tx

    def _is_now(self) -> bool:
        """It is to happen within this transaction."""
        with self._counting:
            self._left -= 1
            is_due, is_within = self._left == 0, self._within
        if is_due and not is_within:
            self._happen()
        return is_due and is_within

    def close(self) -> None:
        self._store.close()


class Shop:
    """A running loop over one folder of files."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.lake = Failing(store), folder, MemoryLake()
        self.ctx = Context(self.store, lake=self.lake.uri)
        self.pool = Pool(Engine(self.ctx, self.lake, {SQL: SQL, TOTAL: TOTAL}, lambda _: None))
        self.following, self.wake, self._stop = Following(), WakeCounter(), threading.Event()
        self._at_rest = threading.Event()
        fleet = Fleet(Context(self.store), self.lake, self.pool)
        self.loop = Reconciler(
            self.store, fleet, self.following, self.wake, on_progress=self._on_progress
        )
        self._thread = threading.Thread(target=self.loop.run, args=[self._stop])
        self._wanted = 0

    def __enter__(self) -> Shop:
        text = FLOW.format(folder=self.folder, sql=SQL, total=TOTAL)
        blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.wake.notify()
        self._thread.join()
        self.loop.close()

    def _on_progress(self, progress: Progress) -> None:
        """At rest once the last table holds what was wished for."""
        table = self.following.tables.get("shop.total")
        is_done = (
            set(progress.states.values()) == {"up_to_date"} and progress.states.keys() == DATASETS
        )
        if is_done and table is not None and self.rows() == self._wanted:
            self._at_rest.set()
        else:
            self.wake.notify()

    def rows(self) -> int:
        (fragment,) = self.following.tables["shop.total"].fragments
        (row,) = self.pool.engine.fragment(fragment.files[0]["path"]).rows
        return int(str(row[0]))

    def put(self, number: int) -> None:
        (self.folder / f"{number}.csv").write_text(f"id,price\n{number},{number * 10}\n")
        self._wanted += 1
        self._at_rest.clear()

    def ask(self) -> None:
        controls.refresh(self.ctx, "main", None)
        self.wake.notify()

    def rest(self) -> None:
        """Wait until all is done; the nudges save the loop's own pauses."""
        while not self._at_rest.wait(0.1):
            self.wake.notify()

    def passes(self, count: int) -> None:
        """Wait for some passes that begin from now on."""
        while self.pool.polls.acquire(blocking=False):
            """An earlier one."""
        for _ in range(count):
            self.wake.notify()
            self.pool.polls.acquire()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running() as own:
        yield own


@pytest.fixture
def shop(server: Postgres, tmp_path: Path) -> Iterator[Shop]:
    url = server.create(f"t{uuid.uuid4().hex}")
    upgrade(url)
    store = open_store(url)
    (tmp_path / "orders").mkdir()
    with Shop(store, tmp_path / "orders") as running:
        running.put(0)
        running.ask()
        running.rest()
        yield running
    store.close()


TRANSACTIONS = range(1, 15)


@pytest.mark.parametrize("within", [False, True], ids=["before", "within"])
def test_a_restart_at_any_transaction(shop: Shop, server: Postgres, within: bool) -> None:
    """One file comes in, and meanwhile the server restarts."""
    for number in TRANSACTIONS:
        shop.put(number)
        shop.ask()
        shop.store.happen(lambda: restart(server), number, within=within)
        shop.rest()
    assert shop.rows() == len(TRANSACTIONS) + 1
    check(shop)


@pytest.mark.parametrize("transaction", [1, 4, 7])
def test_a_long_outage(shop: Shop, server: Postgres, transaction: int) -> None:
    """Passes fail, one after the other, until the server is there again."""
    is_down = threading.Event()

    def stop() -> None:
        server.stop()
        is_down.set()

    shop.put(1)
    shop.ask()
    shop.store.happen(stop, transaction, within=True)
    while not is_down.wait(0.1):
        shop.wake.notify()
    shop.passes(3)
    server.start()
    shop.rest()
    check(shop)


def check(shop: Shop) -> None:
    """All is whole, and no task was done twice."""
    assert fsck(shop.ctx.store, "default", shop.lake) == ()
    keys = [work.key for work in shop.pool.engine.done]
    assert len(keys) == len(set(keys))
