"""One wish for several: what it would do is told first, done once, and what is refused for one
stops no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from typing import Any

import httpx2
import pytest

from controlplane.operations.desired import controls
from tests.unit.ui.test_actions import OWN, audited, fields, sign_in
from tests.unit.ui.world import Pages, pages

BROKEN = """\
  wrong: {transform: {sql: 'SELECT no_such_function(k) AS k FROM orders'}}
  after: {transform: {sql: 'SELECT k FROM wrong'}}
"""


@pytest.fixture
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


@pytest.fixture
def http(world: Pages) -> Iterator[httpx2.Client]:
    with world.http(signed_in=False) as found:
        sign_in(found, world.token)
        yield found


def address(wish: str, names: Sequence[str], suffix: str = "") -> str:
    return f"/bulk{suffix}?do={wish}&next=/datasets&" + "&".join(f"on={name}" for name in names)


def told(http: httpx2.Client, wish: str, *names: str) -> Any:
    return http.get(address(wish, names, ".json")).json()["foreseen"]


def test_several_are_paused_and_resumed_by_one_form_each(world: Pages, http: httpx2.Client) -> None:
    names = ("shop.dear", "other")
    page = http.get(address("pause", names))
    assert "nothing more of it is begun" in page.text.lower()
    assert audited(world) == [], "a look changes nothing"
    form = fields(page, "/bulk")
    for _ in range(2):  # a double click
        answer = http.post("/bulk", data=form, headers=OWN)
        assert (answer.status_code, answer.headers["location"]) == (303, "/datasets")
    assert sorted(audited(world)) == [("ada", "pause", "other"), ("ada", "pause", "shop.dear")]
    assert "all that was chosen is paused" in http.get("/datasets").text.lower()
    states = {one["name"]: one["state"] for one in http.get("/datasets.json").json()["items"]}
    assert (states["shop.dear"], states["other.monthly"]) == ("paused", "paused")
    assert [one["sentence"] for one in told(http, "pause", "shop.dear")["items"]] == [
        "it is paused already"
    ]
    http.post("/bulk", data=fields(http.get(address("resume", names)), "/bulk"), headers=OWN)
    states = {one["name"]: one["state"] for one in http.get("/datasets.json").json()["items"]}
    assert (states["shop.dear"], states["other.monthly"]) == ("up_to_date", "up_to_date")


def test_what_would_happen_is_told_for_each(world: Pages, http: httpx2.Client) -> None:
    again = told(http, "compute-again", "shop.dear", "shop.export", "shop.spent")
    dear, export, spent = again["items"]
    assert "60 partitions with" in dear["sentence"]
    assert "an export is not recomputed" in export["sentence"]
    assert again["tasks"] == dear["tasks"] + spent["tasks"] > 60
    assert again["readers"] == 2, "grand, and monthly: spent and export are meant themselves"
    assert "no task of it" in told(http, "retry", "shop.dear")["items"][0]["sentence"]
    assert told(http, "retry", "shop")["items"][0]["state"] is None, "of several"
    controls.pause(world.world.ctx, "main", "shop")
    (item,) = told(http, "resume", "shop.dear")["items"]
    assert item["sentence"] == "some or all of it stays paused, by shop"
    assert "it is not paused" in told(http, "resume", "other")["items"][0]["sentence"]


def test_what_a_retry_foresees_is_what_it_does(world: Pages, http: httpx2.Client) -> None:
    world.world.apply(BROKEN, "broken")
    world.world.settle()
    wrong, after = told(http, "retry", "broken.wrong", "broken.after")["items"]
    assert wrong["tasks"] == after["tasks"] == 1
    assert after["sentence"] == "1 task that failed is tried again, 1 of them of what it reads"
    assert controls.retry(world.world.ctx, "main", "broken.after")["retried"] == 1


def test_several_are_computed_again(world: Pages, http: httpx2.Client) -> None:
    form = fields(http.get(address("compute-again", ["shop.told", "shop.grand"])), "/bulk")
    assert http.post("/bulk", data=form, headers=OWN).status_code == 303
    with world.world.store.read() as tx:
        assert {"shop.told", "shop.grand"} <= set(tx.blueprints.forces("main"))


def test_what_is_gone_by_then_stops_no_other(world: Pages, http: httpx2.Client) -> None:
    page = http.get(address("pause", ["shop.dear", "shop.gone"]))
    assert "Nothing has these names by now: shop.gone" in page.text
    form = {**fields(page, "/bulk"), "targets": "shop.gone shop.dear"}
    answer = http.post("/bulk", data=form, headers=OWN)
    assert answer.status_code == 422
    assert "there is no dataflow or dataset shop.gone" in unescape(
        re.sub("<[^>]*>", "", answer.text)
    )
    assert audited(world) == [("ada", "pause", "shop.dear")]


def test_a_form_without_its_proofs_does_nothing(world: Pages, http: httpx2.Client) -> None:
    form = fields(http.get(address("pause", ["shop.dear"])), "/bulk")
    for wrong, headers in (
        ({**form, "csrf": "0" * 64}, OWN),
        (form, {"Sec-Fetch-Site": "same-site"}),
        (form, {"Origin": "http://evil.example"}),
    ):
        assert http.post("/bulk", data=wrong, headers=headers).status_code == 403
    for wrong in (
        {"once": "x"},
        {"wish": "explode"},
        {"targets": "../shop"},
        {"targets": " ".join(f"a{n}" for n in range(501))},
    ):
        assert http.post("/bulk", data={**form, **wrong}, headers=OWN).status_code in (404, 422), (
            wrong
        )
    away = http.post("/bulk", data={**form, "next": "//evil.example"}, headers=OWN)
    assert away.headers["location"] == "/"
    assert audited(world) == [("ada", "pause", "shop.dear")]


def test_nothing_chosen_and_no_such_wish_are_told(http: httpx2.Client) -> None:
    assert "Nothing was chosen" in http.get("/bulk?do=pause").text
    assert http.get("/bulk?do=explode&on=shop.dear").status_code == 404
    assert http.get("/bulk?do=pause&on=%3Cscript%3E").status_code == 404
    assert http.get("/bulk").status_code == 404


def test_each_command_names_the_branch(world: Pages, http: httpx2.Client) -> None:
    page = unescape(http.get(address("compute-again", ["shop.dear", "other"]) + "&branch=dev").text)
    commands = [f"headgate refresh --force {name} --branch dev" for name in ("shop.dear", "other")]
    assert " && ".join(commands) in re.sub(r"\s+", " ", page)
    assert "--branch" not in http.get(address("compute-again", ["shop.dear", "other"])).text
