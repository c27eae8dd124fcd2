"""Listings in every store: what is kept of them, and partitions in sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.model import change_marks
from controlplane.core.model.sources import PlanLook
from controlplane.lake.lake_objects import LocalObjects
from tests.store.conftest import World
from tests.store.examples import ODD_KEYS, d, error, listing, source_partition
from tests.unit.listing.location import Location, each, file, files


def test_what_is_known_of_columns_comes_back(world: World) -> None:
    known = listing(1, digest=d(5), columns=(("a", "ä\0"), None, ()), all_columns=False)
    with world.begin() as tx:
        tx.listings.put(known)
        tx.listings.put(listing(2))
        assert tx.listings.get([d(1), d(2)]) == {d(1): known, d(2): listing(2)}
        assert tx.listings.locked([d(2), d(1), d(3)]) == tx.listings.get([d(1), d(2)])


def test_a_confirmed_listing_is_as_it_was(world: World) -> None:
    with world.begin() as tx:
        tx.listings.put(listing(1, requested=3, served=2, error=error()))
    with world.begin() as tx:
        seen, _ = tx.states.marked("main", 0)
        tx.listings.confirm(d(1), 1)
        tx.listings.confirm(d(2), 1)
        assert tx.listings.get([d(1), d(2)]) == {
            d(1): listing(1, requested=3, served=2, error=error(), at=tx.now())
        }
        tx.listings.confirm(d(1), 3)
        assert tx.listings.get([d(1)])[d(1)].served == 3
    with world.begin() as tx:
        assert tx.states.marked("main", seen) == (seen, frozenset())
        tx.listings.put(listing(1))
    with world.read() as tx:
        assert tx.states.marked("main", seen)[1] == {change_marks.listing(d(1))}


def test_a_listing_that_is_requested_again_is_as_it_was(world: World) -> None:
    with world.begin() as tx:
        tx.listings.put(listing(1, requested=3, served=3, objects=7))
        tx.listings.put(listing(2, requested=5, served=3))
    with world.begin() as tx:
        seen, _ = tx.states.marked("main", 0)
        tx.listings.request_again([d(1), d(2), d(3)])
        assert tx.listings.get([d(1), d(2), d(3)]) == {
            d(1): listing(1, requested=4, served=3, objects=7),
            d(2): listing(2, requested=5, served=3),
        }
    with world.begin() as tx:
        assert tx.states.marked("main", seen) == (seen, frozenset())


def test_a_request_that_came_meanwhile_is_not_lost(world: World) -> None:
    """Somebody read the listing before the request, and writes it afterwards."""
    with world.begin() as tx:
        tx.listings.put(listing(1, requested=1, served=0))
        tx.listings.put(listing(1, requested=2, served=0))
        tx.listings.put(listing(1, requested=1, served=1, objects=7))
        assert tx.listings.get([d(1)]) == {d(1): listing(1, requested=2, served=1, objects=7)}


def test_listings_of_plans_are_found_with_their_size_and_dropped_with_their_partitions(
    world: World,
) -> None:
    look: PlanLook = {"plan": "p", "of": d(1).hex(), "base": "", "since": 5.0}
    with world.begin() as tx:
        tx.listings.put(listing(1, held={"awaited": True}))
        tx.listings.put(listing(2, held={"look": look}))
        tx.listings.put(listing(3, held={"lost": 1, "look": {**look, "since": 6.0}}))
        for n in (1, 2):
            tx.listings.put_partitions(d(n), [source_partition(k) for k in ("a", "b")], ())
        found = {one.id: one for one in tx.listings.of_plans()}
        assert {id: one.since for id, one in found.items()} == {d(2): 5.0, d(3): 6.0}
        assert found[d(2)].size_bytes > 0 == found[d(3)].size_bytes
        tx.listings.drop([d(2), d(3), d(4)])
        assert tx.listings.of_plans() == []
        assert set(tx.listings.get([d(1), d(2), d(3)])) == {d(1)}
        assert (len(tx.listings.partitions(d(1), "ab")), tx.listings.partitions(d(2), "ab")) == (
            2,
            {},
        )


def test_more_partitions_than_fit_into_a_statement(world: World) -> None:
    keys = [f"{i:05d}" for i in range(2500)]
    with world.begin() as tx:
        tx.listings.put_partitions(d(1), (source_partition(k) for k in keys), ())
        tx.listings.put_partitions(
            d(1), (source_partition(k, 2) for k in keys[1500:]), iter(keys[:1200])
        )
        found = tx.listings.partitions(d(1), keys)
    assert [p.source for p in found.values()] == [d(1)] * 300 + [d(2)] * 1000


@pytest.fixture
def location(world: World, tmp_path: Path) -> Location:
    return Location(world.store, LocalObjects(tmp_path), world.namespace)


def test_partitions_of_many_listings(world: World) -> None:
    """Each key is looked for in its own listing alone."""
    wanted = {d(n): [*ODD_KEYS, f"{n}.csv"] for n in range(40)}
    with world.begin() as tx:
        for n in range(40):
            tx.listings.put_partitions(
                d(n), [source_partition(k, n) for k in (*ODD_KEYS, f"{n}.csv", "7.csv")], ()
            )
    with world.read() as tx:
        found = tx.listings.partitions_of(wanted)
        assert found == {d(n): {k: source_partition(k, n) for k in wanted[d(n)]} for n in range(40)}
        assert tx.listings.partitions_of({d(1): ["nope"], d(99): ["7.csv"]}) == {
            d(1): {},
            d(99): {},
        }
        assert tx.listings.partitions_of({}) == {}


def test_a_location_over_time(location: Location) -> None:
    location.list(files(2500))
    more = [*files(2400), file("new", "1"), file("odd %\n'\"", "2")]
    after = location.list(more)
    assert (after.objects, after.size_bytes, location.event().body["changed"]) == (2402, 2, 102)
    entries = location.entries()
    rows = location.rows([*entries, *(f["name"] for f in files(2500))])
    assert {k: r.source for k, r in rows.items()} == {k: e.fragment for k, e in entries.items()}
    assert {k: r.objects for k, r in rows.items()} == {
        p["key"]: tuple(p["objects"]) for p in each(more)
    }
    assert location.list(more).root == after.root
