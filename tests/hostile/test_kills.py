"""A control plane that dies again and again: no task is charged for it, and nothing that is done is
done again (I7)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.core.errors import LogGone
from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import SIZES, Size
from controlplane.core.plan import Status
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.work import recording
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from tests.property.engine import Engine, MemoryLake
from tests.stores import store_at
from tests.unit.reconciler.nowhere import Nowhere

SQL = "SELECT id, 2 * price AS twice FROM orders"
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
"""
KILLS = 40
PASSES = 12  # more than it takes
TASKS = 6  # files, and as many partitions of what is made of them
LATER_S = max(recording.BACKOFF_S) + 1


class Killed(BaseException):
    """What ends a process ends all that it had begun."""


class Mortal:
    """A store whose process is killed at one of its transactions: before it, within it, or once it
    is committed."""

    def __init__(self, inner: Store, transaction: int, when: str) -> None:
        self._inner, self._left, self._when = inner, transaction, when
        # Tables follow in another one, which ends by itself
        self._thread = threading.current_thread()

    @property
    def statements(self) -> int:
        return self._inner.statements

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        is_last = self._is_last()
        _die(is_last and self._when == "before")
        with self._inner.begin(namespace) as tx:
            yield tx
            _die(is_last and self._when == "within")
        _die(is_last and self._when == "after")

    def read(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        return self._inner.read(namespace)

    def _is_last(self) -> bool:
        if threading.current_thread() is self._thread:
            self._left -= 1
        return self._left == 0

    def spare(self) -> None:
        """What comes now is of the test's own making."""
        self._left = 0

    def close(self) -> None:
        """The next life goes on with what is stored."""


def _die(now: bool) -> None:
    if now:
        raise Killed


@dataclass
class Children:
    """Drivers that work whenever the loop looks after them, and end with the process that has the
    loop."""

    engine: Engine
    name: str = "local"
    outlives: bool = False
    shares: tuple[PoolShare, ...] = (PoolShare("worker", "standard", SIZES, PoolLimits(1, 1)),)

    def scale(
        self, kind: str, wanted: int, size: Size = "standard", busy: Collection[str] = ()
    ) -> None:
        """They are always there."""

    def end(self, driver: str, reason: str) -> None:
        """None of them falls silent."""

    def poll(self) -> tuple[Driver, ...]:
        while self.engine.step():
            """Take the next claim."""
        return ()

    def log(self, driver: str, lines: int) -> str:
        raise LogGone("it says nothing")

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class Shop:
    """One folder of files, one database, and life after life of a control plane over them."""

    folder: Path
    now: float = 1e9
    lake: MemoryLake = field(default_factory=MemoryLake)

    def __post_init__(self) -> None:
        url = f"sqlite:///{self.folder}/metadata.db"
        self.store = store_at(url, lambda: self.now)
        (self.folder / "orders").mkdir()
        for number in range(3):
            (self.folder / "orders" / f"{number}.csv").write_text(
                f"id,price\n{number},{number * 10}\n"
            )
        text = FLOW.format(folder=self.folder / "orders", sql=SQL)
        blueprints.apply(
            Context(self.store), "main", [blueprints.SentBlueprint("/shop.yaml", text, {})]
        )

    def loop(self, store: Store, own: Store) -> Reconciler:
        """`own`: the store of drivers' calls, in the same process."""
        engine = Engine(Context(own, lake=self.lake.uri), self.lake, {SQL: SQL}, lambda _: None)
        return Reconciler(
            store, Fleet(Context(store), self.lake, Children(engine)), Nowhere(), WakeCounter()
        )

    def life(self, transaction: int, when: str, *, of_drivers: bool) -> bool:
        """Pass after pass, until the process is killed at one of its transactions; False if none
        came."""
        mortal = Mortal(self.store, transaction, when)
        loop = self.loop(self.store if of_drivers else mortal, mortal if of_drivers else self.store)
        try:
            for _ in range(PASSES):
                self.now += LATER_S
                loop.tick()
        except Killed:
            return True
        finally:
            mortal.spare()
            loop.close()
        return False

    def rest(self) -> dict[str, Status]:
        """How each dataset stands after a life in peace."""
        loop = self.loop(self.store, self.store)
        for _ in range(PASSES):
            self.now += LATER_S
            outcome = loop.tick()
        loop.close()
        return {decision.dataset: decision.status for decision in outcome.decisions}

    def counted(self) -> Counter[str]:
        with self.store.read() as tx:
            return Counter(tx.events.count("main", 0))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path)
    yield found
    found.store.close()


def check(shop: Shop) -> None:
    """All is up to date by itself, nothing ever failed, and no task was done twice."""
    assert shop.rest() == {"shop.orders": "up_to_date", "shop.doubled": "up_to_date"}
    counted = shop.counted()
    assert not [kind for kind in counted if kind.endswith(".failed")]
    assert counted["task.executed"] + counted["task.recovered"] == TASKS
    with shop.store.read() as tx:
        assert tx.queue.attempts() == {}


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_task_whose_maker_dies_forty_times_is_only_late(shop: Shop, when: str) -> None:
    """Drivers ask in vain, take a claim, and would report: nothing ever gets any further."""
    for _ in range(KILLS):
        assert shop.life(3, when, of_drivers=True)
    assert shop.counted()["task.retried"] >= KILLS - 1
    check(shop)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 20))]
)
def test_forty_kills_at_any_transaction(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(KILLS):
        shop.life(
            chance.randint(1, 12),
            chance.choice(("before", "within", "after")),
            of_drivers=chance.random() < 0.5,
        )
        if chance.random() < 0.3:
            controls.refresh(Context(shop.store), "main", None)
    check(shop)
