"""The palette: whatever has a name is found by it, and an action says first what it would do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.ui.world import Pages, pages


@pytest.fixture(scope="module")
def home() -> Iterator[Pages]:
    with pages() as found:
        yield found


def groups(home: Pages, query: str) -> dict[str, list[dict[str, Any]]]:
    with home.http() as http:
        found = http.get("/find.json", params={"q": query}).json()["groups"]
    return {group["name"]: group["items"] for group in found}


def test_a_column_leads_to_its_dataset(home: Pages) -> None:
    hits = groups(home, "price")["Datasets and columns"]
    assert ("shop.dear", "column price") in [(hit["label"], hit["hint"]) for hit in hits]


def test_actions_lead_to_the_page_that_says_what_they_do(home: Pages) -> None:
    hits = {hit["label"]: hit["href"] for hit in groups(home, "shop.dear")["Actions"]}
    with home.http() as http:
        page = http.get(hits["Pause shop.dear"]).text
    assert "Pause: what would happen" in page


def test_runs_pages_and_dataflows_are_found(home: Pages) -> None:
    assert groups(home, "glossary")["Pages"][0]["href"] == "/help/keys#words"
    assert groups(home, "oth")["Dataflows"][0]["href"] == "/flows/other"
    run = groups(home, "rev1")["Runs"][0]
    with home.http() as http:
        assert http.get(run["href"]).status_code == 200


@pytest.mark.parametrize(
    ("query", "first"), [("shop", "Dataflows"), ("cost", "Pages"), ("sho", "Datasets and columns")]
)
def test_what_has_exactly_this_name_stands_first(home: Pages, query: str, first: str) -> None:
    assert next(iter(groups(home, query))) == first


def test_nothing_found_says_what_was_looked_at(home: Pages) -> None:
    with home.http() as http:
        assert "Nothing has all of these words" in http.get("/find?q=zzzz").text
