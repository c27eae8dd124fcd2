"""Whatever changes what is wanted, or who may want it, leaves its own row in the audit. And HEAD
changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.api.app import create_app
from controlplane.core.tree import EMPTY_ROOT
from tests.hostile.attacked import Attacked, attacked
from tests.store.examples import state
from tests.unit.api.test_access import flat
from tests.unit.api.world import BLUEPRINT
from tests.unit.diffs.world import SCHEMA

CHANGES = {  # route -> body, the action that is noted
    "POST /v1/blueprints": ({"blueprints": [{"name": "/data/b.yaml", "text": BLUEPRINT}]}, "apply"),
    "POST /v1/branches/{branch}/refresh": ({}, "refresh"),
    "POST /v1/branches/{branch}/retry": ({}, "retry"),
    "POST /v1/branches/{branch}/pause": ({"target": "shop"}, "pause"),
    "POST /v1/branches/{branch}/rollback": ({"target": "shop.orders", "generation": 1}, "rollback"),
    "POST /v1/branches/{branch}/resume": ({"target": "shop"}, "resume"),
    "POST /v1/branches/{branch}/run": (
        {"blueprints": [{"name": "/data/b.yaml", "text": BLUEPRINT}]},
        "run",
    ),
    "DELETE /v1/branches/{branch}/dataflows/{dataflow}": (None, "delete"),
    "POST /v1/branches/{branch}/dataflows/{dataflow}/revert": ({"to": 1}, "revert"),
    "POST /v1/branches": ({"name": "dev", "pinned": True}, "branch.create"),
    "PUT /v1/branches/{other}/protection": ({"protected": False}, "branch.protect"),
    "POST /v1/branches/{other}/update": ({}, "branch.update"),
    "POST /v1/branches/{other}/merge": ({}, "branch.merge"),
    "DELETE /v1/branches/{other}": (None, "branch.delete"),
    "POST /v1/gc": ({}, "gc"),
    "POST /v1/gc packs": ({"packs": True}, "gc.packs"),
    "POST /v1/fsck repair": ({"repair": True}, "fsck.repair"),
    "POST /v1/tokens": ({"name": "ci"}, "token.create"),
    "DELETE /v1/tokens/{id}": (None, "token.revoke"),
    "POST /v1/s3/keys": ({"name": "notebooks"}, "s3-key.create"),
    "DELETE /v1/s3/keys/{key}": (None, "s3-key.revoke"),
    "POST /v1/links": ({"dataset": "shop.orders"}, "link.create"),
    "DELETE /v1/links/{link}": (None, "link.revoke"),
    "POST /v1/roles": ({"name": "analyst", "permissions": ["data"]}, "role.create"),
    "PUT /v1/roles/{role}": ({"permissions": ["view"]}, "role.change"),
    "DELETE /v1/roles/{role}": (None, "role.delete"),
    "POST /v1/trust": (
        {
            "name": "staff",
            "use": "login",
            "issuer": "https://id.example.com",
            "claims": {"sub": ["*"]},
            "scopes": ["view"],
        },
        "trust.create",
    ),
    "DELETE /v1/trust/{rule}": (None, "trust.delete"),
    "POST /v1/namespaces": ({"name": "team-a"}, "namespace.create"),
    "DELETE /v1/namespaces/{namespace}": (None, "namespace.delete"),
    "POST /v1/session-links": (None, "session.link"),
    "POST /v1/shares": ({"name": "sales"}, "share.create"),
    "POST /v1/shares/{share}/tables": ({"dataset": "shop.orders"}, "share.add"),
    "POST /v1/feeds": (
        {"name": "orders", "dataset": "shop.orders", "columns": "k BIGINT"},
        "feed.create",
    ),
    "PUT /v1/feeds/{feed}": ({}, "feed.change"),
    "POST /v1/feeds/{feed}/grants": ({"namespace": "team-a"}, "feed.grant"),
    "DELETE /v1/feeds/{feed}/grants/{namespace}": (None, "feed.revoke"),
    "DELETE /v1/feeds/{feed}": (None, "feed.delete"),
    "POST /v1/recipients": ({"name": "bob", "shares": ["sales"]}, "recipient.create"),
    "DELETE /v1/recipients/{recipient}": (None, "recipient.revoke"),
    "DELETE /v1/shares/{share}/tables/{table}": (None, "share.remove"),
    "DELETE /v1/shares/{share}": (None, "share.delete"),
}
ELSEWHERE = {
    "POST /v1/tokens/exchange",  # its row is the job's: tests/unit/trust/test_exchange.py
    "POST /v1/branches/{branch}/import",  # after a copy: tests/unit/table_import/test_import.py
}
SESSIONS = {  # where Spark starts: tests/spark/test_connect.py
    "POST /v1/branches/{branch}/spark-sessions",
    "DELETE /v1/spark-sessions/{session}",
}
# Has the rows of what it applies: tests/unit/cli/test_kept_plans.py
PLANNED = {"POST /v1/branches/{branch}/plan"}
NOTHING = {
    "POST /v1/validate",
    "POST /v1/connections",
    "POST /v1/fsck",
    "POST /v1/tests",
    "POST /v1/branches/{branch}/notify",
    "POST /v1/branches/{branch}/query",
    "POST /v1/branches/{branch}/query/promote",
    "DELETE /v1/branches/{branch}/query/{query}",
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Attacked]:
    with attacked(tmp_path) as world:
        yield world


def methods(world: Attacked) -> Iterator[tuple[str, str]]:
    for route in flat(create_app(world.services).routes):
        for method in route.methods:
            yield method, route.path


def test_each_change_has_a_row_of_its_own(world: Attacked) -> None:
    asked = {f"{m} {p}" for m, p in methods(world) if m not in ("GET", "HEAD")}
    told = {" ".join(name.split()[:2]).replace("{other}", "{branch}") for name in CHANGES}
    assert asked == told | ELSEWHERE | SESSIONS | PLANNED | NOTHING
    with world.services.store.begin() as tx:
        tx.states.commit(state(1, "shop.orders", root=EMPTY_ROOT, schema=SCHEMA), 0)
    with world.http() as http:
        for name, (body, action) in CHANGES.items():
            method, path = name.split()[:2]
            token = next(
                (t["id"] for t in http.get("/v1/tokens").json()["items"] if t["name"] == "ci"), ""
            )
            link = next((found["id"] for found in http.get("/v1/links").json()["items"]), "")
            shared = {"share": "sales", "table": "shop.orders", "recipient": "bob", "rule": "staff"}
            shared |= {"feed": "orders", "role": "analyst"}
            path = path.format(
                namespace="team-a",
                branch="main",
                other="dev",
                dataflow="shop",
                id=token,
                key="notebooks",
                link=link,
                **shared,
            )
            answer = http.request(method, path, json=body, headers={"X-Request-ID": action})
            assert answer.is_success, (name, answer.text)
            rows = [r for r in http.get("/v1/audit").json()["items"] if r["request_id"] == action]
            assert action in [r["action"] for r in rows], name
            assert {r["actor"] for r in rows} == {"test"}
            assert all(r["at"] and (r["before"], r["after"]) != (None, None) for r in rows), rows
    assert len({action for _, action in CHANGES.values()}) == len(CHANGES)


def test_two_live_tokens_do_not_share_a_name_in_the_audit(world: Attacked) -> None:
    with world.http() as http:
        made = http.post("/v1/tokens", json={"name": "ci"})
        for name in ("ci", "test", "d1", "local"):
            refused = http.post("/v1/tokens", json={"name": name})
            assert (refused.status_code, refused.json()["type"]) == (
                409,
                "urn:headgate:name-taken",
            ), name
        assert http.delete(f"/v1/tokens/{made.json()['id']}").status_code == 204
        assert http.post("/v1/tokens", json={"name": "ci"}).status_code == 201


def test_head_answers_as_get_does_without_a_body(world: Attacked) -> None:
    world.gate.set()  # the log of a driver is told at once
    with world.http() as http:
        body, _ = CHANGES["POST /v1/blueprints"]
        assert http.post("/v1/blueprints", json=body).status_code == 200
        for method, path in methods(world):
            if method != "GET":
                continue
            path = path.format(
                branch="main",
                other="main",
                dataflow="shop",
                dataset="shop.orders",
                attempt="a" * 32,
                run="shop.rev1",
                wave="shop.rev1",
                role="view",
                driver="d",
                format="csv",
                link="none",
                share="none",
                feed="none",
                namespace="none",
                file="shop.orders.csv",
                query="0" * 64,
            )
            with http.stream("GET", path) as full:
                pass
            head = http.head(path)
            assert head.content == b""
            assert head.status_code == full.status_code, path
            assert head.headers["content-type"] == full.headers["content-type"], path
        assert http.head("/v1/gc").status_code == 405
