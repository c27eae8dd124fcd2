"""Signed links: what they open, for whom and for how long, over both stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from controlplane.operations.desired import links, tokens
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, RecordWorld, Served, served

pytestmark = pytest.mark.unit
DAY_S = 86_400.0
ASKED = {"dataset": ORDERS, "columns": ["k", "name"], "where": "k > 1", "limit": 2}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Served]:
    world = RecordWorld(tmp_path)
    world.commit({"a.csv": [order(1), order(2)], "b.csv": [order(3), order(4)]})
    with served(world) as place:
        yield place


def make(place: Served, token: str | None = None, **more: Any) -> dict[str, Any]:
    with place.http(token) as http:
        answer = http.post("/v1/links", json={**ASKED, **more})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def get(url: str, **headers: str) -> httpx2.Response:
    return httpx2.get(url, headers=headers, trust_env=False)


def problem(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("urn:headgate:")


def test_a_link_needs_no_headers_and_answers_what_it_fixes(place: Served) -> None:
    link = make(place)
    assert urlsplit(link["url"]).path.endswith("/shop.orders.csv")
    answer = get(link["url"])
    assert (answer.text, answer.headers["content-type"]) == (
        '"k","name"\n2,"a"\n3,"a"\n',
        "text/csv; charset=utf-8",
    )
    wider = get(link["url"] + "&where=k%20%3E%200&columns=k,price&limit=99&partition=a.csv")
    assert wider.text == answer.text
    number = len(place.world.rendered)
    assert get(link["url"], **{"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert httpx2.head(link["url"], trust_env=False).headers["etag"] == answer.headers["etag"]
    assert len(place.world.rendered) == number


def test_a_link_follows_the_newest_state_or_stays_at_one(place: Served) -> None:
    follows, stays = make(place, format="json"), make(place, format="json", at="1")
    place.world.commit({"a.csv": [order(9)]})
    assert [row["k"] for row in get(follows["url"]).json()] == [9]
    assert [row["k"] for row in get(stays["url"]).json()] == [2, 3]
    assert stays["point"] == "1"


def test_other_addresses_are_refused_alike(place: Served) -> None:
    url, other = make(place)["url"], make(place, limit=1)["url"]
    signature, id = url.partition("signature=")[2], urlsplit(url).path.split("/")[3]
    forged = [
        url.partition("?")[0],
        url[:-1] + ("A" if url[-1] != "A" else "B"),
        url + "A",
        url.replace(signature, ""),
        url.replace(signature, "%C3%BC" * 43),
        url.replace(signature, other.partition("signature=")[2]),
        url.replace(id, "0" * 32),
        url.replace(id, "nothing"),
    ]
    answers = [get(one) for one in forged]
    assert {problem(answer) for answer in answers} == {(403, "wrong-signature")}
    assert len({answer.json()["detail"] for answer in answers}) == 1
    assert problem(get(url.replace("shop.orders.csv", "shop.orders.json"))) == (404, "not-found")
    assert place.services.counters.snapshot()["token_failures", ""] == len(forged)


def test_who_has_the_database_cannot_widen_a_link(place: Served) -> None:
    link = make(place)
    with place.world.store.begin() as tx:
        stored = tx.links.get(link["id"])
        assert stored is not None
        assert link["url"].partition("signature=")[2] not in repr(stored)
    for more in (
        {"where": None},
        {"columns": ()},
        {"dataset": "shop.other"},
        {"expires": 9e9},
        {"maker": "x"},
    ):
        with place.world.store.begin() as tx:
            tx.links.put(replace(stored, **more))
        url = link["url"].replace("shop.orders", str(more.get("dataset", "shop.orders")))
        assert problem(get(url)) == (403, "wrong-signature"), more
    with place.world.store.begin() as tx:
        tx.links.put(stored)
    assert get(link["url"]).status_code == 200


def test_a_link_ends(place: Served) -> None:
    world = place.world
    text, token = tokens.create(world.ctx, "ann", ("admin",), ttl_s=30 * DAY_S)
    revoked, expired, orphan = (
        make(place),
        make(place, ttl_s=DAY_S),
        make(place, text, ttl_s=60 * DAY_S),
    )
    with place.http() as http:
        assert http.delete(f"/v1/links/{revoked['id']}").status_code == 204
        assert problem(http.delete("/v1/links/00")) == (404, "not-found")
    world.now += DAY_S + 1
    assert get(orphan["url"]).status_code == 200
    said = [get(link["url"]) for link in (revoked, expired)]
    tokens.revoke(world.ctx, token.id)
    said.append(get(orphan["url"]))
    assert {problem(answer) for answer in said} == {(410, "link-ended")}
    words = ["was revoked", "ended at 2025-11-26", "ended with the token that made it"]
    assert all(word in answer.json()["detail"] for word, answer in zip(words, said, strict=True))
    with place.http() as http:
        ended = {item["id"]: item["ended"] for item in http.get("/v1/links").json()["items"]}
    assert [ended[link["id"]].split(" at ")[0] for link in (revoked, expired, orphan)] == [
        "was revoked",
        "ended",
        "ended with the token that made it",
    ]


def test_a_link_ends_when_its_makers_token_does(place: Served) -> None:
    text, _ = tokens.create(place.world.ctx, "ann", ("admin",), ttl_s=DAY_S)
    link = make(place, text, ttl_s=60 * DAY_S)
    place.world.now += DAY_S + 1
    assert problem(get(link["url"])) == (410, "link-ended")


def test_a_link_of_a_branch_ends_with_it(place: Served) -> None:
    with place.http() as http:
        assert http.post("/v1/branches", json={"name": "dev"}).status_code == 201
        link = make(place, branch="dev")
        assert get(link["url"]).status_code == 200
        http.delete("/v1/branches/dev")
        assert problem(get(link["url"])) == (403, "wrong-signature")
        http.post("/v1/branches", json={"name": "dev"})  # another one of that name
    assert problem(get(link["url"])) == (403, "wrong-signature")


def test_a_link_tells_nothing_of_what_it_does_not_read(place: Served) -> None:
    link = make(place, where=None, limit=1)
    assert "x-rows" not in get(link["url"]).headers
    place.world.commit({"a.csv": [{"k": 1, "other": 2}]}, schema=struct(k="long", secret="long"))
    answer = get(link["url"])
    assert (problem(answer), "secret" in answer.text) == ((404, "not-found"), False)


def test_a_link_never_reads_more_than_its_maker_may(
    place: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = make(place)
    monkeypatch.setattr(links, "may_read", lambda maker, link: False)
    assert problem(get(link["url"])) == (410, "link-ended")


def test_making_and_revoking_are_audited_without_the_address(place: Served) -> None:
    link = make(place)
    with place.http() as http:
        http.delete(f"/v1/links/{link['id']}")
        rows = http.get("/v1/audit").json()["items"]
        listed = http.get("/v1/links").text
    told = [
        (row["action"], row["target"], row["actor"])
        for row in rows
        if row["action"].startswith("link.")
    ]
    assert sorted(told) == [
        ("link.create", link["id"], "test"),
        ("link.revoke", link["id"], "test"),
    ]
    (made,) = [row for row in rows if row["action"] == "link.create"]
    assert (made["after"]["where"], made["after"]["columns"]) == ("k > 1", ["k", "name"])
    signature = link["url"].partition("signature=")[2]
    assert signature not in str(rows) + listed


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dataset": "shop.none"}, "not-found"),
    ({"branch": "nope"}, "not-found"),
    ({"columns": ["nope"]}, "bad-columns"),
    ({"where": "k = 'x'"}, "bad-condition"),
    ({"at": "x"}, "bad-address"),
    ({"at": "9"}, "not-found"),
    ({"compression": "gzip"}, "invalid-request"),
    ({"ttl_s": 0}, "invalid-request"),
    ({"ttl_s": 1e9}, "invalid-request"),
    ({"format": "xml"}, "invalid-request"),
    ({"more": 1}, "invalid-request"),
]


def test_what_no_link_is_made_of(place: Served) -> None:
    with place.http() as http:
        for more, code in REFUSED:
            assert problem(http.post("/v1/links", json={**ASKED, **more}))[1] == code, more
        assert http.get("/v1/links").json()["items"] == []


def test_a_link_cannot_be_made_twice_by_one_key(place: Served) -> None:
    with place.http() as http:
        assert problem(http.post("/v1/links", json=ASKED, headers={"Idempotency-Key": "a"})) == (
            422,
            "not-supported",
        )


INVALID: list[tuple[dict[str, object], str]] = [
    ({"limit": "3"}, "body.limit: Input should be a valid integer"),
    ({"limit": 1.0}, "body.limit: Input should be a valid integer"),
    ({"ttl_s": True}, "body.ttl_s: Input should be a valid number"),
    ({"columns": "id"}, "body.columns: Input should be a valid list"),
    ({"columns": [1]}, "body.columns.0: Input should be a valid string"),
    ({"other": 1}, "body.other: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("more", "message"), INVALID)
def test_no_value_of_a_body_is_converted(
    place: Served, more: dict[str, object], message: str
) -> None:
    with place.http() as http:
        answer = http.post("/v1/links", json={**ASKED, **more})
        assert answer.status_code == 422
        assert [error["message"] for error in answer.json()["errors"]] == [message]


def test_a_body_is_an_object(place: Served) -> None:
    with place.http() as http:
        answer = http.post("/v1/links", json=[])
        assert (
            answer.json()["detail"]
            == "body: Input should be a valid dictionary or object to extract fields from"
        )
