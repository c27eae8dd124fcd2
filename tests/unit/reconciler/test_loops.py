"""Which namespaces have a loop, from when until when, and what becomes of the others when one
breaks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import pytest

from controlplane.core.model.namespaces import DEFAULT, Namespace
from controlplane.operations.failing_units import FailingUnits
from controlplane.ports.store import Store
from controlplane.reconciler.loops import Loops
from controlplane.reconciler.shared_pool import FairShare, SharedPool
from controlplane.reconciler.wake import Ends, WakeCounter
from tests.stores import new_store
from tests.unit.reconciler.test_shared_pool import FOUR, Slots

HANGS_S = 60.0


@dataclass
class Place:
    """An installation whose loops do nothing but tell that they run. `broken`: namespaces whose
    loop cannot begin."""

    store: Store = field(default_factory=new_store)
    wake: WakeCounter = field(default_factory=WakeCounter)
    # Waits are over soon
    failing_units: FailingUnits = field(
        default_factory=lambda: FailingUnits(partial(next, count()))
    )
    slots: Slots = field(default_factory=lambda: Slots((FOUR,)))
    over: threading.Event = field(default_factory=threading.Event)
    unfinished: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    broken: set[str] = field(default_factory=set)
    moved: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def serving(self, namespace: str) -> Iterator[OneLoop]:
        self.note(self.unfinished, namespace)
        if namespace in self.broken:
            raise ValueError("it cannot begin")
        try:
            yield OneLoop(self.wake.of(namespace))
        finally:
            self.note(self.ended, namespace)

    def note(self, counts: Counter[str], namespace: str) -> None:
        with self.moved:
            counts[namespace] += 1
            self.moved.notify_all()

    def until(self, counts: Counter[str], namespace: str, times: int = 1) -> None:
        with self.moved:
            assert self.moved.wait_for(lambda: counts[namespace] >= times, HANGS_S)

    def make(self, name: str) -> None:
        with self.store.begin() as tx:
            tx.namespaces.put(Namespace(name, "ann", tx.now()))
        self.wake.notify()


@dataclass
class OneLoop:
    wake: WakeCounter

    def run(self, stop: Ends) -> None:
        while not stop.is_set():
            seen = self.wake.count
            if not stop.is_set():
                self.wake.wait(HANGS_S, seen)


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    pool, quick = SharedPool(found.slots), {"look_s": 0.01, "pause_s": 0.0}
    serving = Loops(
        found.store, found.serving, pool, FairShare(), found.wake, found.failing_units, **quick
    )
    thread = threading.Thread(target=serving.run, args=[found.over])
    thread.start()
    yield found
    found.over.set()
    found.wake.notify_all()
    thread.join(HANGS_S)
    assert not thread.is_alive()


def test_a_namespace_is_served_from_when_it_is_made(place: Place) -> None:
    place.until(place.unfinished, DEFAULT)
    place.make("team-a")
    place.until(place.unfinished, "team-a")
    place.make("team-b")
    place.until(place.unfinished, "team-b")
    assert place.unfinished["team-a"] == 1
    assert not place.ended


def test_one_that_is_gone_ends_with_its_drivers(place: Place) -> None:
    place.make("team-a")
    place.until(place.unfinished, "team-a")
    place.slots.scale("driver", 2, namespace="team-a")
    place.slots.scale("driver", 1)
    with place.store.begin() as tx:
        tx.namespaces.put(Namespace("team-a", "ann", 1.0, ended=2.0))
    place.wake.notify()
    place.until(place.ended, "team-a")
    place.make("team-b")
    place.until(place.unfinished, "team-b")  # which is looked at after what is gone
    assert len(place.slots.there) == 1
    assert not place.ended[DEFAULT]


def test_a_broken_one_stops_no_other_and_is_tried_again(place: Place) -> None:
    place.broken.add("team-a")
    place.make("team-a")
    place.until(place.unfinished, "team-a", 4)
    assert "it cannot begin" in place.failing_units.of("team-a").stuck
    assert not place.failing_units.stuck_everywhere
    place.make("team-b")
    place.until(place.unfinished, "team-b")
    place.broken.clear()
    before = place.unfinished["team-a"]
    place.until(place.unfinished, "team-a", before + 1)
    assert not place.ended


def test_all_end_with_the_term(place: Place) -> None:
    place.make("team-a")
    place.until(place.unfinished, "team-a")
    place.over.set()
    place.wake.notify_all()
    place.until(place.ended, DEFAULT)
    place.until(place.ended, "team-a")
