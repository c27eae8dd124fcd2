"""What is true of a home is on its pages: a standstill, overdue data, and how to end either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controlplane.cli import views
from controlplane.cli.output import Lines
from controlplane.core.model.drivers import Driver
from controlplane.core.model.leases import LOOP
from controlplane.core.model.tasks import RaisedSize
from controlplane.operations.context import Context
from controlplane.operations.inspect import overview, standstill
from controlplane.ports.store import Tx
from controlplane.ui.page_rendering import environment
from tests.store.examples import d, stored_job, task
from tests.unit.ui.test_pages import PATHS
from tests.unit.ui.world import Pages, lead, pages

OVERDUE = "shop.grand"


@pytest.fixture
def world(shared: Pages) -> Iterator[Pages]:
    yield shared
    lead(shared.world)


@pytest.fixture(scope="module")
def shared() -> Iterator[Pages]:
    with pages() as found:
        yield found


def stop(world: Pages) -> None:
    """The scheduler hands its lease back."""
    with world.world.store.begin() as tx:
        lease = tx.leases.get(LOOP)
        assert lease
        tx.leases.end(LOOP, lease.epoch)


# --- a standstill


def test_no_scheduler_is_told_first_on_every_page(world: Pages) -> None:
    with world.http() as http:
        assert "Nothing is being computed" not in http.get("/").text
        stop(world)
        still = http.get("/index.json").json()["standstill"]
        assert (still["missing"], still["command"]) == ("scheduler", "headgate serve")
        for path in PATHS:
            page = http.get(path).text
            assert 'class="strip stands"' in page, path
            assert "the scheduler has not been running" in page, path
            assert f'<time datetime="{still["since"]}"' in page, path
            assert "<code>headgate serve</code>" in page, path
        assert '<h1 id="needsh">Nothing is being computed' in http.get("/").text
        part = http.get("/help/keys?part=standstill").text
        lead(world.world)
        assert "headgate serve" in part
        assert "headgate serve" not in http.get("/help/keys?part=standstill").text


def test_a_home_without_trouble_is_all_healthy() -> None:
    standing = environment().filters["standing"]
    assert standing({"needs": [], "standstill": None}) == "All healthy"
    blocks: list[dict[str, Any]] = [{"name": f"a.b{n}", "freshness": None} for n in range(3)]
    failed: dict[str, Any] = {"kind": "failed", "freshness": None, "blocks": blocks}
    late: dict[str, Any] = {"kind": "overdue", "freshness": {}, "blocks": []}
    warned: dict[str, Any] = {"kind": "warning", "freshness": None, "blocks": []}
    assert standing({"needs": [failed], "standstill": None}) == "1 problem, blocking 3 datasets"
    assert standing({"needs": [late, warned], "standstill": None}) == "1 dataset overdue; 1 warning"
    blocks[0]["freshness"] = {}
    assert standing({"needs": [failed, late], "standstill": None}) == (
        "1 problem, blocking 3 datasets; 2 datasets overdue"
    )


def test_a_dataset_says_that_its_tasks_go_to_larger_drivers(world: Pages) -> None:
    raised = RaisedSize("shop.orders", "large", world.world.now)
    with world.world.store.begin() as tx:
        tx.queue.put_raised_size(raised, "parse")
    with world.http() as http:
        page = http.get("/datasets/shop.orders").text
    assert "Its tasks count as large, as one ran out of memory twice, at last at " in page


def test_a_scheduler_serves_all_namespaces(world: Pages) -> None:
    other = replace(world.world.ctx, namespace="team-b")
    assert overview.status(other, "main")["leader"]
    assert standstill.now(other) is None


def test_a_run_without_a_service_is_no_standstill(world: Pages) -> None:
    ctx = Context(world.world.store, namespace="run")
    stop(world)
    with ctx.store.begin(ctx.namespace) as tx:
        queue(tx, 1)
        assert tx.queue.claim("a1", "d1", ("transform",), max_tasks=1, lease_s=30.0)
    assert standstill.now(ctx) is None
    world.world.now += 31.0
    assert standstill.now(ctx)


def queue(tx: Tx, number: int) -> None:
    tx.queue.put_job(d(0), stored_job(shared={}))
    tx.queue.enqueue("main", "shop.orders", [task(number)])


@pytest.mark.parametrize(
    ("namespace", "drivers", "stands"),
    [
        ("none", (), True),
        ("worker", (Driver("w1", "local", "worker", 0.0, 0.0),), True),
        ("driver", (Driver("d1", "local", "driver", 0.0, 0.0),), False),
        (
            "refused",
            (Driver("d1", "kubernetes", "driver", 0.0, 0.0, reason="the quota is used up"),),
            True,
        ),
    ],
)
def test_work_that_waits_for_a_driver_for_two_minutes_is_a_standstill(
    world: Pages, namespace: str, drivers: tuple[Driver, ...], stands: bool
) -> None:
    ctx = Context(world.world.store, namespace=namespace)
    with ctx.store.begin(ctx.namespace) as tx:
        queue(tx, 1)
        for driver in drivers:
            tx.drivers.put(driver)
        queued = tx.now()
    world.world.now = queued + standstill.PATIENCE_S
    assert standstill.now(ctx) is None, "drivers take a while to begin"
    world.world.now += 1.0
    found = standstill.now(ctx)
    assert (found is not None) == stands
    if found is not None:
        assert found["missing"] == "driver"
        assert found["reason"] == next((driver.reason for driver in drivers if driver.reason), None)
        assert found["since"]


# --- overdue data


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/flows",
        "/flows/shop",
        f"/flows/shop?on={OVERDUE}",
        f"/datasets/{OVERDUE}",
        "/datasets",
        "/datasets?q=is:overdue",
        "/datasets?is=overdue",
        "/checks",
        "/checks?state=overdue",
    ],
)
def test_overdue_data_is_told_beside_the_state(world: Pages, path: str) -> None:
    with world.http() as http:
        assert re.search(
            r'class="state s-overdue"[^>]*>(?:(?!</span>).)*overdue</span>', http.get(path).text
        )


def test_overdue_data_is_counted_and_chosen(world: Pages) -> None:
    with world.http() as http:
        for path in ("/datasets.json?is=overdue", "/datasets.json?q=is:overdue"):
            assert [one["name"] for one in http.get(path).json()["items"]] == [OVERDUE], path
        facets = {one["name"]: one["values"] for one in http.get("/datasets.json").json()["facets"]}
        assert facets["is"] == [{"value": "overdue", "count": 1, "is_chosen": False}]
        needs = {need["name"]: need for need in http.get("/index.json").json()["needs"]}
        assert needs[OVERDUE]["state"] == "up_to_date"
        assert needs[OVERDUE]["freshness"]["late"]
        checks = http.get("/checks.json").json()
        assert [one["dataset"] for one in checks["freshness"]] == [OVERDUE]
        assert checks["overdue"] == 1
        assert "overdue" in http.get("/").text.split('id="needsh">')[1].split("<")[0]
        assert "1 dataset is overdue" in http.get("/checks").text
        assert http.get("/checks.json?state=ok").json()["freshness"] == []


# --- plans


@pytest.mark.parametrize("path", ["/plan", "/plan?flow=shop"])
def test_a_plan_of_what_failed_says_what_it_waits_for(world: Pages, path: str) -> None:
    with world.http() as http:
        plan = http.get(path, headers={"Accept": "application/json"}).json()["plan"]
        assert plan["failed"] == [
            {
                "dataset": "shop.strict",
                "sentence": "shop.strict failed and waits for other rows or an edit",
                "command": "headgate checks shop.strict",
            }
        ]
        assert [
            one for one in plan["items"] if one["dataset"] == "shop.strict" and not one["tasks"]
        ] == []
        page = http.get(path).text
        assert "shop.strict failed and waits for other rows or an edit" in page
        assert "<code>headgate checks shop.strict</code>" in page
        assert "everything is up to date" not in page
    told = overview.plan(world.world.ctx, "main", ["shop"])
    lines = [line for part in views.plan(told) if isinstance(part, Lines) for line in part.lines]
    assert (
        "failed: shop.strict failed and waits for other rows or an edit: headgate checks shop.strict"
        in lines
    )
