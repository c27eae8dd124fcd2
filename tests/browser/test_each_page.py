"""Each page in a real browser: nothing in the console, nothing that keeps people out, nothing that
is too wide or much.

Does not belong here: what happens on pages (`test_use`, `test_live`, `test_guard`).
"""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import axe
from tests.browser.conftest import WIDTHS, SignIn, Tab
from tests.slices import sliced
from tests.unit.ui.test_pages import PATHS
from tests.unit.ui.world import Pages

# Each as another one
ALIKE = {
    "/activity?flow=shop",
    "/datasets?sort=updated",
    "/plan",
    "/datasets/shop.grand/partition?key=",
}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SMALLEST = 11  # pixels of a text
# Of pictures as they are on the screen: with the size of their picture
TEXT_SIZES = """(where) => [...document.querySelectorAll(`${where} text`)].filter(
  (text) => text.checkVisibility()).map((text) =>
  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""
# Outside of pictures
SMALL_TEXTS = """() => [...document.body.querySelectorAll("*")].filter((one) =>
  !one.closest("svg") && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
  && one.checkVisibility() && parseFloat(getComputedStyle(one).fontSize) < 11)
  .map((one) => one.outerHTML.slice(0, 99))"""
REQUESTS = 8  # the page, style, font, two scripts, two pictures, and one stream of events
OF_AN_EDITOR = 4  # CodeMirror and two scripts, and a style of their own
OF_A_QUERY = OF_AN_EDITOR + 1  # tables, and queries that are kept


def check_looks(page: Page) -> None:
    """At both widths and in both themes."""
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        for name, (wide, high) in WIDTHS.items():
            page.set_viewport_size({"width": wide, "height": high})
            rules = None if theme == THEMES[0] else axe.OF_COLOURS
            assert not axe.violations(page, rules), (page.url, theme, name)
            too_wide = page.evaluate(
                "() => document.documentElement.scrollWidth - window.innerWidth"
            )
            assert too_wide <= 0, f"{page.url} scrolls sideways by {too_wide} at {wide}"
            sizes = page.evaluate(TEXT_SIZES, ".mini")
            assert min(sizes, default=SMALLEST) >= SMALLEST, (page.url, name)
    assert page.evaluate(SMALL_TEXTS) == [], page.url


# What a page says and asks is tested of all pages in unit/ui, at each commit.
@pytest.mark.parametrize("path", sliced([path for path in PATHS if path not in ALIKE], 2))
def test_a_page_is_silent_and_open_to_everybody(signed_in: SignIn, path: str) -> None:
    tab, asked = Tab(signed_in().new_page()), list[str]()
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.goto(path)
    tab.page.wait_for_function(
        "() => document.querySelector('[data-live-sign]').textContent.trim() === 'live'"
    )
    check_looks(tab.page)
    assert not tab.complaints
    # What a page asks for once somebody sees the place
    parts = [url for url in asked if "part=" in url or url.endswith("/rows")]
    most_parts = 2 if path.startswith("/query?table=") else 1  # its tables, and its rows
    assert len(parts) <= most_parts, parts
    own = {"/plan": OF_AN_EDITOR, "/query": OF_A_QUERY}.get(path.partition("?")[0], 0)
    own += path.startswith("/query/")  # a style of its own
    # An address that a script writes has the icon fetched once more, from the browser's cache
    assert len({*asked} - {*parts}) <= REQUESTS + own, asked


def test_so_are_those_of_a_run_and_an_attempt(signed_in: SignIn, home: Pages) -> None:
    tab = Tab(signed_in().new_page())
    with home.http() as http:
        run = http.get("/activity.json").json()["runs"][-1]["id"]
        attempt = http.get(f"/activity/{run}.json").json()["attempts"][0]["attempt"]
    for path in (f"/activity/{run}", f"/attempts/{attempt}"):
        tab.page.goto(path)
        check_looks(tab.page)
    assert not tab.complaints


@pytest.mark.parametrize(
    ("path", "status"), [("/login", 200), ("/open?key=gone", 410), ("/no/such/page", 404)]
)
def test_so_are_those_that_anybody_may_see(
    browser: Browser, home: Pages, path: str, status: int
) -> None:
    page = browser.new_page(base_url=home.url)
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == status
    check_looks(page)
    page.close()


def test_the_page_of_a_problem_is_one_of_ours(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/datasets/shop.nothing")
    assert page.locator("h1").inner_text() == "There is no such page"
    check_looks(page)
