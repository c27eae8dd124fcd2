"""Every page of homes in trouble and of large ones, at each width and in both themes: nothing in
the console, nothing that keeps people out, nothing too wide, too small, too heavy or that jumps.

Does not belong here: whether what a page says is true (`unit/ui`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Page

from controlplane.ui import draw
from tests.browser import axe, homes
from tests.browser.conftest import WIDTHS, SignIn, Tab
from tests.browser.test_canvas import MOST_SHIFT, SHIFT
from tests.browser.test_each_page import SMALL_TEXTS, SMALLEST, TEXT_SIZES, THEMES
from tests.unit.ui.test_budget import HTML_BYTES
from tests.unit.ui.test_pages import PATHS
from tests.unit.ui.world import Pages

pytestmark = pytest.mark.soak

SIZES = {**WIDTHS, "desktop": (1440, 900)}
TABS = ("", "?tab=data", "?tab=partitions", "?tab=columns", "?tab=checks", "?tab=history")
OF_TROUBLE = (
    *PATHS,
    "/flows/risky?on=risky.wrong",
    "/flows/lost",
    "/flows/lost/blueprint",
    "/plan?flow=risky",
    "/plan?flow=lost",
    *(f"/datasets/risky.wrong{tab}" for tab in TABS),
    *(f"/datasets/risky.{name}" for name in ("after_wrong", "nowhere", "calm")),
)
OF_MANY = (
    "/",
    "/flows",
    "/flows/many",
    "/flows/many?show=all",
    "/flows/many?group=prefix&open=mart",
    "/flows/many?find=mart_0003",
    "/flows/many?on=many.strict",
    "/flows/many?on=many.mart_0003&column=k",
    "/flows/many?wave=many.rev1",
    "/flows/many/blueprint",
    "/datasets",
    "/datasets?q=mart",
    *(f"/datasets/many.mart_0003{tab}" for tab in TABS),
    "/datasets/many.orders",
    "/bulk?do=compute-again&on=many",
    "/find?q=mart",
    "/plan?flow=many",
    "/query/tables?q=mart",
    "/activity",
    "/activity/many.rev1",
    "/cost",
    "/checks",
    "/sources",
)
# Cards that ask for their own content are there: a page that is left would break off the request
LOADED = "() => !document.querySelector('[hx-trigger=load]')"
Opening: TypeAlias = Callable[[Path], AbstractContextManager[Pages]]
HOMES: Mapping[str, tuple[Opening, tuple[str, ...]]] = {
    "trouble": (homes.troubled, OF_TROUBLE),
    "300 components": (partial(homes.large, number=300), OF_MANY),
    "5000 components": (partial(homes.large, number=5_000), OF_MANY),
}
CASES = [(name, path) for name, (_, paths) in HOMES.items() for path in paths]


@pytest.fixture(scope="module")
def homes_by_name(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Pages]]:
    """Each home is made once, and stays: one of 5,000 components takes minutes. A parameter of a
    fixture of this scope would make it anew for each page."""
    with ExitStack() as ends:

        @cache
        def of(name: str) -> Pages:
            opening, _ = HOMES[name]
            return ends.enter_context(opening(tmp_path_factory.mktemp(f"home-{name}")))

        yield of


@pytest.fixture
def home(request: pytest.FixtureRequest, homes_by_name: Callable[[str], Pages]) -> Pages:
    return homes_by_name(request.param)


def check_size(page: Page, theme: str) -> None:
    """What one width and one theme may break."""
    where = (page.url, page.viewport_size, theme)
    assert not axe.violations(page, None if theme == THEMES[0] else axe.OF_COLOURS), where
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, where
    assert page.evaluate(SMALL_TEXTS) == [], where
    assert min(page.evaluate(TEXT_SIZES, "main"), default=SMALLEST) >= SMALLEST, where


@pytest.mark.parametrize(("home", "path"), CASES, indirect=["home"])
def test_a_page_can_be_looked_at(signed_in: SignIn, home: Pages, path: str) -> None:
    with home.http() as http:
        sent = gzip.compress(http.get(path).content)
        # The editor needs the whole text, however long it is
        text = http.get("/flows/many/blueprint.json").content if path == "/plan?flow=many" else b""
        assert len(sent) <= HTML_BYTES + len(gzip.compress(text))
    tab = Tab(signed_in().new_page())
    for wide, high in SIZES.values():
        tab.page.set_viewport_size({"width": wide, "height": high})
        tab.page.goto(path)
        tab.page.wait_for_function(LOADED)
        for theme in THEMES:
            tab.page.emulate_media(color_scheme=theme)
            check_size(tab.page, theme)
        assert tab.page.evaluate(SHIFT) < MOST_SHIFT, (path, wide)
    assert tab.page.locator("[data-graph] .node").count() <= draw.BOXES
    assert not tab.complaints
