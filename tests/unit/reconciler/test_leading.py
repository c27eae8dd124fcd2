"""Who of several leads: one at a time, until it ends or is deposed, whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from controlplane.core.model.leases import LOOP
from controlplane.reconciler.leader import FencedStore, LeaderElection, TermEnd
from tests.stores import new_store

HANGS_S = 60.0
LEASE_S = 0.06


@dataclass
class Place:
    """A store whose clock the test sets, and candidates that wait for nothing."""

    now: float = 1e9
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    stops: list[threading.Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = new_store(lambda: self.now)

    def stand(self, one: LeaderElection, stop: threading.Event | None = None) -> threading.Thread:
        thread = threading.Thread(target=one.run, args=[stop or self.stop])
        self.stops.append(stop or self.stop)
        self.threads.append(thread)
        thread.start()
        return thread

    def holder(self) -> str | None:
        with self.store.read() as tx:
            lease = tx.leases.get(LOOP)
        return lease.holder if lease is not None and lease.until > self.now else None


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    yield found
    for stop in found.stops:
        stop.set()
    for thread in found.threads:
        thread.join()


class Work:
    """Notes its terms, and lasts until each is over."""

    def __init__(self) -> None:
        self.unfinished, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        self.fails = False

    def __call__(self, store: FencedStore, over: TermEnd) -> None:
        self.unfinished.release()
        if self.fails:
            self.fails = False
            raise RuntimeError("at its first")
        while not over.is_set():
            threading.Event().wait(LEASE_S / 10)
        self.ended.release()

    def begins(self) -> bool:
        return self.unfinished.acquire(timeout=HANGS_S)

    def ends(self) -> bool:
        return self.ended.acquire(timeout=HANGS_S)


def test_the_second_leads_once_the_first_has_ended(place: Place) -> None:
    first, second, told = Work(), Work(), threading.Event()
    thread = place.stand(LeaderElection(place.store, "first", LEASE_S, first), told)
    assert first.begins()
    place.stand(LeaderElection(place.store, "second", LEASE_S, second))
    assert place.holder() == "first"
    assert not second.unfinished.acquire(blocking=False)
    told.set()
    thread.join()
    assert second.begins(), "it was handed back, although its time is not over"
    assert place.holder() == "second"


def test_who_was_taken_for_dead_stops_and_stands_again(place: Place) -> None:
    work, nudged = Work(), threading.Event()
    place.stand(LeaderElection(place.store, "paused", LEASE_S, work, nudged.set))
    assert work.begins()
    with place.store.begin() as tx:
        tx.leases.end(LOOP, 1)
        assert tx.leases.take(LOOP, "other", LEASE_S).epoch == 2
    assert work.ends()
    assert nudged.is_set()
    assert place.holder() == "other"
    place.now += 1.0
    assert work.begins()


def test_a_term_that_fails_is_followed_by_another(place: Place) -> None:
    work = Work()
    work.fails = True
    place.stand(LeaderElection(place.store, "one", LEASE_S, work))
    assert work.begins()
    assert work.begins()
