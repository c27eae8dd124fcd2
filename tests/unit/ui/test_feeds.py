"""The page of feeds: what is offered and to whom, what follows a feed here, and its forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from controlplane.api.services import Services
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.desired import feeds, tokens
from controlplane.reconciler.wake import WakeCounter
from tests.unit.api.world import serving
from tests.unit.feeds.world import Installation, Team
from tests.unit.ui.test_actions import OWN, forms, sign_in


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[tuple[Team, Team, str]]:
    """One that offers `orders`, another one that reads it, and where both are served."""
    installation = Installation(tmp_path)
    seller, reader = installation.team("team-a"), installation.team("team-b")
    seller.put("1.csv", (1, 10))
    seller.sells()
    seller.settle()
    feeds.create(seller.ctx, "orders", "shop.kept")
    feeds.grant(seller.ctx, "orders", "team-b", "sales*")
    reader.reads("team-a")
    reader.settle()
    services = Services(
        installation.store,
        open_lake(str(tmp_path)),
        WakeCounter(),
        lambda _: iter(()),
        lambda *_: "",
    )
    with serving(services) as url:
        yield seller, reader, url


@contextmanager
def signed_in(team: Team, url: str, *scopes: str) -> Iterator[httpx2.Client]:

    token, _ = tokens.create(team.ctx, "ada", scopes or ("admin",))
    with httpx2.Client(base_url=url, trust_env=False, timeout=60) as http:
        sign_in(http, token)
        yield http


def value(http: httpx2.Client) -> Any:
    return http.get("/feeds.json").json()


def test_each_side_sees_what_is_its_own(teams: tuple[Team, Team, str]) -> None:
    seller, reader, url = teams
    with signed_in(seller, url) as http:
        (feed,) = value(http)["feeds"]
        assert (feed["dataset"], feed["generation"]) == ("shop.kept", 1)
        assert feed["readers"] == [{"namespace": "team-b", "branch": None, "dataset": None}]
        assert (value(http)["offered"], value(http)["reading"]) == ([], [])
        page = http.get("/feeds").text
        assert "namespace team-b" in page
        assert "is offered as" in http.get("/datasets/shop.kept").text
        assert "sales" not in page.replace("sales*", ""), "names of another namespace are its own"
    with signed_in(reader, url) as http:
        page = http.get("/feeds").text
        assert "read: {connector: feed, feed: orders, namespace: team-a}" in page
        assert 'href="/datasets/sales.sold"' in page
        assert "shop.kept" not in page
        assert http.get("/datasets/sales.sold.json").json()["dataset"]["feed"] == "team-a/orders"
        assert "team-a/orders" in http.get("/datasets/sales.sold").text
        sources = http.get("/sources").text
        assert "feed:team-a/orders" in sources
        assert "Check for new files" not in sources, "nobody looks at a feed"
        (following,) = value(http)["reading"]
        assert (following["dataset"], following["state"], following["reason"]) == (
            "sales.sold",
            "up_to_date",
            None,
        )


def test_a_broken_contract_is_told_on_both_sides_and_mended_by_a_form(
    teams: tuple[Team, Team, str],
) -> None:
    seller, reader, url = teams
    seller.sells(schema="k BIGINT, v BIGINT", sql="SELECT k FROM orders")
    seller.settle()
    reader.rest()
    with signed_in(seller, url) as http:
        page = http.get("/feeds").text
        assert "Generation 2 breaks the contract, and readers stay with generation 1" in page
        assert "Column v is gone" in page
        refused = http.post(
            "/actions/feed-change", data=forms(http, "/feeds")["feed-change"], headers=OWN
        )
        assert refused.status_code == 422
        assert "column v would go" in refused.text
    with signed_in(reader, url) as http:
        (following,) = value(http)["reading"]
        assert following["state"] == "waiting"
        assert "column v is gone" in following["reason"]
    seller.sells(sql="SELECT k, v, k AS w FROM orders")
    seller.settle()
    with signed_in(seller, url) as http:
        changed = http.post(
            "/actions/feed-change", data=forms(http, "/feeds")["feed-change"], headers=OWN
        )
        assert changed.status_code == 303
        assert [one["name"] for one in value(http)["feeds"][0]["columns"]] == ["k", "v", "w"]
        assert "promises the columns that its dataset has" in http.get("/feeds").text


def test_forms_offer_grant_revoke_and_delete(teams: tuple[Team, Team, str]) -> None:
    seller, reader, url = teams
    with signed_in(seller, url) as http:

        def ask(action: str, **fields: str) -> int:
            once = forms(http, "/feeds")["feed-change"]
            return http.post(f"/actions/{action}", data={**once, **fields}, headers=OWN).status_code

        assert ask("feed-offer", target="shop.orders", name="raw", columns="k BIGINT") == 303
        assert ask("feed-offer", target="shop.orders", name="No name") == 422
        assert ask("feed-grant", target="raw", namespace="team-b") == 303
        raw = next(one for one in value(http)["feeds"] if one["name"] == "raw")
        assert [(one["namespace"], one["dataflows"]) for one in raw["grants"]] == [("team-b", "*")]
        assert ask("feed-grant", target="raw", namespace="No") == 422
        assert ask("feed-delete", target="orders") == 422, "it is read"
        revoke = forms(http, "/feeds")["feed-revoke"]
        assert http.post("/actions/feed-revoke", data=revoke, headers=OWN).status_code == 303
        assert ask("feed-delete", target="raw") == 303
        crossed = {"Sec-Fetch-Site": "cross-site"}
        assert (
            http.post(
                "/actions/feed-delete", data={**revoke, "target": "orders"}, headers=crossed
            ).status_code
            == 403
        )
    assert [one["name"] for one in feeds.listing(seller.ctx)] == ["orders"]
    assert feeds.offered(reader.ctx)


def test_only_administrators_see_to_whom_it_is_offered(teams: tuple[Team, Team, str]) -> None:
    seller, _, url = teams
    with signed_in(seller, url, "edit") as http:
        assert value(http)["feeds"] is None
        assert "shown to its administrators" in http.get("/feeds").text
        data = {"csrf": "x", "once": "0" * 32, "target": "orders"}
        assert http.post("/actions/feed-delete", data=data, headers=OWN).status_code == 403
