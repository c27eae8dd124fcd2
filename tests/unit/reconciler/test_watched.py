"""Folders that are listed when they change: workers hold their listings."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.operations.inspect import overview
from dataplane.contract.claims import ListClaim
from dataplane.contract.results import infrastructure_error
from dataplane.contract.schemas import struct_of
from tests.there import there
from tests.unit.listing.location import each, file, told
from tests.unit.reconciler.test_streams import Place

FLOW = """\
dataflow: stream
components:
  messages: {{read: {{connector: files, path: {folder}/*.csv, format: csv, schema: n BIGINT, refresh: on_change}}}}
"""
ALSO = """\
  other: {{read: {{connector: files, path: {folder}/*.csv, format: csv, schema: n BIGINT, refresh: EVERY}}}}
"""


def watched(folder: Path, text: str = FLOW) -> Place:
    place = Place()
    place.apply(text.format(folder=folder))
    place.loop.tick()
    finds(place, place.listing(), "1")
    place.computes(schema=struct_of([]), content=[0, 0, 0], files=[], metrics={})
    return place


def finds(place: Place, claim: ListClaim | None, *names: str) -> None:
    found = told(each(file(name, columns=("n",)) for name in names), None)
    place.report(there(claim), {"result": found})
    place.loop.tick()


def held(place: Place) -> ListClaim:
    place.now += 1
    place.loop.tick()
    return there(place.listing())


def test_a_listing_of_a_folder_is_held_for_ten_minutes(tmp_path: Path) -> None:
    place = watched(tmp_path)
    job = held(place)["job"]
    assert job["wait_s"] == 600.0
    place.now += 599
    [flow] = overview.status(place.ctx, "main")["dataflows"]
    assert flow["datasets"][0]["listing"]["behind_s"] == 0.0, "not overdue while it is held"


def test_a_change_is_computed_and_the_next_listing_is_held(tmp_path: Path) -> None:
    place = watched(tmp_path)
    finds(place, held(place), "1", "2")
    place.computes(schema=struct_of([]), content=[0, 0, 0], files=[], metrics={})
    with place.ctx.store.read() as tx:
        assert tx.states.newest("main")["stream.messages"].partitions == 2
    assert "wait_s" in held(place)["job"]


@pytest.mark.parametrize("case", ["fails", "loses files"])
def test_a_listing_that_cannot_be_held_is_made_once_a_minute(case: str, tmp_path: Path) -> None:
    place = watched(tmp_path)
    names = [f"{n:03}" for n in range(30)]
    finds(place, held(place), *names)
    claim = held(place)
    if case == "fails":
        place.report(claim, {"state": "failed", "error": infrastructure_error("X", "no")})
    else:
        finds(place, claim, names[0])
    place.now += 59
    place.loop.tick()
    assert place.listing() is None
    place.now += 1
    place.loop.tick()
    assert "wait_s" not in there(place.listing())["job"]


def test_another_component_with_an_interval_shortens_the_wait(tmp_path: Path) -> None:
    place = watched(tmp_path, FLOW + ALSO.replace("EVERY", "30s"))
    assert held(place)["job"]["wait_s"] == 30.0


def test_another_component_on_request_does_not(tmp_path: Path) -> None:
    place = watched(tmp_path, FLOW + ALSO.replace("EVERY", "manual"))
    assert held(place)["job"]["wait_s"] == 600.0
