"""Clients that stay connected: one thread's at a time, few, and closed when nothing uses them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pytest

from dataplane.connectors.kafka.client_pool import ClientPool


@dataclass
class Client:
    is_closed: bool = False

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Place:
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.pool = ClientPool[Client](most_unused=2, unused_s=60.0, monotonic=self.clock)

    def used(self, key: str) -> Client:
        with self.pool.use(key, Client) as client:
            return client


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_client_is_used_again_and_by_one_at_a_time(place: Place) -> None:
    first = place.used("a")
    assert place.used("a") is first
    assert place.used("b") is not first
    with place.pool.use("a", Client) as outer:
        assert outer is first
        assert place.used("a") is not first


def test_the_oldest_are_closed_where_there_are_many(place: Place) -> None:
    a, b, c = map(place.used, "abc")
    assert [client.is_closed for client in (a, b, c)] == [True, False, False]


def test_what_nothing_uses_is_closed_in_time(place: Place) -> None:
    old = place.used("a")
    place.clock.now = 59.0
    new = place.used("b")
    place.pool.close_unused()
    assert not old.is_closed
    place.clock.now = 60.0
    place.pool.close_unused()
    assert (old.is_closed, new.is_closed) == (True, False)
    place.pool.close()
    assert new.is_closed


def test_a_client_that_raised_is_used_no_more(place: Place) -> None:
    with pytest.raises(ValueError, match="no"), place.pool.use("a", Client) as broken:
        raise ValueError("no")
    assert broken.is_closed
    assert place.used("a") is not broken


def test_a_child_has_no_client_of_its_parent(place: Place) -> None:
    mine = place.used("a")
    child = os.fork()
    if child == 0:
        is_apart = place.used("a") is not mine and not mine.is_closed
        os._exit(0 if is_apart else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert place.used("a") is mine
