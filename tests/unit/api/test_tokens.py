"""Tokens end at once, tell when they were used, and S3 keys are no more than the token that made
them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import repeat
from pathlib import Path

import httpx2
import pytest

from controlplane.api import driver_app, event_feed
from controlplane.api.services import Services
from controlplane.api.token_watch import LOOK_AGAIN_S
from controlplane.core.rights import TokenScope
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys, tokens
from controlplane.ports.records import WantedRows
from controlplane.services.s3.reads import ReadCounts
from tests.stores import new_store
from tests.unit.api.world import TellingWake, World, serving
from tests.unit.time_travel.world import Place, served


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with served(tmp_path) as place:
        yield place


def bearer(url: str, text: str) -> httpx2.Client:
    return httpx2.Client(
        base_url=url, headers={"Authorization": f"Bearer {text}"}, trust_env=False, timeout=30
    )


def test_a_stream_of_events_that_waits_ends_with_its_token(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "HEARTBEAT_S", 1e9)
    context = Context(world.services.store)
    text, token = tokens.create(context, "reader", ("view",))
    with bearer(world.url, text) as http, http.stream("GET", "/v1/events") as stream:
        lines = stream.iter_raw()
        assert next(lines) == b": events\n\n"
        tokens.revoke(context, token.id)
        # News of the token itself may wake the stream once before; nothing else would end it
        assert set(lines) <= {b": still here\n\n"}
    assert LOOK_AGAIN_S < 1


def test_a_driver_whose_token_ends_while_it_waits_gets_no_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_app, "KNOWN_S", 0.0)
    context = Context(world.services.store)
    with ThreadPoolExecutor(1) as pool, world.http(world.driver) as http:
        wish = {"contract": 1, "kinds": ["list"], "wait_s": 25.0}
        answer = pool.submit(http.post, "/v1/driver/claim", json=wish)
        world.wake.waiting.acquire()
        with context.store.begin() as tx:
            tokens.revoke_drivers(tx, {"d1"})
        world.services.wake.notify()
        assert answer.result().status_code == 401


def test_what_is_cut_off_is_not_taken_for_the_whole(tmp_path: Path, place: Place) -> None:
    """A download goes on for as long as it takes; its token ends in between."""
    context, ended = place.world.ctx, threading.Event()

    def render(selection: WantedRows) -> Iterator[bytes]:
        yield b"first"
        assert ended.wait(30)
        yield from repeat(b"more")  # until nobody reads

    services = Services(place.world.store, place.world.lake, TellingWake(), render, lambda *_: "")
    text, token = tokens.create(context, "reader", ("data",))
    with (
        serving(services) as url,
        bearer(url, text) as http,
        http.stream("GET", "/v1/branches/main/datasets/shop.orders/records") as answer,
    ):
        parts = answer.iter_raw()
        assert next(parts) == b"first"
        tokens.revoke(context, token.id)
        ended.set()
        with pytest.raises(httpx2.RemoteProtocolError):
            list(parts)


def test_a_use_is_noted_once_a_minute() -> None:
    now = [1000.0]
    ctx = Context(new_store(clock=lambda: now[0]))
    text, token = tokens.create(ctx, "ci", ("view",))
    text_of_driver, its = tokens.create(ctx, "driver", ("driver",), subject="d1")
    used = []
    for at in (1000.0, 1059.0, 1060.0, 1100.0, 1121.0):
        now[0] = at
        assert tokens.authenticate(ctx.store, text) is not None
        assert tokens.authenticate(ctx.store, text_of_driver) is not None
        with ctx.store.read() as tx:
            used += [found.used for found in tx.access.tokens() if found.id == token.id]
    assert used == [1000.0, 1000.0, 1060.0, 1060.0, 1121.0]
    with ctx.store.read() as tx:
        found = tx.access.token_by_id(its.id)
    assert found is not None
    assert found.used is None, "a driver's heartbeats are known already"


def test_an_s3_key_reads_no_more_than_its_token_and_ends_with_it(world: World) -> None:
    context = Context(world.services.store)
    text, token = tokens.create(
        context, "analyst", ("data",), within=TokenScope(("shop",), (), ("main",))
    )
    with bearer(world.url, text) as http, world.http() as admin:
        made = http.post("/v1/s3/keys", json={"name": "mine", "read": ["*"]}).json()
        other = admin.post("/v1/s3/keys", json={"name": "other"}).json()
        assert [key["name"] for key in http.get("/v1/s3/keys").json()["items"]] == ["mine"]
        assert len(admin.get("/v1/s3/keys").json()["items"]) == 2
        assert http.delete(f"/v1/s3/keys/{other['access_key']}").status_code == 404
    found = s3_keys.find(world.services.store, made["access_key"])
    assert found is not None
    assert found.principal.within == token.within
    tokens.revoke(context, token.id)
    assert s3_keys.find(world.services.store, made["access_key"]) is None
    assert s3_keys.find(world.services.store, other["access_key"]) is not None


def test_a_protected_branch_is_changed_by_administrators_who_say_so(place: Place) -> None:
    context = place.world.ctx
    text, _ = tokens.create(context, "editor", ("edit",))
    wish = {"target": "shop.orders", "generation": 1}
    with place.http() as admin, bearer(place.url, text) as editor:
        assert admin.put("/v1/branches/main/protection", json={"protected": True}).is_success
        for client in (admin, editor):
            refused = client.post("/v1/branches/main/rollback", json=wish)
            assert (refused.status_code, refused.json()["type"]) == (
                403,
                "urn:headgate:branch-protected",
            )
        forbidden = editor.post("/v1/branches/main/rollback?override=true", json=wish)
        assert (forbidden.status_code, forbidden.json()["type"]) == (403, "urn:headgate:forbidden")
        assert admin.post("/v1/branches/main/rollback?override=true", json=wish).is_success
        noted = admin.get("/v1/audit").json()["items"]
    assert [
        (row["action"], row["target"]) for row in noted if row["action"] == "branch.override"
    ] == [("branch.override", "main")]


def test_reads_of_rows_are_noted_and_reads_of_nothing_are_not(place: Place) -> None:
    path = "/v1/branches/main/datasets/shop.orders/records"
    text, _ = tokens.create(place.world.ctx, "analyst", ("data",))
    with bearer(place.url, text) as http, place.http() as admin:
        tag = http.get(f"{path}?format=csv&limit=1").headers["etag"]
        http.get(f"{path}?format=csv&limit=1", headers={"If-None-Match": tag})
        http.head(path)
        http.get("/v1/branches/main/datasets/shop.orders/partitions")
        (read,) = admin.get("/v1/audit/reads").json()["items"]
        assert (
            admin.get(f"/v1/audit/reads?until={read['at']}".replace("+", "%2B")).json()["items"]
            == []
        )
        assert admin.get(f"/v1/audit/reads?since={read['at']}".replace("+", "%2B")).json()[
            "items"
        ] == [read]
    assert (read["actor"], read["dataset"], read["how"]) == ("analyst", "shop.orders", "records")
    wish: dict[str, object] = {
        "partition": None,
        "columns": [],
        "where": None,
        "offset": 0,
        "limit": 1,
    }
    assert read["what"] == {"generation": 2, "format": "csv", **wish}
    assert datetime.fromisoformat(read["at"]).timestamp() == place.world.now


def test_reads_through_s3_are_counted_by_key_dataset_and_minute() -> None:
    store, now = new_store(), [120.0]
    counts = ReadCounts(store, clock=lambda: now[0])
    for at, dataset in ((120.0, "shop.a"), (179.0, "shop.a"), (179.0, "shop.b"), (180.0, "shop.a")):
        now[0] = at
        counts.add("key", "notebooks", "main", dataset, 10)
    counts.close()
    with store.read() as tx:
        found = [(r.dataset, r.at, r.times, r.bytes) for r in reversed(tx.audit.reads(None, 9))]
        assert tx.audit.reads(None, 1)[0].what == {"access_key": "key"}
    assert found == [("shop.a", 120.0, 2, 20), ("shop.a", 180.0, 1, 10), ("shop.b", 120.0, 1, 10)]


def test_counts_that_cannot_be_written_are_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    counts = ReadCounts(store, clock=lambda: 0.0)
    counts.add("key", "notebooks", "main", "shop.a", 1)
    with monkeypatch.context() as broken:
        broken.setattr(store, "begin", lambda _: (_ for _ in ()).throw(OSError("no room")))
        counts.flush()
    counts.add("key", "notebooks", "main", "shop.a", 1)
    counts.close()
    with store.read() as tx:
        assert [(r.times, r.bytes) for r in tx.audit.reads(None, 9)] == [(2, 2)]
