"""A branch writes only where a redirect leads, and never where anybody else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from controlplane.core.compile.nodes import Sink
from controlplane.core.errors import BadRedirect
from controlplane.core.plan import Sync
from controlplane.operations.desired import branches, merging
from dataplane.contract.jobs import WriteJob
from tests.unit.branches.world import BranchWorld

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
COPY = "  copy:\n    write: {connector: files, from: doubled, path: /out/copy, format: csv}\n"
DELTA = "  delta:\n    write: {connector: delta, from: doubled, path: /out/table}\n"
KAFKA = (
    "  topic:\n"
    "    write: {connector: kafka, from: doubled, servers: 'a:9092', topic: sums, key: [k], format: json}\n"
)
JDBC = "  table:\n    write: {connector: jdbc, from: doubled, url: 'jdbc:postgresql://h/d', table: public.sums}\n"
REST = DOUBLED.format(factor=2) + COPY
EDITED = DOUBLED.format(factor=3) + COPY


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    """Main at rest, with a copy."""
    made = BranchWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.apply(REST)
    made.settle()
    return made


def create(
    world: BranchWorld, redirect: dict[str, str], name: str = "dev", **more: Any
) -> dict[str, str]:
    return branches.create(world.ctx, name, redirect=redirect, **more)["redirects"]


def written(world: BranchWorld, path: str) -> list[tuple[Any, ...]]:
    return sorted(row for rows in world.engine.targets[path].values() for row in rows)


def test_a_branch_writes_where_its_redirect_leads_and_nowhere_else(world: BranchWorld) -> None:
    assert create(world, {"shop.copy": "dev_copy"}) == {"shop.copy": "/out/dev_copy"}
    world.settle()
    assert written(world, "/out/dev_copy") == written(world, "/out/copy") == [(1, 20), (2, 40)]
    world.apply_in("dev", EDITED)
    world.settle()
    assert written(world, "/out/dev_copy") == [(1, 30), (2, 60)]
    assert written(world, "/out/copy") == [(1, 20), (2, 40)]
    assert world.engine.targets.keys() == {"/out/copy", "/out/dev_copy"}
    world.put("b.csv", (3, 1))
    world.settle()
    assert (3, 3) in written(world, "/out/dev_copy")
    assert (3, 2) in written(world, "/out/copy")


def test_other_write_components_stay_off(world: BranchWorld) -> None:
    create(world, {"shop.copy": "dev_copy"})
    world.apply_in("dev", REST + DELTA)
    world.settle()
    assert world.engine.targets.keys() == {"/out/copy", "/out/dev_copy"}
    assert world.decided("dev", "shop.copy").status == "up_to_date"
    assert world.decided("dev", "shop.delta").status == "paused"


def test_a_merge_brings_no_redirect(world: BranchWorld) -> None:
    create(world, {"shop.copy": "dev_copy"})
    world.apply_in("dev", EDITED)
    world.settle()
    merging.merge_branch(world.ctx, "dev")
    world.settle()
    assert written(world, "/out/copy") == [(1, 30), (2, 60)]
    assert world.engine.targets.keys() == {"/out/copy", "/out/dev_copy"}


def test_a_branch_that_is_made_again_writes_over_what_the_first_one_wrote(
    world: BranchWorld,
) -> None:
    """Its generations begin with those of main, and the place has seen later ones."""
    create(world, {"shop.copy": "dev_copy"})
    for factor in (3, 4, 5):
        world.apply_in("dev", DOUBLED.format(factor=factor) + COPY)
        world.settle()
    branches.delete(world.ctx, "dev")
    create(world, {"shop.copy": "dev_copy"})
    world.apply_in("dev", DOUBLED.format(factor=7) + COPY)
    world.settle()
    assert world.decided("dev", "shop.copy").status == "up_to_date"
    assert written(world, "/out/dev_copy") == [(1, 70), (2, 140)]


def test_the_owner_of_a_copy_says_which_branch_it_is_of(world: BranchWorld) -> None:
    create(world, {"shop.copy": "dev_copy"})
    step = world.decided("dev", "shop.copy").step
    assert isinstance(step, Sync)
    job = cast("WriteJob", step.job)
    assert job["owner"].split()[::2] == ["shop.copy", "dev"]


@pytest.mark.parametrize(
    "place",
    [
        "copy",
        "/out/copy",
        "/out//COPY/",
        "/out/x/../copy",
        "file:///out/copy",
        "/out/copy/inner",
        "/out",
        "{home}/orders",
        "{home}/orders/new",
    ],
)
def test_a_redirect_to_what_somebody_reads_or_writes_is_refused(
    world: BranchWorld, place: str
) -> None:
    with pytest.raises(BadRedirect, match=r"leads to the place of shop\.(copy|orders)"):
        create(world, {"shop.copy": place.format(home=world.home)})
    with world.store.read() as tx:
        assert not tx.branches.all()


@pytest.mark.parametrize(
    ("component", "place", "why"),
    [
        ("shop.doubled", "x", "no write component"),
        ("copy", "x", "no write component"),
        ("shop.copy", "a/b", "relative to nothing"),
        ("shop.copy", "s3://bucket/x", "not in the storage"),
        ("shop.copy", "/out/*", r"one of \*"),
        ("shop.copy", "/proc/x", "a place of the system"),
    ],
)
def test_a_redirect_that_cannot_be_is_refused(
    world: BranchWorld, component: str, place: str, why: str
) -> None:
    with pytest.raises(BadRedirect, match=why):
        create(world, {component: place})


def test_no_two_branches_share_a_place(world: BranchWorld) -> None:
    create(world, {"shop.copy": "dev_copy"})
    with pytest.raises(BadRedirect, match=r"shop\.copy in branch dev"):
        create(world, {"shop.copy": "/out/dev_copy/x"}, "other")
    assert create(world, {}, "child", source="dev") == {}  # it has none of dev's
    world.settle()
    assert world.decided("child", "shop.copy").status == "paused"


@pytest.mark.parametrize(
    ("text", "component", "name", "place"),
    [
        (DELTA, "shop.delta", "mine", "/out/mine"),
        (KAFKA, "shop.topic", "dev.sums", "dev.sums"),
        (JDBC, "shop.table", "dev_sums", "public.dev_sums"),
        (JDBC, "shop.table", "dev.sums", "dev.sums"),
    ],
)
def test_what_a_redirect_names(
    world: BranchWorld, text: str, component: str, name: str, place: str
) -> None:
    world.apply(REST + text)
    assert create(world, {component: name}) == {component: place}
    with world.ctx.read_plan("dev") as (_, facts):
        moved = facts.desired.nodes[component]
    with world.ctx.read_plan("main") as (_, facts):
        of_main = facts.desired.nodes[component]
    assert isinstance(moved, Sink)
    assert isinstance(of_main, Sink)
    assert moved.identity != of_main.identity
    assert moved.path.endswith(place)
    told = {k: v for k, v in moved.write.settings if k in ("table", "topic")}
    assert set(told.values()) <= {place}


@pytest.mark.parametrize(
    ("text", "component", "name"),
    [
        (KAFKA, "shop.topic", "sums"),
        (JDBC, "shop.table", '"Sums"'),
        (JDBC, "shop.table", "PUBLIC.sums"),
    ],
)
def test_the_table_or_topic_of_main_is_refused(
    world: BranchWorld, text: str, component: str, name: str
) -> None:
    world.apply(REST + text)
    with pytest.raises(BadRedirect, match="leads to the place of"):
        create(world, {component: name})


def until_writing_is_requested(world: BranchWorld) -> None:
    for _ in range(20):
        world.once()
        with world.store.read() as tx:
            if tx.queue.demands("dev", "shop.copy"):
                return
        world.engine.step()
    raise AssertionError("the branch requests no task of its export")


def test_main_that_comes_to_a_place_turns_the_redirect_off(world: BranchWorld) -> None:
    create(world, {"shop.copy": "dev_copy"})
    world.settle()
    world.apply_in("dev", EDITED)
    world.settle()
    before = written(world, "/out/dev_copy")
    world.apply_in("dev", DOUBLED.format(factor=7) + COPY)
    until_writing_is_requested(world)
    more = (
        "  more:\n    write: {connector: files, from: orders, path: /out/dev_copy, format: csv}\n"
    )
    world.apply(REST + more)
    world.once()
    found = world.decided("dev", "shop.copy")
    assert (found.status, found.reason) == (
        "paused",
        "its redirect leads to the place of shop.more",
    )
    with world.store.read() as tx:
        assert tx.queue.demands("dev", "shop.copy") == {}
    assert written(world, "/out/dev_copy") == before
    world.apply(REST)
    world.engine.targets["/out/dev_copy"].clear()
    world.settle()
    assert world.decided("dev", "shop.copy").status == "up_to_date"
    assert written(world, "/out/dev_copy")[0] == (1, 70)
