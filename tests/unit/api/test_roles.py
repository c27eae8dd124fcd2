"""Who may call what: each route with a token of each role, compared with the table of
docs/rights.md, written here."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import httpx2
import pytest

from controlplane.api.app import create_app
from controlplane.api.auth import EXCHANGE, LINK, PUBLIC
from controlplane.core.model.access import Token
from controlplane.core.rights import PERMISSIONS, ROLES, may
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from tests.unit.api.test_access import asked, flat, routes
from tests.unit.api.world import World

VIEW, DATA, OPERATE, EDIT, ADMIN = "view", "data", "operate", "edit", "admin"
ALLOWED = {  # permission -> roles that have it
    VIEW: {VIEW, DATA, OPERATE, EDIT, ADMIN},
    DATA: {DATA, EDIT, ADMIN},
    OPERATE: {OPERATE, EDIT, ADMIN},
    EDIT: {EDIT, ADMIN},
    ADMIN: {ADMIN},
}
TABLE = {
    "GET /metrics": VIEW,
    "GET /v1/events": VIEW,
    "GET /v1/branches": VIEW,
    "GET /v1/branches/{branch}": VIEW,
    "GET /v1/branches/{branch}/diff/{other}": VIEW,
    "GET /v1/branches/{branch}/status": VIEW,
    "GET /v1/branches/{branch}/plan": VIEW,
    "GET /v1/branches/{branch}/run": VIEW,
    "GET /v1/branches/{branch}/cost": VIEW,
    "GET /v1/branches/{branch}/runs": VIEW,
    "GET /v1/branches/{branch}/runs/{run}": VIEW,
    "GET /v1/branches/{branch}/dataflows": VIEW,
    "GET /v1/branches/{branch}/dataflows/{dataflow}": VIEW,
    "GET /v1/branches/{branch}/dataflows/{dataflow}/generations": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/partitions": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/history": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/checks": VIEW,
    "GET /v1/branches/{branch}/checks": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/tasks": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/why": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/lineage": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/diff": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/ranges": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/partition": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/profile": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/profile/history": VIEW,
    "GET /v1/branches/{branch}/graph": VIEW,
    "GET /v1/branches/{branch}/waves": VIEW,
    "GET /v1/branches/{branch}/waves/{wave}": VIEW,
    "GET /v1/search": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/records": DATA,
    "GET /v1/branches/{branch}/datasets/{dataset}/records.{format}": DATA,
    "GET /v1/branches/{branch}/datasets/{dataset}/changes.{format}": DATA,
    "POST /v1/branches/{branch}/query": DATA,
    "GET /v1/branches/{branch}/query/{query}": DATA,
    "DELETE /v1/branches/{branch}/query/{query}": DATA,
    "POST /v1/branches/{branch}/query/promote": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/query": VIEW,
    "GET /v1/branches/{branch}/datasets/{dataset}/log": DATA,
    "GET /v1/attempts/{attempt}/log": DATA,
    "POST /v1/branches/{branch}/refresh": OPERATE,
    "POST /v1/branches/{branch}/retry": OPERATE,
    "POST /v1/branches/{branch}/pause": OPERATE,
    "POST /v1/branches/{branch}/resume": OPERATE,
    "POST /v1/branches/{branch}/rollback": OPERATE,
    "POST /v1/branches/{branch}/notify": OPERATE,
    "POST /v1/blueprints": EDIT,
    "POST /v1/validate": EDIT,
    "POST /v1/tests": EDIT,
    "POST /v1/branches": EDIT,
    "DELETE /v1/branches/{branch}": EDIT,
    "POST /v1/branches/{branch}/update": EDIT,
    "POST /v1/branches/{branch}/merge": EDIT,
    "POST /v1/branches/{branch}/import": EDIT,
    "POST /v1/branches/{branch}/plan": EDIT,
    "POST /v1/branches/{branch}/run": EDIT,
    "POST /v1/branches/{branch}/spark-sessions": EDIT,
    "GET /v1/spark-sessions": EDIT,
    "DELETE /v1/spark-sessions/{session}": EDIT,
    "POST /v1/branches/{branch}/dataflows/{dataflow}/revert": EDIT,
    "DELETE /v1/branches/{branch}/dataflows/{dataflow}": EDIT,
    "POST /v1/connections": ADMIN,
    "PUT /v1/branches/{branch}/protection": ADMIN,
    "GET /v1/drivers/{driver}/log": ADMIN,
    "GET /v1/audit": ADMIN,
    "GET /v1/audit/reads": ADMIN,
    "POST /v1/session-links": VIEW,
    "GET /v1/tokens": ADMIN,
    "POST /v1/tokens": ADMIN,
    "DELETE /v1/tokens/{id}": ADMIN,
    "GET /v1/roles": ADMIN,
    "POST /v1/roles": ADMIN,
    "GET /v1/roles/{role}": ADMIN,
    "PUT /v1/roles/{role}": ADMIN,
    "DELETE /v1/roles/{role}": ADMIN,
    "GET /v1/trust": ADMIN,
    "POST /v1/trust": ADMIN,
    "DELETE /v1/trust/{rule}": ADMIN,
    "GET /v1/s3/keys": DATA,
    "POST /v1/s3/keys": DATA,
    "DELETE /v1/s3/keys/{key}": DATA,
    "GET /v1/links": DATA,
    "POST /v1/links": DATA,
    "DELETE /v1/links/{link}": DATA,
    "GET /v1/shares": ADMIN,
    "POST /v1/shares": ADMIN,
    "GET /v1/shares/{share}": ADMIN,
    "DELETE /v1/shares/{share}": ADMIN,
    "POST /v1/shares/{share}/tables": ADMIN,
    "DELETE /v1/shares/{share}/tables/{table}": ADMIN,
    "GET /v1/feeds": ADMIN,
    "POST /v1/feeds": ADMIN,
    "GET /v1/feeds/{feed}": ADMIN,
    "PUT /v1/feeds/{feed}": ADMIN,
    "DELETE /v1/feeds/{feed}": ADMIN,
    "POST /v1/feeds/{feed}/grants": ADMIN,
    "DELETE /v1/feeds/{feed}/grants/{namespace}": ADMIN,
    "GET /v1/offers": VIEW,
    "GET /v1/recipients": ADMIN,
    "POST /v1/recipients": ADMIN,
    "DELETE /v1/recipients/{recipient}": ADMIN,
    "GET /v1/namespaces": ADMIN,
    "POST /v1/namespaces": ADMIN,
    "GET /v1/namespaces/{namespace}": ADMIN,
    "DELETE /v1/namespaces/{namespace}": ADMIN,
    "POST /v1/gc": ADMIN,
    "POST /v1/fsck": ADMIN,
}


def test_every_route_stands_in_the_table(world: World) -> None:
    there = {
        f"{m} {r.path}"
        for r in flat(create_app(world.services).routes)
        for m in r.methods
        if m != "HEAD"
    }
    assert {name for name in there if name.split()[1] not in {*PUBLIC, LINK, EXCHANGE}} == set(
        TABLE
    )


def test_the_document_names_the_permission_of_each_route(world: World) -> None:
    paths = create_app(world.services).openapi()["paths"]
    told = {
        f"{m.upper()} {p}": o.get("x-headgate-permission")
        for p, ms in paths.items()
        for m, o in ms.items()
    }
    assert {name: permission for name, permission in told.items() if permission} == TABLE


def of_role(world: World, role: str) -> httpx2.Client:
    """`nobody` is no role: a token of before has a word that means nothing."""
    store = world.services.store
    text, token = tokens.create(Context(store), role, ("view" if role == "nobody" else role,))
    with store.begin() as tx:
        tx.access.put_token(replace(token, scopes=(role,)))
    return world.http(text)


@pytest.mark.parametrize("role", [*ROLES, "driver", "nobody"])
def test_a_role_opens_the_routes_of_its_permissions_and_no_others(world: World, role: str) -> None:
    found = {}
    with of_role(world, role) as http:
        for method, path in routes(world):
            answer = asked(http, method, path)
            is_refused = (
                answer.status_code == 403 and answer.json()["type"] == "urn:headgate:forbidden"
            )
            assert answer.status_code != 401
            found[f"{method} {path}"] = not is_refused
    plain = {
        f"{name.split()[0]} {sample(name.split()[1])}": permission
        for name, permission in TABLE.items()
    }
    assert {name: found[name] for name in plain} == {
        name: role in ALLOWED[plain[name]] for name in plain
    }


OWN = [set(chosen) for n in range(1, 5) for chosen in combinations([VIEW, DATA, OPERATE, EDIT], n)]


@pytest.mark.parametrize("permissions", [*OWN, {ADMIN}], ids=lambda p: "-".join(sorted(p)))
def test_a_role_of_ones_own_opens_what_its_permissions_open(
    world: World, permissions: set[str]
) -> None:
    with world.http() as http:
        made = http.post(
            "/v1/roles", json={"name": "own", "permissions": sorted(permissions)}
        ).json()
        text = http.post("/v1/tokens", json={"name": "somebody", "scopes": ["own"]}).json()["token"]
    allowed = set(made["permissions"])
    implied = (
        {VIEW}
        | ({DATA} if EDIT in permissions else set())
        | (set(PERMISSIONS) if ADMIN in permissions else set())
    )
    assert allowed == permissions | implied
    sampled = {
        permission: name for name, permission in TABLE.items() if name.startswith(("GET", "POST"))
    }
    with world.http(text) as http:
        for permission, name in sampled.items():
            method, path = name.split()
            answer = asked(http, method, sample(path))
            assert (answer.status_code == 403) == (permission not in allowed), (
                name,
                answer.status_code,
            )


def sample(path: str) -> str:
    """As `routes` fills it in."""
    return re.sub(r"\{[a-z]+\}", "x", path)


def test_roles_have_the_permissions_of_the_table() -> None:
    for role in ROLES:
        principal = Token("", b"", "", (role,), "", 0.0).principal
        assert {p for p in PERMISSIONS if may(principal, p)} == {
            p for p, roles in ALLOWED.items() if role in roles
        }


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        ("/v1/branches/main/status?refresh=true", OPERATE),
        ("/v1/branches/main/plan?refresh=true", OPERATE),
        ("/v1/branches/main/diff/main?dataset=shop.orders&rows=true", DATA),
        ("/v1/branches/main/datasets/shop.orders/diff?rows=true", DATA),
    ],
)
def test_what_a_route_does_on_request_needs_its_own_permission(
    world: World, path: str, needed: str
) -> None:
    for role in (VIEW, DATA, OPERATE):
        with of_role(world, role) as http:
            answer = http.get(path)
        assert (answer.status_code == 403) == (role not in ALLOWED[needed]), (role, answer.text)
