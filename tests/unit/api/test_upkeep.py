"""Collecting and checking over HTTP."""

from __future__ import annotations

import pytest

from controlplane.client import ApiError
from tests.store.examples import d, listing, stored_job, trace
from tests.unit.api.world import World


def test_collecting_tells_what_went(world: World) -> None:
    with world.services.store.begin() as tx:
        tx.queue.put_job(d(1), stored_job())
    with world.client() as client:
        found = client.gc()
        assert (found["tasks"], found["nodes"]) == (1, 0)
        assert set(client.gc().values()) == {0}
        assert client.gc(packs=True)["packs"] == 0


def test_collecting_beside_damage_is_refused(world: World) -> None:
    with world.services.store.begin() as tx:
        tx.listings.put(listing())
    with world.client() as client, pytest.raises(ApiError, match="it is missing") as refused:
        client.gc()
    assert (refused.value.status, refused.value.code) == (500, "corrupt-node")
    assert "headgate fsck" in str(refused.value), "an error says how to mend it"


def test_checking_tells_what_is_wrong(world: World) -> None:
    with world.client() as client:
        assert client.fsck() == {"findings": [], "complete": True}
        with world.services.store.begin() as tx:
            tx.traces.put([trace(1, 2)], [])
        found = client.fsck(files=True)
    assert found["complete"]
    assert [(f["code"], f["where"]) for f in found["findings"]] == [
        ("trace-without-fragment", f"trace {d(1).hex()}")
    ]


def test_a_check_takes_nothing_else(world: World) -> None:
    with world.http() as http:
        assert http.post("/v1/fsck", json={"mend": True}).status_code == 422
        assert http.post("/v1/fsck").status_code == 200
        assert http.post("/v1/gc", json={"pack": True}).status_code == 422
        assert http.post("/v1/gc", headers={"Idempotency-Key": "once"}).status_code == 200
