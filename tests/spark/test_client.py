"""The pulling side of the protocol against a server that misbehaves as servers do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.contract.kinds import DRIVER_KINDS
from dataplane.runtime.client import AttemptFenced, CallRefused, Client, Ended, Heartbeat
from tests.spark.plane import TOKEN, Plane


@pytest.fixture
def plane() -> Iterator[Plane]:
    with Plane().serving() as plane:
        yield plane


def test_calls_are_repeated_until_they_are_answered(plane: Plane) -> None:
    plane.answers = [503, 500, 429]
    assert Client(plane.url, TOKEN).claim(DRIVER_KINDS, wait_s=0) is None
    assert [call for call, _ in plane.asked] == ["claim"] * 4
    assert plane.asked[0][1] == {"contract": 1, "kinds": sorted(DRIVER_KINDS), "wait_s": 0}


def test_answers_that_end_something(plane: Plane) -> None:
    client = Client(plane.url, TOKEN)
    for status, ends in ((401, Ended), (426, Ended), (409, AttemptFenced), (422, CallRefused)):
        plane.answers = [status]
        with pytest.raises(ends):
            client.report("a", [])
    with pytest.raises(Ended):
        Client(plane.url, "another").heartbeat([])


def test_heartbeats_bring_orders(plane: Plane) -> None:
    plane.fenced, plane.drain = {"b", "c"}, True
    assert Client(plane.url, TOKEN).heartbeat(["b", "a"]) == Heartbeat(("b",), drain=True)
    Client(plane.url, TOKEN).heartbeat([], spark=True)
    assert [body for _, body in plane.asked] == [
        {"attempts": ["a", "b"]},
        {"attempts": [], "spark": True},
    ]


def test_calls_are_noted_in_a_file_even_where_nobody_answers(plane: Plane, tmp_path: Path) -> None:
    noted = tmp_path / "calls"
    plane.answers = [503]
    client = Client(plane.url, TOKEN, calls=noted)
    client.heartbeat([])
    assert noted.exists()
    os.utime(noted, (0, 0))
    plane.answers = [401]
    with pytest.raises(Ended):
        client.heartbeat([])
    assert noted.stat().st_mtime > 0
    assert Client(plane.url, TOKEN, calls=tmp_path / "no" / "folder").heartbeat([]) == Heartbeat()


def test_a_control_plane_that_is_away_is_waited_for_until_the_client_is_closed() -> None:
    with Plane().serving() as plane:
        url = plane.url
    client, errors = Client(url, TOKEN), []

    def call() -> None:
        try:
            client.heartbeat([])
        except Ended as e:
            errors.append(e)

    waiting = threading.Thread(target=call)
    waiting.start()
    client.close()
    waiting.join()
    assert len(errors) == 1
