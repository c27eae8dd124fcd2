"""Forms of pages: each wish is followed once, by who may, and comes back to its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from tests.unit.api.world import serving
from tests.unit.ui.world import Pages, pages

OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as found:
        yield found


def sign_in(http: httpx2.Client, token: str) -> None:
    assert http.post("/login", data={"token": token}, headers=OWN).status_code == 303


def forms(http: httpx2.Client, path: str) -> dict[str, dict[str, str]]:
    """Hidden fields of the forms of a page, by what they ask for."""
    text = http.get(path).text
    found = re.findall(r'<form class="act" action="/actions/([a-z-]+)"[^>]*>(.*?)</form>', text, re.DOTALL)
    return {action: dict(re.findall(r'name="(\w+)" value="([^"]*)"', body)) for action, body in found}


def audited(world: Pages) -> list[tuple[str, str, str]]:
    with world.services.store.read() as tx:
        return [(c.actor, c.action, c.target) for c in tx.changes("main", 100) if c.actor == "ada"]


def test_a_wish_is_followed_once_and_taken_back(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        pause = forms(http, "/datasets/shop.dear")["pause"]
        for _ in range(2):  # a double click
            answer = http.post("/actions/pause", data=pause, headers=OWN)
            assert (answer.status_code, answer.headers["location"]) == (303, "/datasets/shop.dear")
        assert audited(world) == [("ada", "pause", "shop.dear")]
        page = http.get(answer.headers["location"]).text
        assert "nothing more of it is begun" in page
        assert "nothing more of it is begun" not in http.get("/datasets/shop.dear").text, "it is said once"
        assert http.get("/datasets/shop.dear.json").json()["dataset"]["state"] == "paused"
        http.post("/actions/resume", data=forms(http, "/datasets/shop.dear")["resume"], headers=OWN)
        assert http.get("/datasets/shop.dear.json").json()["dataset"]["state"] == "up_to_date"


def test_a_form_without_its_proofs_does_nothing(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        pause = forms(http, "/flows/shop")["pause"]
        for fields, headers in (
            ({**pause, "csrf": "0" * 64}, OWN),
            (pause, {"Sec-Fetch-Site": "same-site"}),
            (pause, {"Origin": "http://evil.example"}),
        ):
            assert http.post("/actions/pause", data=fields, headers=headers).status_code == 403
        assert http.post("/actions/pause", data={**pause, "once": "x"}, headers=OWN).status_code == 422
        assert http.post("/actions/pause", data={**pause, "target": "no.such"}, headers=OWN).status_code == 404
        assert http.post("/actions/explode", data=pause, headers=OWN).status_code == 404
        away = http.post("/actions/refresh", data={**pause, "next": "//evil.example"}, headers=OWN)
        assert away.headers["location"] == "/"
    assert audited(world) == [("ada", "refresh", "shop")]


def test_a_wish_that_is_refused_says_why_and_may_come_again(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        form = {**forms(http, "/datasets/shop.dear")["pause"], "to": "99"}
        refused = http.post("/actions/roll-back", data=form, headers=OWN)
        assert refused.status_code == 404
        assert "generation 99" in refused.text
        answer = http.post("/actions/roll-back", data={**form, "to": "1", "reason": "wrong prices"}, headers=OWN)
        assert answer.status_code == 303
        held = http.get("/datasets/shop.dear.json").json()["dataset"]["hold"]
        assert (held["generation"], held["actor"], held["reason"]) == (1, "ada", "wrong prices")


def test_a_home_that_is_only_shown_takes_no_wishes(world: Pages) -> None:
    shown = replace(world.services, is_shown_only=True)
    with serving(shown) as url, httpx2.Client(base_url=url, trust_env=False) as http:
        sign_in(http, world.token)
        page = http.get("/flows/shop").text
        assert "this home is only shown" in page.lower()
        assert 'type="submit" disabled' in page
        refused = http.post("/actions/pause", data=forms(http, "/flows/shop")["pause"], headers=OWN)
        assert refused.status_code == 403
    assert not audited(world)
