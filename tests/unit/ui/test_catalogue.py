"""The page of datasets: words that were found are lit, whatever they are, and choices are links."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from controlplane.ui.page_rendering import lit
from tests.unit.ui.world import HOSTILE, Pages, pages


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


@pytest.mark.parametrize(
    ("text", "words", "parts"),
    [
        ("Orders of a day", ["order"], [("Order", True), ("s of a day", False)]),
        ("a.b", ["."], [("a", False), (".", True), ("b", False)]),
        ("total", ["tot", "total"], [("total", True)]),
        ("aXbx", ["x"], [("a", False), ("X", True), ("b", False), ("x", True)]),
        ("none", [], [("none", False)]),
        ("", ["x"], []),
        ("x & <b>", ["<b>"], [("x & ", False), ("<b>", True)]),
    ],
)
def test_words_are_lit_without_regard_to_case(
    text: str, words: list[str], parts: list[tuple[str, bool]]
) -> None:
    assert lit(text, words) == parts
    assert "".join(part for part, _ in lit(text, words)) == text


def test_words_are_found_in_columns_owners_descriptions_and_keys(world: Pages) -> None:
    with world.http() as http:
        for query, name, shown in (
            ("price", "shop.dear", "<code><mark>price</mark></code>"),
            ("owner:ada", "shop.dear", "<mark>ada</mark>"),
            ("COST", "shop.dear", "Orders that <mark>cost</mark> much"),
            ("2025-01-03", "shop.orders", "<mark>2025-01-03</mark>.csv"),
        ):
            page = http.get(f"/datasets?q={query}").text
            assert f'href="/datasets/{name}"' in page, query
            assert shown in page, query


@pytest.mark.parametrize("text", ["<script>", "<", "script", "&", HOSTILE[0]])
def test_lit_words_of_users_stay_texts(world: Pages, text: str) -> None:
    with world.http() as http:
        page = http.get(f"/datasets?q={quote(text)}&tag={quote(text)}")
        assert page.status_code == 200
        assert "<script>document" not in page.text
        page = http.get(f"/datasets?q={quote(text)}")
        assert "<script>document" not in page.text
        assert "<<mark>" not in page.text


def test_choices_are_links_that_keep_the_words(world: Pages) -> None:
    with world.http() as http:
        page = http.get("/datasets?q=shop&kind=sql").text
        assert 'href="/datasets?q=shop&amp;kind=sql&amp;state=failed"' in page
        assert 'href="/datasets?q=shop"' in page, "a choice is left by its own link"
        assert "headgate search shop" in page
