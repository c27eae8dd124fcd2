"""Each fact that matters of a page's JSON is on the page; no page shows raw back-ticks, or a time
without its zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape
from typing import Any

import pytest

from controlplane.operations.desired import controls
from controlplane.ui.page_rendering import ticked
from tests.unit.ui.test_pages import PATHS
from tests.unit.ui.world import Pages, pages

AS_WRITTEN = re.compile(r"<(code|pre|textarea|script|svg|title)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
TIME = re.compile(r"<time datetime=\"[^\"]*\" title=\"[^\"]*\">[^<]*</time>")
BARE_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
WORDS = ("sentence", "message", "owner")  # of dictionaries: texts that a page shows
MORE = ("/datasets/shop.dear", "/datasets/shop.spent", "/datasets/shop.after_strict")


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as found:
        controls.pause(found.world.ctx, "main", "shop.spent")
        yield found


@pytest.mark.parametrize("path", [*PATHS, *MORE])
def test_code_is_code_and_instants_are_instants(world: Pages, path: str) -> None:
    with world.http() as http:
        page = http.get(path).text
    texts = unescape(TAG.sub(" ", AS_WRITTEN.sub(" ", TIME.sub(" ", page))))
    assert "`" not in texts
    assert not BARE_TIME.search(texts), BARE_TIME.findall(texts)


def test_code_of_a_sentence_stays_text() -> None:
    assert str(ticked("use `<b>` & `x`, since 2026-11-26 13:31:54Z")) == (
        "use <code>&lt;b&gt;</code> &amp; <code>x</code>, since "
        '<time datetime="2026-11-26T13:31:54Z" title="2026-11-26T13:31:54Z">2026-11-26 13:31:54 UTC</time>'
    )
    assert str(ticked("one ` alone")) == "one ` alone"


def test_a_fix_is_a_command_to_copy_and_a_pause_an_instant(world: Pages) -> None:
    with world.http() as http:
        held = http.get("/datasets/shop.spent.json").json()["why"]["held_up"]
        page = http.get("/datasets/shop.spent").text
        assert held["commands"] == ["headgate resume shop.spent"]
        assert held["sentence"] == "shop.spent was paused by local"
        assert f'<time datetime="{held["at"]}"' in page
        assert "<code>headgate resume shop.spent</code><button" in page
        assert "Headgate resume" not in page
        failed = http.get("/datasets/shop.strict").text
        assert "headgate checks shop.strict</code><button" in failed


def facts(value: Any) -> Iterator[tuple[str, Any]]:
    """Of all dictionaries within, with the names of their keys."""
    if isinstance(value, dict):
        yield from ((name, one) for name, one in value.items() if not isinstance(one, dict | list))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from facts(one)


def shown(page: str) -> str:
    """The text of a page, with titles, in one line."""
    titles = " ".join(re.findall(r'(?:title|data-message)="([^"]*)"', page))
    return " ".join(unescape(f"{TAG.sub('', page)} {titles}").split()).lower()


def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split()).lower().rstrip(".")


@pytest.mark.parametrize(
    ("path", "of"),
    [
        ("/", "needs"),
        ("/", "dataflows"),
        ("/flows", "items"),
        ("/flows/shop", "status"),
        ("/datasets", "items"),
        ("/datasets/shop.strict", "why.held_up.error"),
        ("/datasets/shop.grand", "dataset"),
        ("/datasets/shop.spent", "dataset"),
        ("/datasets/shop.export", "dataset"),
        ("/checks", "freshness"),
        ("/plan", "plan.failed"),
    ],
)
def test_each_fact_that_matters_is_on_the_page(world: Pages, path: str, of: str) -> None:
    with world.http() as http:
        value = http.get(path, headers={"Accept": "application/json"}).json()
        page = http.get(path).text
    for key in of.split("."):
        value = value[key]
    text = shown(page)
    missing = [(name, fact) for name, fact in facts(value) if not is_shown(name, fact, text, page)]
    assert missing == []


def is_shown(name: str, fact: Any, text: str, page: str) -> bool:
    match name:
        case "state":
            return fact.replace("_", " ") in text
        case "late":
            return not fact or "overdue" in text
        case "overdue":
            return not fact or f"{fact} overdue" in text
        case "rows" | "partitions" if fact is not None:
            return f"{fact:,}" in text
        case "command":
            return f"<code>{escape(fact, quote=False)}</code>" in page
        case _ if name in WORDS and fact:
            return plain(fact) in text or plain(ticked_text(fact)) in text
        case _:
            return True


def ticked_text(text: str) -> str:
    return unescape(TAG.sub("", str(ticked(text))))
