"""Who may call what: every route of the application, without a token and with the wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute

from controlplane.api import driver_app
from controlplane.api.app import create_app
from controlplane.api.auth import EXCHANGE, LINK, PUBLIC
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from tests.unit.api.world import World

SIGNED = re.sub(r"\{[a-z]+\}", "x", LINK)  # where a token opens nothing


def flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes, those of included routers among them."""
    for route in routes:
        included = getattr(route, "original_router", None)
        yield from flat(included.routes) if included else (route,)


def routes(world: World) -> list[tuple[str, str]]:
    """Every method and path that the application answers, with something plausible in place of
    parameters."""
    found = [("POST", path) for path in driver_app.ROUTES]
    for route in flat(create_app(world.services).routes):
        path = re.sub(r"\{[a-z]+\}", "x", route.path)
        found += [(method, path) for method in sorted(route.methods) if method != "HEAD"]
    return found


def asked(http: httpx2.Client, method: str, path: str) -> httpx2.Response:
    """The answer; of a stream without an end, its beginning."""
    with http.stream(method, path, content=b"{}") as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.read()
    return answer


def test_all_routes_but_four_and_those_of_links_and_identity_tokens_are_closed(
    world: World,
) -> None:
    with world.http() as http:
        http.headers.pop("Authorization")
        answers = {(m, p): asked(http, m, p) for m, p in routes(world)}
    assert {p for (_, p), a in answers.items() if a.status_code != 401} == {
        *PUBLIC,
        SIGNED,
        EXCHANGE,
    }
    assert answers["GET", SIGNED].json()["type"] == "urn:headgate:wrong-signature"
    closed = [a for (_, p), a in answers.items() if p not in (*PUBLIC, SIGNED, EXCHANGE)]
    assert len(closed) > 20
    assert all(a.headers["www-authenticate"].startswith("Bearer") for a in closed)
    assert all(a.json()["type"] == "urn:headgate:unauthenticated" for a in closed)


def test_a_drivers_token_opens_drivers_routes_only(world: World) -> None:
    with world.http(world.driver) as http:
        answers = {(m, p): asked(http, m, p) for m, p in routes(world)}
    for (_, path), answer in answers.items():
        if path in PUBLIC:
            assert answer.status_code == 200
        elif path.startswith("/v1/driver/") or path == EXCHANGE:
            # Let in, and then the body is not what it should be
            assert answer.status_code == 422, path
        else:
            assert answer.status_code == 403, path
            assert (
                answer.json()["type"]
                == f"urn:headgate:{'wrong-signature' if path == SIGNED else 'forbidden'}"
            )


def test_an_admins_token_does_not_open_drivers_routes(world: World) -> None:
    with world.http() as http:
        found = [
            asked(http, m, p).status_code for m, p in routes(world) if p.startswith("/v1/driver/")
        ]
    assert found == [403, 403, 403]


def test_every_route_but_four_looks_at_the_token_before_the_body(world: World) -> None:
    app = create_app(world.services)
    api = [r for r in flat(app.routes) if isinstance(r, APIRoute)]
    assert {r.path for r in api if type(r) is APIRoute} <= PUBLIC
    with world.http("hg_wrong") as http:
        assert http.post("/v1/blueprints", content=b"{" * 1000).status_code == 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer x", "Bearer hg_", "Basic aGc6aGc=", "hg_x", "Bearer hg_\u00ff"]
)
def test_other_headers_are_refused(world: World, header: str) -> None:
    with world.http() as http:
        answer = http.get(
            "/v1/branches/main/status", headers={b"Authorization": header.encode("latin-1")}
        )
    assert answer.status_code == 401


def test_a_revoked_or_expired_token_is_refused(world: World) -> None:
    context = Context(world.services.store)
    text, token = tokens.create(context, "short", ("admin",))
    gone, _ = tokens.create(context, "gone", ("admin",), ttl_s=-1.0)
    with world.http(text) as http:
        assert http.get("/v1/tokens").status_code == 200
        assert http.delete(f"/v1/tokens/{token.id}").status_code == 204
        assert http.get("/v1/tokens").status_code == 401
    with world.http(gone) as http:
        assert http.get("/v1/tokens").status_code == 401
    with world.http() as http:
        listed = {item["name"]: item for item in http.get("/v1/tokens").json()["items"]}
    assert [listed[name]["revoked"] for name in ("short", "gone")] == [True, False]
    assert [listed[name]["expired"] for name in ("short", "gone")] == [False, True]


def test_failures_are_counted(world: World) -> None:
    with world.http("hg_wrong") as http:
        http.get("/v1/tokens")
    with world.http() as http:
        text = http.get("/metrics").text
    assert "headgate_token_failures_total 1.0" in text
    assert 'headgate_http_answers_total{status="401"} 1.0' in text
    assert 'headgate_datasets{state="' not in text
