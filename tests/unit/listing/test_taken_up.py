"""A read component that goes back to an earlier way of reading: what was found in that way then may
be long gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.operations.desired import blueprints
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.work import listings
from tests.unit.expectations.world import BRANCH, World

FIRST, OTHER = "orders/*.csv", "orders/b*.csv"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.put("a.csv", (1, 1))
    yield world
    world.store.close()


def read(path: str, name: str = "orders", refresh: str = "1m") -> str:
    options = 'format: csv, options: {header: true}, schema: "k BIGINT, v BIGINT"'
    return (
        f"  {name}:\n    read: {{connector: files, path: {path}, refresh: {refresh}, {options}}}\n"
    )


def apply(world: World, *components: str, dry_run: bool = False) -> None:
    text = "dataflow: shop\ncomponents:\n" + "".join(components)
    source = blueprints.SentBlueprint(f"{world.home}/shop.yaml", text, {})
    blueprints.apply(world.ctx, BRANCH, [source], dry_run=dry_run)


def is_asked_for(world: World) -> bool:
    with world.store.read() as tx:
        nodes = desired(tx, BRANCH)
        found = tx.listings.get(n.listing for n in listings.sources(nodes, nodes.order))
    return any(map(listings.is_open, found.values()))


def test_nothing_is_computed_for_a_listing_that_is_out_of_date(world: World) -> None:
    apply(world, read(FIRST))
    world.settle()
    apply(world, read(OTHER))
    world.settle()
    world.put("a.csv", (2, 2))
    world.put("b.csv", (3, 3))
    apply(world, read(FIRST))
    waiting = world.decision()
    assert (waiting.status, waiting.reason) == ("stale", "waits for a listing")
    assert world.settle() == {"parse": 2}
    assert world.rows() == [(2, 2), (3, 3)]


def test_a_place_where_nothing_changed_ends_the_wait(world: World) -> None:
    apply(world, read(FIRST))
    world.settle()
    apply(world, read(OTHER))
    world.settle()
    apply(world, read(FIRST))
    while world.once().changed or world.work():  # without another refresh
        world.check_kept_plan()
    assert (world.decision().status, world.rows()) == ("up_to_date", [(1, 1)])


def test_only_what_is_taken_up_is_listed_again(world: World) -> None:
    apply(world, read(FIRST), read(OTHER, "others"))
    world.settle()
    apply(world, read(OTHER), read(OTHER, "others"))  # somebody looks there all the time
    assert not is_asked_for(world)
    apply(world, read(FIRST), read(OTHER, "others"), dry_run=True)
    assert not is_asked_for(world)
    apply(world, read(FIRST, refresh="manual"), read(OTHER, "others"))
    assert not is_asked_for(world)
    apply(world, read(OTHER))
    apply(world, read(FIRST))
    assert is_asked_for(world)
