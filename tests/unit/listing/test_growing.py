"""Listings that only add to the one before: the worker is told where that one ended, and names what
comes after."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.core.model.sources import Listing
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.work.listing_diff import Damaged, Unchanged
from dataplane.contract.claims import ListClaim
from dataplane.contract.source_objects import ListingResult
from tests.stores import new_store
from tests.unit.listing.location import Location, after, each, file


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(new_store(), LocalObjects(tmp_path / "lake"), is_growing=True)


def found(location: Location, claim: ListClaim, names: Iterable[str]) -> ListingResult:
    result = location.found(claim, each(map(file, names)), inline=True)
    return {**result, "after": after(claim)}


def more(location: Location, *names: str) -> Listing:
    claim = location.claim()
    location.report(claim, found(location, claim, names))
    return location.listing


def test_a_worker_is_told_where_the_listing_ended(location: Location) -> None:
    assert location.claim()["job"]["known"] == {"key": None, "objects": []}
    location = Location(new_store(), location.lake, is_growing=True)
    more(location, "1", "2")
    assert location.claim()["job"]["known"] == {"key": "2", "objects": [file("2")]}


def test_what_is_named_is_added(location: Location) -> None:
    first, second = more(location, "1", "2"), more(location, "3")
    assert list(location.entries()) == ["1", "2", "3"]
    assert (second.objects, second.size_bytes, location.event().body["changed"]) == (3, 0, 1)
    assert first.root != second.root
    assert location.rows("3")["3"].objects == (file("3"),)


def test_nothing_named_is_nothing_changed(location: Location) -> None:
    assert more(location).root is not None, "a first listing may be empty"
    before = more(location, "1")
    after = more(location)
    assert (after.root, after.served) == (before.root, before.served + 1)


def test_what_does_not_go_on_where_the_listing_ended_is_refused(location: Location) -> None:
    more(location, "1", "2")
    claim = location.claim()
    for result in (
        {**found(location, claim, "3"), "after": "1"},
        found(location, claim, "2"),
        found(location, claim, "0"),
    ):
        with pytest.raises(Damaged), closing(location.read(claim, result)):  # type: ignore[arg-type]
            pass
    with closing(location.read(claim, found(location, claim, ""))) as nothing:
        assert isinstance(nothing, Unchanged)
