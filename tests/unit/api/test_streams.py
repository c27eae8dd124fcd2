"""Waiting: events that can be taken up again, claims that wait for work."""

from __future__ import annotations

import json
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import cast
from urllib.parse import urlsplit

from controlplane.api.driver_app import KNOWN_S, SharedPoll
from controlplane.api.threads import CLAIMS
from controlplane.client import Document
from controlplane.core.model.events import NO_BRANCH, Event
from dataplane.contract.claims import Claim
from tests.unit.api.world import World


def put(world: World, *kinds: str, branch: str = "main") -> None:
    with world.services.store.begin() as tx:
        tx.events.put([Event(kind, "a.b", 1, branch=branch) for kind in kinds])
    world.services.wake.notify()


def test_events_are_taken_up_after_the_last_one_seen(world: World) -> None:
    put(world, "one", "two", "three")
    with world.client() as client:
        events = [e for e in client.events(0, follow=False) if e]
        assert [e["kind"] for e in events] == ["one", "two", "three"]
        assert [e["kind"] for e in client.events(events[1]["id"], follow=False) if e] == ["three"]
    with world.http() as http:
        resumed = http.get(
            "/v1/events?after=0&follow=false", headers={"Last-Event-ID": str(events[0]["id"])}
        ).text
    assert resumed.count("event: ") == 2
    assert f"id: {events[2]['id']}\n" in resumed


def test_a_waiting_reader_gets_new_events(world: World) -> None:
    put(world, "old")
    with world.client() as client:
        stream = client.events()
        assert next(stream) is None  # connected: what comes from now on is ours
        put(world, "new")
        assert [e["kind"] for e in islice(filter(None, stream), 1)] == ["new"]


def test_a_reader_of_one_branch_is_told_of_no_other(world: World) -> None:
    with world.client() as client:
        stream = client.events(branch="main")
        assert next(stream) is None
        put(world, "theirs", branch="dev")
        put(world, "everybody's", branch=NO_BRANCH)
        put(world, "theirs", branch="dev")
        put(world, "ours")
        told = list(islice(filter(None, stream), 2))
        assert [(e["kind"], e["branch"]) for e in told] == [("everybody's", ""), ("ours", "main")]
        again = [e for e in client.events(0, branch="main", follow=False) if e]
        assert again == told


def test_a_branch_that_is_not_there_has_no_events(world: World) -> None:
    with world.http() as http:
        for path in ("/v1/events?branch=dev&follow=false", "/v1/audit?branch=dev"):
            answer = http.get(path)
            assert (answer.status_code, answer.json()["type"]) == (404, "urn:headgate:not-found"), (
                path
            )


def test_a_reader_is_let_go_when_the_process_ends(world: World) -> None:
    with world.client() as client:
        stream = client.events()
        next(stream)
        world.services.stopping.set()
        world.services.wake.notify()
        assert all(e is None for e in stream)


def test_a_claim_waits_and_returns_empty(world: World) -> None:
    with world.http(world.driver) as http:
        answer = http.post(
            "/v1/driver/claim", json={"contract": 1, "kinds": ["list"], "wait_s": 0.0}
        )
        assert (answer.status_code, answer.content) == (204, b"")
        unknown = http.post("/v1/driver/claim", json={"contract": 99, "kinds": ["list"]})
        assert (unknown.status_code, unknown.json()["type"]) == (
            426,
            "urn:headgate:unknown-contract",
        )
        odd: object
        for odd in ([], ["none"], [[]], [{}], "list"):
            answer = http.post("/v1/driver/claim", json={"contract": 1, "kinds": odd})
            assert (answer.status_code, answer.json()["type"]) == (
                422,
                "urn:headgate:invalid-request",
            ), odd
        assert http.post("/v1/driver/heartbeat", json={"attempts": ["a"]}).json() == {
            "fenced": ["a"],
            "drain": False,
        }
        fenced = http.post("/v1/driver/report", json={"attempt": "a", "results": []})
        assert (fenced.status_code, fenced.json()["type"]) == (409, "urn:headgate:fenced")


