"""Looks that somebody waits for: each location is listed once, for who asks and for nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.compile.nodes import Source
from controlplane.core.model.leases import LOOP
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import overview, source_changes
from controlplane.operations.work import claims, listing_requests, listings, reports, rescue
from controlplane.operations.work.listing_requests import ListingRequests, demand_of
from dataplane.contract.claims import CONTRACT
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from tests.unit.expectations.world import BRANCH, HEAD, World

SAME = """\
  again:
    read: {{connector: files, path: {home}/orders/*.csv, format: csv, options: {{header: true}}, schema: "k BIGINT"}}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    return world


def proposed(world: World, more: str = "") -> list[Source]:
    text = (HEAD + more).format(home=world.home)
    return blueprints.preview(
        world.ctx, BRANCH, [blueprints.SentBlueprint("/shop.yaml", text, {})]
    ).own_sources


def ask(world: World, nodes: list[Source] | None = None) -> ListingRequests:
    return listing_requests.ask(
        world.ctx, BRANCH, overview.sources(world.ctx, BRANCH) if nodes is None else nodes
    )


def worker(world: World) -> int:
    """Does all listings that are queued; how many."""
    count = 0
    while found := claims.claim(world.ctx, "worker", CONTRACT, ["list"]):
        assert found["kind"] == "list"
        [task] = found["tasks"]
        result = {"state": "done", "result": list_files(found["job"], Versions())}
        one = {"task": task["task"], "epoch": task["epoch"], **result}
        reports.report(world.ctx, "worker", found["attempt"], [one], lake=world.lake)
        count += 1
    return count


def test_components_that_share_a_location_are_listed_together(world: World) -> None:
    requests = ask(world, proposed(world, SAME))
    assert len(requests.nodes) == 2
    assert worker(world) == 1
    assert not listing_requests.open_of(world.ctx, requests)
    assert listing_requests.end(world.ctx, requests, 60.0) == {}
    with world.store.read() as tx:
        assert not any(tx.queue.demands(BRANCH, demand_of(node.dataset)) for node in requests.nodes)
        assert tx.blueprints.revisions(BRANCH) == {}


def test_what_nobody_lists_in_time_is_told_as_it_was(world: World) -> None:
    world.apply("")
    world.settle()
    before = overview.plan(world.ctx, BRANCH)
    world.put("a.csv", (2, 20))
    requests = ask(world)
    assert listing_requests.open_of(world.ctx, requests)
    unseen = listing_requests.end(world.ctx, requests, 60.0)
    told = overview.plan(world.ctx, BRANCH, None, unseen)
    assert (told["state"], told["items"]) == ("nothing", [])
    [source], [earlier] = told["sources"], before["sources"]
    assert source["problem"] == (
        "not looked at: no worker was through with it in 60 s; it is told as it was before"
    )
    assert source["as_of"] == earlier["as_of"] is not None
    assert worker(world) == 0  # nobody waits any more
    world.settle()  # which asks anew
    assert world.rows() == [(2, 20)]


def test_a_look_while_a_worker_is_at_it_waits_for_one_that_begins_later(world: World) -> None:
    world.apply("")
    world.settle()
    world.refresh()
    under_way = claims.claim(world.ctx, "worker", CONTRACT, ["list"])
    assert under_way is not None
    requests = ask(world)
    assert worker(world) == 0
    with world.store.read() as tx:
        [attempt] = tx.queue.attempts().values()
    rescue.abandon(world.ctx, attempt, reason="its worker ended", fault="disrupted")
    world.now += 100.0
    assert worker(world) == 1  # the request before
    assert listing_requests.open_of(world.ctx, requests)  # and this queues ours
    assert worker(world) == 1
    assert not listing_requests.open_of(world.ctx, requests)


def test_what_is_listed_on_request_only_is_left_alone_where_a_service_would_compute_it(
    world: World,
) -> None:
    text = HEAD.replace("format: csv\n", "format: csv\n      refresh: manual\n").format(
        home=world.home
    )
    blueprints.apply(world.ctx, BRANCH, [blueprints.SentBlueprint("/shop.yaml", text, {})])
    with world.store.begin() as tx:
        tx.leases.take(LOOP, "somebody", 15.0)
    requests = ask(world)
    assert (requests.nodes, set(requests.unseen)) == ((), {"shop.orders"})
    world.now += 100.0  # the service is gone
    assert [node.dataset for node in ask(world).nodes] == ["shop.orders"]


def test_a_paused_source_is_left_alone(world: World) -> None:
    world.apply("")
    controls.pause(world.ctx, BRANCH, "shop")
    requests = ask(world)
    assert (requests.nodes, requests.unseen) == ((), {"shop.orders": listing_requests.PAUSED})
    assert worker(world) == 0


def test_many_files_are_counted_and_the_first_are_named(world: World) -> None:
    world.apply("")
    for n in range(30):
        world.put(f"{n:02}.csv", (n, n))
    requests = ask(world)
    worker(world)
    [found] = source_changes.of_requests(world.ctx, requests)
    assert found["changed"] == {"added": 31, "changed": 0, "removed": 0}
    assert [o["name"] for o in found["objects"]] == [f"{n:02}.csv" for n in range(10)]


def test_a_partition_of_several_objects_is_named_by_its_key(world: World) -> None:
    text = HEAD.replace(
        "format: csv\n", 'format: csv\n      partition: "{{month}}-*.csv"\n'
    ).format(home=world.home)
    for name in ("05-1.csv", "05-2.csv", "06-1.csv"):
        world.put(name, (1, 1))
    (world.home / "orders" / "a.csv").unlink()
    blueprints.apply(world.ctx, BRANCH, [blueprints.SentBlueprint("/shop.yaml", text, {})])
    ask(world)
    worker(world)
    world.put("05-2.csv", (1, 2))
    world.put("06-1.csv", (1, 2))
    requests = ask(world)
    worker(world)
    [found] = source_changes.of_requests(world.ctx, requests)
    assert [o["name"] for o in found["objects"]] == ["05", "06-1.csv"]
    assert found["changed"] == {"added": 0, "changed": 2, "removed": 0}


def test_listings_of_the_loop_and_of_a_look_are_one_task(world: World) -> None:
    world.apply("")
    world.settle()
    requests = ask(world)
    with world.store.begin() as tx:
        assert listings.dispatch(tx, BRANCH, requests.nodes) == 0
        assert set(tx.queue.demands(BRANCH, listings.demand_of("shop.orders"))) == set(
            tx.queue.demands(BRANCH, demand_of("shop.orders"))
        )
    listing_requests.end(world.ctx, requests, 60.0)
    assert worker(world) == 1  # the loop wants it still
