"""How often a wrong token may be tried: by address, by all, and what a right one is told
meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.ui import tries
from controlplane.ui.tries import Tries
from tests.unit.ui.world import Pages, pages

OWN = {"Sec-Fetch-Site": "same-origin"}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


def test_an_address_waits_after_ten_failures_and_others_do_not() -> None:
    clock = Clock()
    found = Tries(clock)
    for _ in range(tries.OF_ONE):
        assert found.wait_s("a") == 0
        found.failed("a")
        clock.now += 1
    assert found.wait_s("a") == tries.WINDOW_S - tries.OF_ONE
    assert found.wait_s("b") == 0
    clock.now += tries.WINDOW_S - tries.OF_ONE
    assert found.wait_s("a") == 0


def test_all_addresses_together_are_bounded_and_so_is_what_is_remembered() -> None:
    clock = Clock()
    found = Tries(clock)
    for i in range(tries.OF_ALL):
        found.failed(f"a{i}")
    assert found.wait_s("new") == tries.WINDOW_S
    for i in range(3 * tries.ADDRESSES):
        found.failed(f"b{i}")
    assert len(found._by_address) <= tries.ADDRESSES
    clock.now += tries.WINDOW_S
    assert found.wait_s("new") == 0
    found.failed("new")
    assert len(found._by_address) == 1


def test_whoever_guesses_at_the_form_has_to_wait(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        told = [
            http.post("/login", data={"token": f"hg_{i}"}, headers=OWN)
            for i in range(tries.OF_ONE + 1)
        ]
        assert [answer.status_code for answer in told] == [401] * tries.OF_ONE + [429]
        assert 0 < int(told[-1].headers["retry-after"]) <= tries.WINDOW_S
        assert http.post("/login", data={"token": world.token}, headers=OWN).status_code == 429
    with world.http() as http:
        assert http.get("/").status_code == 200, "programs go on"
