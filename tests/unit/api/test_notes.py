"""What is told of drivers that are in trouble, of tasks and of wishes, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.cli import views, why_views
from controlplane.cli.output import Lines, View
from controlplane.client import ApiError, Document, Headgate
from controlplane.core.model.answers import WhyAnswer
from controlplane.core.model.leases import LOOP
from tests.store.examples import d, driver, error, stored_job, task
from tests.there import there
from tests.unit.api.world import BLUEPRINT, World

QUOTA = "waits for room in a quota: exceeded quota: team"
ENDS = (
    "preempted: a pod of higher priority took its place",
    "evicted: The node was low on resource: memory",
    "ran out of memory: killed at its limit of 64Mi",
    "ran for longer than its deadline of 5 s",
)


@pytest.fixture
def client(world: World) -> Iterator[Headgate]:
    with world.services.store.begin() as tx:
        tx.drivers.put(driver("waits", reason=QUOTA))
        tx.drivers.put(driver("works"))
        tx.drivers.put(driver("asked", ended=True, reason="ended as asked"))
        for n, reason in enumerate(ENDS):
            tx.drivers.put(driver(f"d{n}", seen=float(n), ended=True, reason=reason))
    with world.client() as client:
        client.apply([Document(name="/data/shop.yaml", text=BLUEPRINT, files={})])
        yield client


def texts(view: View) -> str:
    return "\n".join(line for part in view if isinstance(part, Lines) for line in part.lines)


def test_status_says_what_drivers_wait_for_and_what_the_last_ones_ended_of(
    client: Headgate,
) -> None:
    drivers = client.status()["drivers"]
    assert [(x["state"], x["reason"]) for x in drivers] == [
        ("waiting", QUOTA),
        ("running", ""),
        *(("ended", reason) for reason in reversed(ENDS)),
    ]
    assert drivers[-1]["at"] == "1970-01-01T00:00:00.000+00:00"


def test_why_says_so_of_a_dataset_that_waits_for_drivers(world: World, client: Headgate) -> None:
    with world.services.store.begin() as tx:
        tx.queue.put_job(d(0), stored_job(shared={}))
    why = client.why("shop.dear")
    assert why["drivers"] == [], "it waits for its input, not for a driver"
    assert "driver" not in texts(why_views.why(why))
    told: WhyAnswer = {**why, "drivers": [x for x in client.status()["drivers"] if x["reason"]]}
    for line in (f"driver waiting: {QUOTA}", f"driver ended: {ENDS[0]}"):
        assert line in texts(why_views.why(told))


def test_who_leads_is_told(world: World, client: Headgate) -> None:
    assert client.status()["leader"] is None
    assert "leads" not in texts(views.status(client.status()))
    with world.services.store.begin() as tx:
        lease = tx.leases.take(LOOP, "pod-1/ab12", 3600.0)
    leader = there(client.status()["leader"])
    assert (leader["holder"], leader["epoch"]) == ("pod-1/ab12", 1)
    since = leader["since"].replace("T", " ")[: len("2026-11-26 14:16:53")]
    assert f"pod-1/ab12 leads since {since}Z" in texts(views.status(client.status()))
    with world.services.store.begin() as tx:
        tx.leases.end(LOOP, lease.epoch)
    assert client.status()["leader"] is None


def test_tasks_of_a_dataset_by_page(world: World, client: Headgate) -> None:
    with world.services.store.begin() as tx:
        tx.queue.put_job(d(0), stored_job(shared={}))
        tx.queue.enqueue(
            "main", "shop.dear", [task(n, partition=f"p{n}", size="large") for n in range(3)]
        )
        attempt = tx.queue.claim("a" * 32, "driver", ["transform"], max_tasks=1, lease_s=60.0)
        assert attempt is not None
        (failed,) = attempt.tasks
        assert tx.queue.fail(attempt.id, failed, error("no such column"))
    page = client.tasks("shop.dear", limit=2)
    assert (page["total"], page["next"], len(page["items"])) == (3, "2", 2)
    rest = client.tasks("shop.dear", after=int(there(page["next"])))
    assert rest["next"] is None
    found = {x["partition"]: x for x in (*page["items"], *rest["items"])}
    assert list(found) == ["p0", "p1", "p2"]
    assert sorted(x["state"] for x in found.values()) == ["failed", "queued", "queued"]
    (told,) = (x for x in found.values() if x["task"] == failed.hex())
    assert (there(told["error"])["message"], told["resources"]) == ("no such column", "large")
    with pytest.raises(ApiError) as refused:
        client.tasks("shop.none")
    assert refused.value.status == 404


def test_the_audit_log_says_who_wanted_what(client: Headgate) -> None:
    client.pause("shop.dear")
    last, first, *_ = client.audit()["items"]
    assert (last["action"], last["target"], last["actor"]) == ("pause", "shop.dear", "test")
    assert (first["action"], first["target"]) == ("apply", "shop")
    assert last["at"] >= first["at"]
    assert last["request_id"]
    assert (last["branch"], first["branch"]) == ("main", "main")
    assert len(client.audit(limit=1)["items"]) == 1
