"""One pool for several namespaces: who gets how many drivers, in which order, and what each sees of
it."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import PoolLimits, PoolShare, fair
from controlplane.core.model.tasks import SIZES, Size
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.shared_pool import TURN_S, DriverRequest, FairShare, SharedPool
from tests.property.engine import MemoryLake
from tests.store.examples import stored_job, task
from tests.stores import new_store

ONE = PoolShare("driver", "standard", SIZES, PoolLimits(0, 1, idle_s=300.0, tasks_each=1))
FOUR = PoolShare("driver", "standard", SIZES, PoolLimits(0, 4, idle_s=300.0, tasks_each=64))


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Slots:
    """A pool without processes: what is asked for is there at once."""

    shares: tuple[PoolShare, ...] = (ONE,)
    there: dict[str, Driver] = field(default_factory=dict)
    ended: list[Driver] = field(default_factory=list)
    name: str = "kubernetes"
    outlives: bool = True
    most: int = 0

    def scale(
        self,
        kind: str,
        wanted: int,
        size: Size = "standard",
        busy: Collection[str] = (),
        *,
        namespace: str = DEFAULT,
    ) -> None:
        own = [id for id in self.there if namespaces.of_id(id) == namespace]
        for id in [id for id in own if id not in busy][: max(0, len(own) - wanted)]:
            self.end(id, "ended as asked")
        for _ in range(wanted - len(own)):
            id = namespaces.id_in(namespace, f"driver-{uuid.uuid4().hex[:12]}")
            self.there[id] = Driver(id, self.name, "driver", 0.0, 0.0)
        self.most = max(self.most, len(self.there))

    def end(self, driver: str, reason: str) -> None:
        self.ended.append(replace(self.there.pop(driver), ended=True, reason=reason))

    def poll(self) -> tuple[Driver, ...]:
        told, self.ended = self.ended, []
        return (*self.there.values(), *told)

    def log(self, driver: str, lines: int) -> str:
        return f"{lines} of {driver}"

    def close(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(
    ("wanted", "room", "got"),
    [
        ({"a": 9, "b": 1}, 4, {"a": 3, "b": 1}),
        ({"a": 9, "b": 9, "c": 1}, 5, {"a": 2, "b": 2, "c": 1}),
        ({"a": 1, "b": 1}, 1, {"a": 1, "b": 0}),
        ({"a": 2, "b": 0}, 4, {"a": 2, "b": 0}),
        ({"a": 3}, 0, {"a": 0}),
    ],
)
def test_nobody_has_much_while_others_have_little(
    wanted: dict[str, int], room: int, got: dict[str, int]
) -> None:
    assert fair(wanted, room, sorted(wanted)) == got


def test_what_nobody_needs_stays_where_it_is() -> None:
    """One that is kept warm, and has no work, makes room for who has some, and for nobody else."""
    share = FairShare(Clock())
    assert share.granted("a", ONE, DriverRequest(target=1, needed=0, running=1)) == 1
    assert share.granted("b", ONE, DriverRequest(target=1, needed=0, running=0)) == 0
    assert share.granted("a", ONE, DriverRequest(target=1, needed=0, running=1)) == 1
    # There is no room yet
    assert share.granted("b", ONE, DriverRequest(target=1, needed=1, running=0)) == 0
    assert share.granted("a", ONE, DriverRequest(target=1, needed=0, running=1)) == 0
    assert share.granted("a", ONE, DriverRequest(target=1, needed=0, running=0)) == 0
    assert share.granted("b", ONE, DriverRequest(target=1, needed=1, running=0)) == 1


def test_a_namespace_gives_back_what_it_has_too_much_of() -> None:
    share = FairShare(Clock())
    assert share.granted("a", FOUR, DriverRequest(4, 4, 0)) == 4
    assert share.granted("b", FOUR, DriverRequest(1, 1, 0)) == 0
    assert share.granted("a", FOUR, DriverRequest(4, 4, 4)) == 3
    assert share.granted("a", FOUR, DriverRequest(4, 4, 3)) == 3
    assert share.granted("b", FOUR, DriverRequest(1, 1, 0)) == 1
    share.forget("b")
    assert share.granted("a", FOUR, DriverRequest(4, 4, 3)) == 4


def test_each_sees_its_own_and_every_end_once() -> None:
    clock, slots = Clock(), Slots((FOUR,))
    shared = SharedPool(slots, clock)
    one, other = shared.of("team-a"), shared.of(DEFAULT)
    one.scale("driver", 1)
    other.scale("driver", 2)
    (mine,) = one.poll()
    assert namespaces.of_id(mine.id) == "team-a"
    clock.now += 1.0
    assert len(other.poll()) == 2
    one.end(mine.id, "fell silent")
    clock.now += 1.0
    assert not any(driver.ended for driver in other.poll())
    assert [(driver.id, driver.reason) for driver in one.poll()] == [(mine.id, "fell silent")]
    assert one.poll() == ()


class Place:
    """An installation with one slot."""

    def __init__(self) -> None:
        self.clock, self.store, self.slots = Clock(), new_store(), Slots()
        self.shared, self.fair = SharedPool(self.slots, self.clock), FairShare(self.clock)


class Team:
    """A namespace with work, its fleet, and drivers that take one batch after another."""

    def __init__(self, place: Place, name: str, tasks: int) -> None:
        store = self.store = place.store
        self.name, self.slots = name, place.slots
        pool = place.shared.of(name)
        self.fleet = Fleet(
            Context(store, name), MemoryLake(), pool, monotonic=place.clock, fair=place.fair
        )
        self.claims = 0
        with store.begin(name) as tx:
            tx.queue.put_job(b"j" * 32, stored_job())
            tx.queue.enqueue(
                "main", "flights.daily", [task(n, job=b"j" * 32) for n in range(tasks)]
            )

    def step(self) -> None:
        """A pass of the loop; then each driver that has a batch is done with it, and each asks for
        another one."""
        self.fleet.look_after()
        self.fleet.scale()
        for id in [id for id in self.slots.there if namespaces.of_id(id) == self.name]:
            self.work(id)

    def work(self, id: str) -> None:
        with self.store.begin(self.name) as tx:
            if not any(token.subject == id for token in tx.access.tokens()):
                tx.access.put_token(replace(EMPTY, id=id, hash=id.encode(), subject=id))
        with self.store.begin(self.name) as tx:
            for attempt in tx.queue.attempts().values():
                if attempt.driver == id:
                    tx.queue.end_attempt(attempt.id)
            (token,) = [token for token in tx.access.tokens() if token.subject == id]
            if tokens.is_draining(token):
                return
            found = tx.queue.claim(uuid.uuid4().hex, id, ["transform"], max_tasks=1, lease_s=1e9)
            self.claims += found is not None


EMPTY = Token("", b"", "of a driver", ("driver",), "", 0.0)


def test_ten_thousand_tasks_do_not_starve_one() -> None:
    """One slot, and two namespaces whose drivers would never be idle. Both have their turns, and
    there is never a driver more than there is room for."""
    place = Place()
    big, small = Team(place, DEFAULT, 10_000), Team(place, "team-a", 1)
    seen = []
    for _ in range(40):
        place.clock.now += TURN_S / 4
        big.step()
        small.step()
        seen.append((big.claims, small.claims))
    assert place.slots.most == 1
    first = next(step for step, (_, claimed) in enumerate(seen) if claimed)
    assert first <= 8  # two turns
    assert seen[first][0] > 0
    assert big.claims >= 8