def test_waiting_claims_return_when_the_process_ends(world: World) -> None:
    def claim() -> int:
        with world.http(world.driver) as http:
            return http.post(
                "/v1/driver/claim", json={"contract": 1, "kinds": ["list"], "wait_s": 25.0}
            ).status_code

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(claim)
        world.wake.waiting.acquire()
        world.services.stopping.set()
        world.services.wake.notify()
        assert answer.result() == 503


def test_a_claim_gets_work_that_comes_while_it_waits(world: World) -> None:
    blueprint: Document = {"name": "/data/s.yaml", "text": SOURCE}
    with ThreadPoolExecutor(1) as pool, world.client() as client, world.http(world.driver) as http:
        body = {"contract": 1, "kinds": ["list"], "wait_s": 25.0}
        answer = pool.submit(http.post, "/v1/driver/claim", json=body)
        world.wake.waiting.acquire()
        client.apply([blueprint])
        client.refresh()
        dispatch(world)
        claim = answer.result().json()
    assert claim["kind"] == "list"
    assert claim["job"]["location"] == "/data/*.csv"
    assert claim["lake"] == world.services.lake.uri


def test_claims_of_one_driver_poll_once_after_a_change() -> None:
    looks: list[int] = []

    def look_in_vain(count: int) -> None:
        assert shared_poll.claim(count, lambda: looks.append(count)) is None

    now = 0.0
    shared_poll = SharedPoll(lambda: now)
    for count in (1, 1, 2, 1):
        look_in_vain(count)
    assert looks == [1, 2]

    work = cast("Claim", {"attempt": "a"})
    assert shared_poll.claim(3, lambda: work) is work
    look_in_vain(3)  # there may be more
    now += KNOWN_S
    look_in_vain(3)  # a task's delay may be over
    assert looks == [1, 2, 3, 3]


SOURCE = """\
dataflow: s
components:
  raw:
    read: {connector: files, path: /data/*.csv, format: csv, schema: "a INT"}
"""


def dispatch(world: World) -> None:
    """What a tick of the loop does with requested listings."""
    from controlplane.operations.planning.snapshot import desired
    from controlplane.operations.work import listings

    with world.services.store.begin() as tx:
        nodes = desired(tx, "main")
        assert listings.dispatch(tx, "main", listings.sources(nodes, set(nodes.order))) == 1
    world.services.wake.notify()


def test_no_work_is_handed_to_a_driver_that_hung_up(world: World) -> None:
    parts = urlsplit(world.url)
    body = json.dumps({"contract": 1, "kinds": ["list"], "wait_s": 25.0}).encode()
    head = [
        "POST /v1/driver/claim HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {world.driver}",
        f"Content-Length: {len(body)}",
    ]
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as raw:
        raw.sendall("\r\n".join([*head, "", ""]).encode() + body)
        world.wake.waiting.acquire()
        seen = world.wake.count
    world.services.wake.wait(10.0, seen)  # the server noticed, and woke whoever waits
    with world.client() as client:
        client.apply([{"name": "/data/s.yaml", "text": SOURCE}])
        client.refresh()
    dispatch(world)
    with world.http(world.driver) as http:  # who lives gets it
        answer = http.post(
            "/v1/driver/claim", json={"contract": 1, "kinds": ["list"], "wait_s": 0.0}
        )
    assert answer.status_code == 200


def test_however_many_claims_wait_other_requests_are_answered(world: World) -> None:
    parts, body = (
        urlsplit(world.url),
        json.dumps({"contract": 1, "kinds": ["list"], "wait_s": 25.0}),
    )
    head = ["POST /v1/driver/claim HTTP/1.1", "Host: x", f"Authorization: Bearer {world.driver}"]
    request = "\r\n".join([*head, f"Content-Length: {len(body)}", "", body]).encode()
    with ExitStack() as open_ones:
        waiting = [
            open_ones.enter_context(socket.create_connection((parts.hostname, parts.port)))
            for _ in range(CLAIMS)
        ]
        for connection in waiting:
            connection.sendall(request)
        for _ in waiting:
            world.wake.waiting.acquire()
        with world.http(world.driver) as http:
            assert http.get("/livez").status_code == 200
            assert http.post("/v1/driver/heartbeat", json={"attempts": []}).status_code == 200
        assert select.select(waiting, [], [], 0)[0] == [], "they wait on"
        world.services.stopping.set()
        world.services.wake.notify()
