"""Shapes of requests and errors: one problem shape, limits, names, entity tags, idempotency."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import quote, urlsplit

import pytest
from fastapi import Request, Response

from controlplane.api import calls
from controlplane.api.services import Services
from controlplane.client import ApiError, Document
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.store import open_store
from dataplane.contract.schemas import Json
from tests.servers.ports import free_port
from tests.unit.api.world import BLUEPRINT, World, serving

HANGS_S = 60.0
FIELDS = {"type", "title", "status", "detail", "request_id", "errors"}


def document(text: str = BLUEPRINT) -> dict:
    return {"blueprints": [{"name": "/data/shop.yaml", "text": text}]}


@pytest.mark.parametrize("name", ["My Branch", ".hidden", "a" * 64])
def test_a_refused_name_is_told_what_a_name_has(world: World, name: str) -> None:
    words = "body.name: a name has at most 63 lower-case letters"
    with world.client() as client, pytest.raises(ApiError, match=words):
        client.create_branch(name)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, "not-found"),
        ("GET", "/v1/blueprints", None, 405, "method-not-allowed"),
        ("PUT", "/livez", None, 405, "method-not-allowed"),
        ("POST", "/v1/blueprints", b"{", 422, "invalid-request"),
        ("POST", "/v1/blueprints", b"", 422, "invalid-request"),
        ("POST", "/v1/blueprints", b"\xff\xfe", 422, "invalid-request"),
        ("POST", "/v1/blueprints", b'{"blueprints": []}', 422, "invalid-request"),
        ("POST", "/v1/blueprints", b"[" * 100_000, 422, "invalid-request"),
        ("POST", "/v1/blueprints", b'{"blueprints": ' + b"9" * 5000 + b"}", 422, "invalid-request"),
        (
            "POST",
            "/v1/blueprints",
            json.dumps(document("a: \ud800")).encode(),
            422,
            "invalid-request",
        ),
        ("POST", "/v1/branches/main/refresh", b'{"target": 5}', 422, "invalid-request"),
        ("POST", "/v1/branches/main/refresh", b'{"typo": 5}', 422, "invalid-request"),
        ("POST", "/v1/branches/main/refresh", b'{"force": "yes"}', 422, "invalid-request"),
        ("POST", "/v1/branches/main/refresh", b'{"target": "no.such"}', 404, "not-found"),
        (
            "POST",
            "/v1/branches/main/rollback",
            b'{"target": "shop.orders"}',
            422,
            "invalid-request",
        ),
        (
            "POST",
            "/v1/branches/main/rollback",
            b'{"target": "shop", "generation": 1, "at": "x"}',
            422,
            "invalid-request",
        ),
        (
            "POST",
            "/v1/branches/main/rollback",
            b'{"target": "shop", "at": "noon"}',
            422,
            "bad-address",
        ),
        (
            "POST",
            "/v1/branches/main/rollback",
            b'{"target": "a", "at": "1", "reason": "\\u0000"}',
            422,
            "invalid-request",
        ),
        (
            "POST",
            "/v1/branches/main/rollback",
            b'{"target": "a", "at": "1", "reason": "\\ud800"}',
            422,
            "invalid-request",
        ),
        (
            "POST",
            "/v1/branches/main/rollback",
            b'{"target": "no.such", "generation": 1}',
            404,
            "not-found",
        ),
        ("POST", "/v1/branches/main/dataflows/none/revert", b'{"to": 1}', 404, "not-found"),
        ("POST", "/v1/branches/main/dataflows/none/revert", b'{"to": 0}', 422, "invalid-request"),
        ("GET", "/v1/branches/main/plan?after=x", None, 422, "invalid-request"),
        ("GET", "/v1/branches/main/plan?limit=0", None, 422, "invalid-request"),
        ("GET", "/v1/branches/main/plan?dataflow=none", None, 404, "not-found"),
        ("GET", "/v1/branches/main/plan?dataflow=%00", None, 404, "not-found"),
        ("GET", "/v1/branches/none/plan", None, 404, "not-found"),
        (
            "POST",
            "/v1/blueprints",
            b'{"blueprints": [{"name": "a\\u0000", "text": ""}]}',
            422,
            "invalid-request",
        ),
        (
            "POST",
            "/v1/blueprints",
            b'{"blueprints": [{"text": "", "files": {"\\u0000": ""}}]}',
            422,
            "invalid-request",
        ),
        ("GET", "/v1/branches/main/datasets/a.b/history?before=9", None, 404, "not-found"),
        (
            "GET",
            "/v1/branches/main/datasets/a.b/history?before=99999999999999999999999",
            None,
            422,
            "invalid-request",
        ),
        ("GET", "/v1/branches/main/datasets/a.b/records?format=xml", None, 422, "invalid-request"),
        ("GET", "/v1/branches/main/datasets/a.b", None, 404, "not-found"),
        ("GET", "/v1/branches/main/datasets/a.b/why", None, 404, "not-found"),
        ("GET", "/v1/branches/main/datasets/a.b/lineage", None, 404, "not-found"),
        ("GET", "/v1/branches/none/datasets/a.b/lineage", None, 404, "not-found"),
        (
            "GET",
            "/v1/branches/main/datasets/a.b/lineage?direction=up",
            None,
            422,
            "invalid-request",
        ),
        ("GET", "/v1/branches/main/datasets/a.b/lineage?limit=0", None, 422, "invalid-request"),
        ("GET", "/v1/branches/main/datasets/a.b/partitions", None, 404, "not-found"),
        ("GET", "/v1/branches/main/datasets/a.b/checks", None, 404, "not-found"),
        ("GET", "/v1/branches/main/datasets/a.b/checks?generation=x", None, 422, "invalid-request"),
        ("GET", "/v1/events?after=-1", None, 422, "invalid-request"),
        ("POST", "/v1/tokens", b'{"name": "a\\u0000"}', 422, "invalid-request"),
        ("POST", "/v1/tokens", b'{"name": "a", "scopes": ["root"]}', 422, "bad-scope"),
        ("DELETE", "/v1/tokens/none", None, 404, "not-found"),
    ],
)
def test_errors_have_one_shape(
    world: World, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    with world.http() as http:
        answer = http.request(
            method, path, content=body, headers={"Content-Type": "application/json"}
        )
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:headgate:{code}")
    assert set(answer.json()) == FIELDS
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("given", [None, "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize(
    "path", ["tokens", "branches/main/refresh", "fsck", "blueprints", "validate"]
)
def test_a_body_of_no_or_another_content_type_is_told_which_to_send(
    world: World, path: str, given: str | None
) -> None:
    headers = {} if given is None else {"Content-Type": given}
    with world.http() as http:
        answer = http.post(f"/v1/{path}", content=b'{"name": "ci"}', headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:headgate:invalid-request")
    said = f"the request says Content-Type: {given}" if given else "the request has no Content-Type"
    assert f"{said}; send Content-Type: application/json" in answer.json()["detail"]


def test_json_of_the_wrong_shape_is_told_its_shape(world: World) -> None:
    with world.http() as http:
        answer = http.post(
            "/v1/tokens", content=b"[1]", headers={"Content-Type": "application/json"}
        )
    assert "Content-Type" not in answer.text


def test_a_token_is_revoked_by_a_name_with_odd_characters(world: World) -> None:
    with world.client() as client:
        for name in ("a b c", "..", "50%"):
            client.create_token(name)
            client.revoke_token(name)
        assert all(t["revoked"] for t in client.tokens() if t["name"] != "test")


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "a/b",
        "a b",
        "\u0000",
        "'; DROP TABLE x",
        "😀",
        "A.b.c",
        "A.b",
        "x" * 3000,
        "%2F",
        "a.b\n",
    ],
)
def test_hostile_names_name_nothing(world: World, name: str) -> None:
    encoded = quote(name, safe="").replace(".", "%2E")
    with world.http() as http:
        for path in (
            f"branches/main/dataflows/{encoded}",
            f"branches/main/datasets/{encoded}",
            f"branches/{encoded}/plan",
        ):
            answer = http.get(f"/v1/{path}")
            assert answer.status_code == 404, path
            assert answer.json()["type"] == "urn:headgate:not-found"


@pytest.mark.parametrize("given", ["mine-1", "x" * 65, "a b", "\u00e9"])
def test_request_ids_are_taken_over_if_harmless(world: World, given: str) -> None:
    with world.http() as http:
        found = http.get("/livez", headers={b"X-Request-ID": given.encode("latin-1")}).headers[
            "x-request-id"
        ]
    assert (found == given) == (given == "mine-1")


def test_what_breaks_is_told_by_its_id_only(world: World) -> None:
    world.faults.append(RuntimeError("a detail that is nobody's business"))
    with world.http() as http:
        answer = http.get("/readyz", headers={"X-Request-ID": "r1"})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:headgate:internal")
    assert (answer.json()["request_id"], answer.headers["x-request-id"]) == ("r1", "r1")
    assert "nobody's business" not in answer.text


@pytest.mark.parametrize("path", ["/readyz", "/v1/branches/main/status", "/v1/driver/heartbeat"])
def test_a_database_that_is_away_is_no_fault_of_ours(world: World, path: str) -> None:
    store = open_store(
        f"postgresql+psycopg://somebody:hidden@127.0.0.1:{free_port()}/none?connect_timeout=5"
    )
    with (
        serving(replace(world.services, store=store)) as url,
        replace(world, url=url).http() as http,
    ):
        answer = http.post(path, json={"attempts": []}) if "driver" in path else http.get(path)
    store.close()
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:headgate:unavailable")
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["retry-after"]
    assert "127.0.0.1" not in answer.text


# --- bodies ---------------------------------------------------------------------------------------


def megabytes(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b" " * 1_000_000


def test_a_huge_body_is_refused_whether_its_size_is_told_or_not(world: World) -> None:
    with world.http() as http:
        told = http.post("/v1/blueprints", content=b" " * 6_000_000)
        streamed = http.post("/v1/blueprints", content=megabytes(100))
        after = http.get("/livez")
    for answer in (told, streamed):
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:headgate:too-large")
    assert after.status_code == 200


def test_a_declared_size_alone_is_enough_to_be_refused(world: World) -> None:
    parts = urlsplit(world.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as raw:
        head = [
            "POST /v1/validate HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {world.admin}",
            "Content-Length: 100000000",
        ]
        raw.sendall("\r\n".join([*head, "", ""]).encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")


# --- blueprints -----------------------------------------------------------------------------------


def test_revisions_are_entity_tags(world: World) -> None:
    with world.http() as http:
        first = http.post("/v1/blueprints", json=document(), headers={"If-None-Match": "*"})
        assert (first.status_code, first.json()["revisions"], first.headers["etag"]) == (
            200,
            {"shop": 1},
            '"1"',
        )
        assert http.get("/v1/branches/main/dataflows/shop").headers["etag"] == '"1"'
        changed = document(BLUEPRINT.replace("100", "200"))
        stale = http.post("/v1/blueprints", json=changed, headers={"If-Match": '"7"'})
        assert (stale.status_code, stale.json()["type"]) == (412, "urn:headgate:stale-revision")
        assert (
            http.post("/v1/blueprints", json=changed, headers={"If-None-Match": "*"}).status_code
            == 412
        )
        assert (
            http.post("/v1/blueprints", json=changed, headers={"If-Match": "x"}).status_code == 422
        )
        new = document(BLUEPRINT.replace("shop", "other"))
        assert (
            http.post("/v1/blueprints", json=new, headers={"If-Match": "*"}).status_code == 422
        ), "it would be made"
        second = http.post("/v1/blueprints", json=changed, headers={"If-Match": '"1"'})
        assert second.headers["etag"] == '"2"'
        assert (
            http.delete("/v1/branches/main/dataflows/shop", headers={"If-Match": '"1"'}).status_code
            == 412
        )
        assert (
            http.delete("/v1/branches/main/dataflows/shop", headers={"If-Match": '"2"'}).status_code
            == 200
        )
        assert http.get("/v1/branches/main/dataflows/shop").status_code == 404


def test_bare_yaml_is_one_blueprint(world: World) -> None:
    with world.http() as http:
        answer = http.post(
            "/v1/blueprints", content=BLUEPRINT, headers={"Content-Type": "application/yaml"}
        )
        assert answer.json()["revisions"] == {"shop": 1}
        bad = http.post(
            "/v1/blueprints", content=b"a: \xff", headers={"Content-Type": "application/yaml"}
        )
        assert (bad.status_code, bad.json()["errors"][0]["code"]) == (422, "invalid-encoding")
        other = http.post("/v1/blueprints", content=b"x", headers={"Content-Type": "text/plain"})
        assert other.status_code == 422


def test_a_set_is_refused_whole_with_every_problem(world: World) -> None:
    with world.client() as client:
        bad: Document = {
            "name": "/data/bad.yaml",
            "text": "dataflow: Bad\ncomponents:\n  x: {red: 1}\n",
        }
        with pytest.raises(ApiError) as caught:
            client.apply([{"name": "/data/shop.yaml", "text": BLUEPRINT}, bad])
        assert (caught.value.status, caught.value.code) == (422, "invalid-blueprint")
        errors = caught.value.problem["errors"]
        assert len(errors) >= 2
        assert all(set(e) == {"file", "line", "column", "code", "message", "hint"} for e in errors)
        assert {e["file"] for e in errors} == {"/data/bad.yaml"}
        assert client.dataflows() == []
        assert client.validate([bad]) == errors
        assert client.validate([{"name": "/data/shop.yaml", "text": BLUEPRINT}]) == []


def test_a_dry_run_stores_nothing(world: World) -> None:
    with world.client() as client:
        answer = client.apply([{"name": "/data/shop.yaml", "text": BLUEPRINT}], dry_run=True)
        assert answer["plan"]["state"] == "work"
        assert client.dataflows() == []


@pytest.mark.parametrize("branch", ["dev", "", "A/B", "\0"])
@pytest.mark.parametrize("dry", ["true", "false"])
def test_a_branch_that_is_not_there_takes_no_blueprint(world: World, branch: str, dry: str) -> None:
    with world.http() as http:
        query = {"branch": branch, "dry_run": dry}
        answer = http.post(
            "/v1/blueprints", params=query, json={"blueprints": [{"text": BLUEPRINT}]}
        )
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:headgate:not-found")
        assert http.get("/v1/branches/main/dataflows").json()["items"] == []


def test_plans_come_in_pages(world: World) -> None:
    with world.http() as http:
        http.post("/v1/blueprints", json=document())
        whole = http.get("/v1/branches/main/plan").json()
        assert whole["next"] is None
        assert len(whole["items"]) == 2
        first = http.get("/v1/branches/main/plan?limit=1").json()
        second = http.get(f"/v1/branches/main/plan?limit=1&after={first['next']}").json()
    assert first["items"] + second["items"] == whole["items"]
    assert second["next"] is None


# --- idempotency ----------------------------------------------------------------------------------


def test_the_same_key_and_body_give_the_same_answer(world: World) -> None:
    key = {"Idempotency-Key": "k1"}
    with world.http() as http:
        first = http.post("/v1/blueprints", json=document(), headers=key)
        http.post("/v1/blueprints", json=document(BLUEPRINT.replace("100", "200")))
        again = http.post("/v1/blueprints", json=document(), headers=key)
        assert (again.status_code, again.content, again.headers["etag"]) == (
            200,
            first.content,
            '"1"',
        )
        assert http.get("/v1/branches/main/dataflows/shop").json()["revision"] == 2
        other = http.post("/v1/blueprints", json=document("other"), headers=key)
        elsewhere = http.post("/v1/branches/main/refresh", json={}, headers=key)
    for answer in (other, elsewhere):
        assert (answer.status_code, answer.json()["type"]) == (
            422,
            "urn:headgate:idempotency-conflict",
        )


def test_one_that_takes_long_holds_up_no_other(world: World) -> None:
    at_work, go_on = threading.Event(), threading.Event()
    other = next(
        key
        for key in map(str, range(100))
        if world.services.turn(key) is not world.services.turn("gc")
    )

    def asked(key: str, work: Callable[[], bool] = lambda: True) -> Response:
        call = calls.Call(
            world.services, Context(world.services.store), Request({"type": "http"}), (key, b"")
        )
        return call.once(lambda: calls.answer({"done": work()}))

    def long() -> bool:
        at_work.set()
        return go_on.wait(HANGS_S)

    with ThreadPoolExecutor(3) as threads:
        slow = threads.submit(asked, "gc", long)
        assert at_work.wait(HANGS_S)
        again = threads.submit(asked, "gc", long)
        try:
            assert threads.submit(asked, other).result(HANGS_S).status_code == 200
            assert not again.done()
        finally:
            go_on.set()
        assert slow.result().body == again.result().body


def test_a_repeat_at_another_replica_meanwhile_gets_the_same_answer(world: World) -> None:
    other = replace(
        world.services, key_locks=tuple(threading.Lock() for _ in world.services.key_locks)
    )

    def asked(
        services: Services, number: int, work: Callable[[], object] = lambda: None
    ) -> Response:
        call = calls.Call(
            services, Context(services.store), Request({"type": "http"}), ("key", b"")
        )
        return call.once(lambda: calls.answer({"by": number, "then": work() is None}))

    answers: list[Response] = []
    first = asked(world.services, 1, lambda: answers.append(asked(other, 2)))
    assert first.status_code == 200
    assert first.body == answers[0].body == asked(other, 3).body


def test_a_refusal_is_repeated_too(world: World) -> None:
    key = {"Idempotency-Key": "k2"}
    with world.http() as http:
        first = http.post("/v1/branches/main/retry", json={"target": "shop"}, headers=key)
        http.post("/v1/blueprints", json=document())
        again = http.post("/v1/branches/main/retry", json={"target": "shop"}, headers=key)
    assert (first.status_code, again.status_code, again.content) == (404, 404, first.content)


def test_keys_belong_to_tokens(world: World) -> None:
    with world.client() as client, world.http() as http:
        http.post("/v1/blueprints", json=document(), headers={"Idempotency-Key": "k"})
        other = client.create_token("other")["token"]
        with world.http(other) as stranger:
            answer = stranger.post(
                "/v1/branches/main/refresh", json={}, headers={"Idempotency-Key": "k"}
            )
    assert answer.status_code == 200


def test_only_tokens_of_pools_are_not_listed(world: World) -> None:
    with world.http() as http:
        for name, scopes in {"both": ["admin", "driver"], "hand": ["driver"]}.items():
            assert http.post("/v1/tokens", json={"name": name, "scopes": scopes}).status_code == 201
        assert {"both", "hand"} <= {
            token["name"] for token in http.get("/v1/tokens").json()["items"]
        }
        tokens.create(
            Context(world.services.store, actor="pool"), "of d1", ("driver",), subject="d1"
        )
        assert "of d1" not in {token["name"] for token in http.get("/v1/tokens").json()["items"]}


def test_a_token_is_shown_once(world: World) -> None:
    with world.client() as client, world.http() as http:
        text = client.create_token("mine", ttl_s=60.0)["token"]
        assert text.startswith("hg_")
        assert text not in json.dumps(client.tokens())
        refused = http.post("/v1/tokens", json={"name": "x"}, headers={"Idempotency-Key": "k"})
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:headgate:not-supported")


# --- operating ------------------------------------------------------------------------------------


def test_pausing_everything_pauses_every_dataflow(world: World) -> None:
    with world.client() as client:
        client.apply([{"name": "/data/shop.yaml", "text": BLUEPRINT}])
        assert client.pause() == {"target": None, "targets": ["shop"]}
        assert client.status()["state"] == "paused"
        assert client.resume("shop") == {"target": "shop", "paused": False}
        assert client.status()["state"] != "paused"
        client.pause("shop.dear")
        assert client.resume() == {"target": None, "targets": ["shop"]}
        assert client.status("shop.dear")["state"] != "paused"
        client.apply(
            [
                {
                    "name": "/data/shop.yaml",
                    "text": BLUEPRINT.replace("  dear:", "  dear:\n    paused: true"),
                }
            ]
        )
        assert client.resume()["still_paused"] == ["shop.dear"]


def test_what_is_forced_is_told(world: World) -> None:
    with world.client() as client:
        client.apply([{"name": "/data/shop.yaml", "text": BLUEPRINT}])
        assert client.refresh("shop.dear", force=True)["forced"] == ["shop.dear"]
        assert client.refresh(force=True)["forced"] == ["shop.orders", "shop.dear"]
        assert client.refresh("shop.dear")["forced"] == []
        with pytest.raises(ApiError, match="has no partition in this range"):
            client.refresh("shop.dear", partitions=("a", "b"))
    with world.services.store.read() as tx:
        wishes: list[Json] = [c.after for c in tx.audit.changes("main") if c.action == "refresh"]
    assert [wish["force"] for wish in wishes] == [False, True, True]


def test_why_tells_what_is_volatile(world: World) -> None:
    text = BLUEPRINT.replace("> 100", "> 100 * rand()")
    with world.client() as client:
        client.apply([{"name": "/data/shop.yaml", "text": text}])
        assert client.why("shop.dear")["volatile"] == [
            {"construct": "rand()", "file": None, "line": 1}
        ]


def test_each_change_leaves_who_and_which_request(world: World) -> None:
    with world.http() as http:
        http.post("/v1/blueprints", json=document(), headers={"X-Request-ID": "r-1"})
    with world.services.store.read() as tx:
        change = next(c for c in tx.audit.changes("main") if c.action == "apply")
    assert (change.actor, change.request_id, change.target) == ("test", "r-1", "shop")


def test_readiness_follows_the_process(world: World) -> None:
    with world.http() as http:
        assert http.get("/readyz").json() == {"status": "ok"}
        assert http.get("/schema/blueprint-v1.json").json()["type"] == "object"
        assert "/v1/blueprints" in http.get("/openapi.json").json()["paths"]
        world.services.stopping.set()
        assert http.get("/readyz").status_code == 503
        assert http.get("/livez").status_code == 200
