"""Roles of a namespace's own: what they give, what becomes of their holders, and what is
refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import pytest
from anyio import CapacityLimiter

from controlplane.api import event_feed
from controlplane.api.token_watch import LOOK_AGAIN_S, TokenWatch
from controlplane.core.model.access import Token
from controlplane.core.rights import NamedRole, TokenScope
from controlplane.operations.context import Context
from controlplane.operations.desired import recipients, roles, s3_keys, shares, tokens, trust
from controlplane.operations.desired.recipients import NewRecipient
from tests.unit.api.world import World

SALES = {"dataflows": ["sales"], "datasets": [], "branches": []}
SHOP = {"dataflows": ["shop"], "datasets": [], "branches": []}


@pytest.fixture
def ctx(world: World) -> Context:
    return Context(world.services.store, actor="ada")


def made(http: httpx2.Client, name: str, *permissions: str, **more: Any) -> httpx2.Response:
    return http.post("/v1/roles", json={"name": name, "permissions": permissions, **more})


def token_of(http: httpx2.Client, *scopes: str, **more: Any) -> str:
    answer = http.post(
        "/v1/tokens", json={"name": f"of {'-'.join(scopes)}", "scopes": scopes, **more}
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def test_a_role_is_made_shown_changed_and_deleted(world: World, ctx: Context) -> None:
    with world.http() as http:
        first = made(http, "analyst", "edit", within=SALES)
        shown = http.get("/v1/roles/analyst").json()
        changed = http.put("/v1/roles/analyst", json={"permissions": ["data"]}).json()
        every = http.get("/v1/roles").json()["items"]
        gone = http.delete("/v1/roles/analyst")
        again = http.get("/v1/roles/analyst")
    assert (first.status_code, first.json()) == (201, shown)
    assert (shown["permissions"], shown["within"], shown["used_by"]) == (
        ["view", "data", "edit"],
        SALES,
        [],
    )
    assert (changed["permissions"], changed["within"]["dataflows"]) == (["view", "data"], [])
    assert [one["name"] for one in every] == ["view", "data", "operate", "edit", "admin", "analyst"]
    assert [one["built_in"] for one in every] == [True] * 5 + [False]
    assert (gone.status_code, again.status_code) == (204, 404)
    with ctx.store.read() as tx:
        told = [
            (c.action, c.target)
            for c in tx.audit.changes("main", 10)
            if c.action.startswith("role.")
        ]
    assert told == [
        ("role.delete", "analyst"),
        ("role.change", "analyst"),
        ("role.create", "analyst"),
    ]


def test_a_change_counts_from_the_next_request_on(world: World) -> None:
    with world.http() as http:
        made(http, "desk", "operate")
        with world.http(token_of(http, "desk")) as desk:
            steps = []
            for permissions in (["operate"], ["view"], ["data"], ["admin"], ["view"]):
                http.put("/v1/roles/desk", json={"permissions": permissions})
                steps.append(
                    (
                        desk.post("/v1/branches/main/notify").status_code != 403,
                        desk.get("/v1/tokens").status_code,
                    )
                )
    assert steps == [(True, 403), (False, 403), (False, 403), (True, 200), (False, 403)]


def test_a_role_narrows_whoever_has_it(world: World) -> None:
    with world.http() as http:
        made(http, "shop-view", "view", within=SHOP)
        with world.http(token_of(http, "shop-view")) as desk:
            before = (desk.get("/v1/branches").status_code, desk.get("/metrics").status_code)
            http.put("/v1/roles/shop-view", json={"permissions": ["view"]})
            after = desk.get("/metrics").status_code
    assert (before, after) == ((200, 403), 200)


def test_streams_of_who_may_do_less_end_within_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "HEARTBEAT_S", 1e9)
    with world.http() as http:
        made(http, "reader", "view")
        with (
            world.http(token_of(http, "reader")) as reader,
            reader.stream("GET", "/v1/events") as stream,
        ):
            lines = stream.iter_raw()
            assert next(lines) == b": events\n\n"
            http.put("/v1/roles/reader", json={"permissions": ["view"], "within": SALES})
            assert list(lines) == [], "it ends by itself"
            assert reader.get("/v1/branches").status_code == 200, "and the token goes on"
    assert LOOK_AGAIN_S < 1


def test_rights_that_changed_before_the_first_look_end_a_stream(world: World, ctx: Context) -> None:
    with world.http() as http:
        made(http, "reader", "view")
        token = tokens.authenticate(ctx.store, token_of(http, "reader"))
        http.put("/v1/roles/reader", json={"permissions": ["view"], "within": SALES})
    assert token is not None

    async def has_ended_by_itself() -> bool:
        with TokenWatch(ctx.store, CapacityLimiter(1)).watch(
            token.id, token.principal
        ) as has_ended:
            while not has_ended():
                await asyncio.sleep(0)
        return True

    assert asyncio.run(has_ended_by_itself())


def test_a_stream_that_begins_to_wait_after_its_token_ended_is_woken(ctx: Context) -> None:
    """The first wake may come while the stream still reads; nothing else would end its wait."""
    _, token = tokens.create(ctx, "reader", ("view",))

    async def wakes() -> int:
        watch, woken = TokenWatch(ctx.store, CapacityLimiter(1)), asyncio.Semaphore(0)
        watch.at_end.append(woken.release)
        with watch.watch(token.id, token.principal):
            tokens.revoke(ctx, token.id)
            for _ in range(2):
                await asyncio.wait_for(woken.acquire(), 30)
        return 2

    assert asyncio.run(wakes()) == 2


def test_keys_follow_the_role_of_who_made_them(world: World, ctx: Context) -> None:
    roles.create(ctx, "reader", ["data"])
    text, _ = tokens.create(ctx, "r", ("reader",))
    maker = tokens.authenticate(ctx.store, text)
    assert maker is not None
    key = s3_keys.create(ctx, "k", ["main"], parent=maker.id)

    def reads() -> tuple[bool, bool]:
        found = s3_keys.find(ctx.store, key.id)
        standing = tokens.standing(ctx.store, key.id)
        assert found is not None
        assert standing is not None
        return "data" in found.principal.permissions, "data" in standing.permissions

    assert reads() == (True, True)
    roles.change(ctx, "reader", ["view"])
    assert reads() == (False, False)


def test_streams_of_keys_and_recipients_begin_with_the_rights_that_are_looked_up(
    world: World, ctx: Context
) -> None:
    """Each stream ends where a later look has other rights than its request was let in with."""
    roles.create(ctx, "reader", ["data"])
    _, maker = tokens.create(ctx, "r", ("reader",))
    for parent in ("", maker.id):
        made_key = s3_keys.create(ctx, f"k{parent}", ["main"], parent=parent)
        key = s3_keys.find(ctx.store, made_key.id)
        assert key is not None
        assert key.standing == tokens.standing(ctx.store, key.id)
    shares.create(ctx, "sales")
    text, token = recipients.create(ctx, NewRecipient("acme", ("sales",)))
    recipient, key = recipients.find(ctx.store, text), recipients.s3_key(ctx.store, token.id)
    assert recipient is not None
    assert key is not None
    assert recipient.principal == key.standing == tokens.standing(ctx.store, token.id)


def test_a_role_that_somebody_has_is_not_deleted(world: World, ctx: Context) -> None:
    with world.http() as http:
        made(http, "desk", "operate")
        token = http.post("/v1/tokens", json={"name": "night", "scopes": ["desk"]}).json()
        claims = {"repository": ["acme/flows"]}
        trust.create(
            ctx,
            "ci",
            "exchange",
            "https://token.example.com",
            claims,
            ["desk"],
            audience="https://us.example",
        )
        refused = http.delete("/v1/roles/desk")
        assert http.get("/v1/roles/desk").json()["used_by"] == [
            f"token {token['id']} night",
            "rule of trust ci",
        ]
        http.delete(f"/v1/tokens/{token['id']}")
        trust.delete(ctx, "ci")
        assert http.delete("/v1/roles/desk").status_code == 204
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:headgate:role-in-use")
    assert f"token {token['id']} night, rule of trust ci" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("scopes", "within", "change"),
    [
        (["desk", "data"], {}, {"permissions": ["view"], "within": SALES}),
        (["desk"], SALES, {"permissions": ["view"], "within": SALES}),
        (["desk"], SALES, {"permissions": ["admin"]}),
    ],
)
def test_a_change_that_a_holder_cannot_keep_is_refused(
    world: World, scopes: Sequence[str], within: Mapping[str, Any], change: Mapping[str, Any]
) -> None:
    with world.http() as http:
        made(http, "desk", "view")
        token_of(http, *scopes, within=within)
        answer = http.put("/v1/roles/desk", json=change)
        assert http.get("/v1/roles/desk").json()["permissions"] == ["view"]
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:headgate:role-in-use")
    assert f"of {'-'.join(scopes)}" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "view", "permissions": ["admin"]}, "built in"),
        ({"name": "driver", "permissions": ["admin"]}, "built in"),
        ({"name": "a:b", "permissions": ["view"]}, "body.name"),
        ({"name": "a", "permissions": []}, "body.permissions"),
        ({"name": "a", "permissions": ["own"]}, "body.permissions"),
        ({"name": "a", "permissions": ["admin"], "within": SALES}, "cannot be narrowed"),
        (
            {"name": "a", "permissions": ["view"], "within": {"dataflows": ["A B"]}},
            "no pattern of a dataflow",
        ),
        ({"name": "taken", "permissions": ["view"]}, "there is a role taken"),
    ],
)
def test_what_is_no_role_is_refused(world: World, body: Mapping[str, Any], words: str) -> None:
    with world.http() as http:
        made(http, "taken", "view")
        answer = http.post("/v1/roles", json=body)
        assert len(http.get("/v1/roles").json()["items"]) == 6
    assert answer.status_code in (409, 422)
    assert words in answer.text


def test_roles_that_are_built_in_stay(world: World) -> None:
    with world.http() as http:
        for name in ("view", "admin"):
            for answer in (
                http.put(f"/v1/roles/{name}", json={"permissions": ["admin"]}),
                http.delete(f"/v1/roles/{name}"),
            ):
                assert (answer.status_code, "built in" in answer.json()["detail"]) == (422, True)
        assert http.get("/v1/roles/view").json()["permissions"] == ["view"]


@pytest.mark.parametrize(
    ("scopes", "within", "words"),
    [
        (["nobody"], {}, "there is no role 'nobody'"),
        (["narrow", "data"], {}, "given alone"),
        (["narrow"], SALES, "given alone"),
        (["boss"], SALES, "of the whole installation"),
        (["s3:main"], {}, "body.scopes"),
    ],
)
def test_a_token_has_roles_that_there_are_and_that_go_together(
    world: World, scopes: Sequence[str], within: Mapping[str, Any], words: str
) -> None:
    with world.http() as http:
        made(http, "narrow", "view", within=SHOP)
        made(http, "boss", "admin")
        answer = http.post("/v1/tokens", json={"name": "t", "scopes": scopes, "within": within})
    assert answer.status_code == 422
    assert words in answer.text


def test_a_narrowed_role_beside_another_gives_nothing() -> None:
    """Whatever came of two changes at the same time."""
    narrow = NamedRole(
        "narrow", frozenset({"view", "data"}), TokenScope(dataflows=("shop",)), "", 0.0
    )
    alone = Token("", b"", "", ("narrow",), "", 0.0, roles=(narrow,))
    beside = Token("", b"", "", ("narrow", "admin"), "", 0.0, roles=(narrow,))
    again = Token(
        "", b"", "", ("narrow",), "", 0.0, within=TokenScope(branches=("main",)), roles=(narrow,)
    )
    assert alone.principal.within == narrow.within
    assert [one.principal.permissions for one in (beside, again)] == [frozenset(), frozenset()]
    assert Token("", b"", "", ("narrow",), "", 0.0).principal.permissions == frozenset()


def test_roles_of_another_namespace_are_no_roles_here(world: World, ctx: Context) -> None:
    theirs = Context(ctx.store, actor="bob", namespace="team-a")
    roles.create(theirs, "desk", ["admin"])
    with world.http() as http:
        assert http.get("/v1/roles/desk").status_code == 404
        assert http.post("/v1/tokens", json={"name": "t", "scopes": ["desk"]}).status_code == 422
        roles.create(ctx, "desk", ["view"])
        with world.http(token_of(http, "desk")) as desk:
            assert desk.get("/v1/tokens").status_code == 403
    text, _ = tokens.create(theirs, "t", ("desk",))
    found = tokens.authenticate(ctx.store, text)
    assert found is not None
    assert "admin" in found.principal.permissions
