"""Listings of plans: what is found for a plan is the plan's alone, until it is applied or an hour
is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import PlanMoved
from controlplane.core.model.answers import ApplyAnswer, PlanAnswer
from controlplane.core.model.leases import LOOP
from controlplane.core.model.sources import Listing
from controlplane.operations.desired import blueprints
from controlplane.operations.inspect import overview
from controlplane.operations.planning import plan_listings
from controlplane.operations.upkeep.fsck import fsck
from controlplane.operations.work import listing_requests
from tests.unit.expectations.world import BRANCH, HEAD, World
from tests.unit.listing.test_looks import worker

DOUBLED = "  doubled: {transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}}\n"
MANUAL = "      refresh: manual\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.apply(DOUBLED)
    world.settle()
    world.now += 100.0
    return world


def looked(world: World, plan: str) -> PlanAnswer:
    """A plan of what is stored, for which sources were listed."""
    requests = listing_requests.ask_for_plan(
        world.ctx, BRANCH, overview.sources(world.ctx, BRANCH), plan
    )
    worker(world)
    assert not listing_requests.open_of(world.ctx, requests)
    unseen = listing_requests.end(world.ctx, requests, 60.0)
    return overview.plan(world.ctx, BRANCH, None, unseen, plan)


def drafted(world: World, plan: str, text: str) -> ApplyAnswer:
    sources = [blueprints.SentBlueprint("/shop.yaml", text, {})]
    proposed = blueprints.preview(world.ctx, BRANCH, sources).own_sources
    requests = listing_requests.ask_for_plan(world.ctx, BRANCH, proposed, plan)
    worker(world)
    listing_requests.end(world.ctx, requests, 60.0)
    return blueprints.apply(world.ctx, BRANCH, sources, dry_run=True, looked=plan)


def shared(world: World) -> Listing | None:
    with world.store.read() as tx:
        [source] = {node.listing for node in overview.sources(world.ctx, BRANCH)}
        return tx.listings.get([source]).get(source)


def of_plans(world: World) -> int:
    with world.store.read() as tx:
        return len(tx.listings.of_plans())


def work(found: PlanAnswer) -> dict[str, list[str]]:
    return {
        item["dataset"]: item["partitions"]
        for item in found["items"]
        if item["action"] == "compute"
    }


def test_a_plan_shows_a_file_that_arrived_and_nothing_begins(world: World) -> None:
    before = shared(world)
    with world.store.read() as tx:
        last = tx.events.last()
    world.put("b.csv", (2, 20))
    found = looked(world, "p1")
    assert work(found) == {"shop.orders": ["b.csv"], "shop.doubled": ["b.csv"]}
    assert [source["objects"] for source in found["sources"]] == [
        [{"name": "b.csv", "change": "added"}]
    ]
    assert shared(world) == before
    assert not world.settling.settle().changed
    assert not world.work()
    assert overview.plan(world.ctx, BRANCH)["items"] == []
    assert world.rows("shop.doubled") == [(1, 20)]
    with world.store.read() as tx:
        assert [event.kind for event in tx.events.newer(None, last)] == []


def test_a_plan_that_is_applied_gives_its_listing_to_all(world: World) -> None:
    world.put("b.csv", (2, 20))
    (world.home / "orders" / "a.csv").unlink()
    found = looked(world, "p1")
    blueprints.carry_out(world.ctx, BRANCH, [], found["basis"])
    assert worker(world) == 0
    assert of_plans(world) == 0
    kinds = world.kinds.copy()
    while world.settling.settle().changed or world.work():
        world.now += 10.0
    assert (world.kinds - kinds)["list"] == 0
    assert world.rows("shop.doubled") == [(2, 40)]


def test_a_draft_of_new_sources_is_applied_with_what_was_listed_for_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    text = (
        HEAD.replace("      format: csv\n", MANUAL + "      format: csv\n").format(home=world.home)
        + DOUBLED
    )
    planned = drafted(world, "p1", text)
    assert work(planned["plan"])["shop.orders"] == ["a.csv"]
    sources = [blueprints.SentBlueprint("/shop.yaml", text, {})]
    blueprints.carry_out(world.ctx, BRANCH, sources, planned["plan"]["basis"])
    while world.settling.settle().changed or world.work():
        world.now += 10.0
    assert world.kinds["list"] == 0
    assert world.rows("shop.doubled") == [(1, 20)]


def test_two_plans_do_not_disturb_each_other(world: World) -> None:
    world.put("b.csv", (2, 20))
    first = looked(world, "p1")
    world.put("c.csv", (3, 30))
    second = looked(world, "p2")
    assert work(first)["shop.orders"] == ["b.csv"]
    assert work(second)["shop.orders"] == ["b.csv", "c.csv"]
    assert work(overview.plan(world.ctx, BRANCH, None, {}, "p1"))["shop.orders"] == ["b.csv"]
    blueprints.carry_out(world.ctx, BRANCH, [], second["basis"])
    with pytest.raises(PlanMoved, match=r"source shop\.orders went from listing"):
        blueprints.carry_out(world.ctx, BRANCH, [], first["basis"])


def test_a_plan_does_not_take_back_what_was_listed_after_it(world: World) -> None:
    world.put("b.csv", (2, 20))
    found = looked(world, "p1")
    (world.home / "orders" / "b.csv").unlink()
    world.now += 1.0
    world.settle()
    with pytest.raises(PlanMoved):
        blueprints.carry_out(world.ctx, BRANCH, [], found["basis"])
    world.settle()
    assert world.rows("shop.doubled") == [(1, 20)]


def test_a_plan_that_is_never_applied_goes_after_an_hour(world: World) -> None:
    world.put("b.csv", (2, 20))
    looked(world, "p1")
    assert of_plans(world) == 1
    assert not [found for found in fsck(world.store, "default") if "listing" in found.where]
    world.now += plan_listings.KEPT_S - 1.0
    looked(world, "p2")
    assert of_plans(world) == 2
    world.now += 2.0
    looked(world, "p3")
    assert of_plans(world) == 2
    with world.store.begin() as tx:
        assert plan_listings.collect(tx, world.now + plan_listings.KEPT_S) == 2


def test_what_is_found_for_a_plan_that_is_gone_is_dropped(world: World) -> None:
    listing_requests.ask_for_plan(world.ctx, BRANCH, overview.sources(world.ctx, BRANCH), "p1")
    with world.store.begin() as tx:
        plan_listings.collect(tx, world.now + plan_listings.KEPT_S)
    world.put("b.csv", (2, 20))
    assert worker(world) == 1
    with world.store.read() as tx:
        assert len(list(tx.upkeep.pointers(["listing"]))) == 1
        assert not tx.listings.of_plans()


def test_plans_have_bounds_in_number_and_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("b.csv", (2, 20))
    for number in range(4):
        looked(world, f"p{number}")
        world.now += 1.0
    monkeypatch.setattr(plan_listings, "MOST", 2)
    with world.store.begin() as tx:
        plan_listings.collect(tx, world.now)
        kept = tx.listings.of_plans()
    assert {one.since for one in kept} == {world.now - 1.0, world.now - 2.0}
    monkeypatch.setattr(plan_listings, "MOST_BYTES", sum(one.size_bytes for one in kept) - 1)
    with world.store.begin() as tx:
        plan_listings.collect(tx, world.now)
        assert len(tx.listings.of_plans()) == 1


def test_a_listing_of_a_moment_ago_is_used_as_it_is(world: World) -> None:
    world.settle()
    requests = listing_requests.ask_for_plan(
        world.ctx, BRANCH, overview.sources(world.ctx, BRANCH), "p1"
    )
    assert requests.nodes
    listing_requests.end(world.ctx, requests, 60.0)
    world.refresh()
    worker(world)
    requests = listing_requests.ask_for_plan(
        world.ctx, BRANCH, overview.sources(world.ctx, BRANCH), "p2"
    )
    assert (requests.nodes, requests.unseen) == ((), {})


def test_a_source_that_is_listed_by_hand_is_looked_at_for_a_plan(world: World) -> None:
    text = HEAD.replace("format: csv\n", "format: csv\n      refresh: manual\n").format(
        home=world.home
    )
    with world.store.begin() as tx:
        tx.leases.take(LOOP, "a service", 15.0)
    world.put("b.csv", (2, 20))
    planned = drafted(world, "p1", text + DOUBLED)
    assert work(planned["plan"])["shop.orders"] == ["b.csv"]


def test_a_look_that_fails_is_the_plans_alone(world: World) -> None:
    before = shared(world)
    (world.home / "orders").rename(world.home / "gone")
    (world.home / "orders").symlink_to(world.home / "orders")
    requests = listing_requests.ask_for_plan(
        world.ctx, BRANCH, overview.sources(world.ctx, BRANCH), "p1"
    )
    world.work()
    assert not listing_requests.open_of(world.ctx, requests)
    [source] = overview.plan(world.ctx, BRANCH, None, {}, "p1")["sources"]
    assert str(source["problem"]).startswith("the listing failed: ")
    assert shared(world) == before
    assert overview.plan(world.ctx, BRANCH)["sources"][0]["problem"] is None
