"""Lists at the width of a phone, menus of actions, and a histogram that is a filter."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn, Tab
from tests.browser.test_each_page import check_looks
from tests.unit.ui.world import Pages

LISTS = (
    "/",
    "/activity",
    "/activity?tab=audit&machines=yes",
    "/branches",
    "/checks",
    "/datasets",
    "/flows",
    "/flows/shop",
    "/settings/tokens",
    "/sources",
)
WIDER = """() => [...document.querySelectorAll(".scroll:has(.list)")]
  .filter((one) => one.scrollWidth > one.clientWidth).length"""
BEYOND = "() => document.documentElement.scrollWidth - innerWidth"
FONT = "() => document.fonts.ready.then(() => document.fonts.check('14px Inter'))"


def test_lists_are_cards_on_a_phone(signed_in: SignIn) -> None:
    tab = Tab(signed_in("narrow").new_page())
    for path in LISTS:
        tab.page.goto(path)
        rows = tab.page.locator(".list tbody tr")
        expect(rows.first).to_be_visible()
        assert tab.page.evaluate(WIDER) == 0, path
        name, card = rows.first.locator(".name").bounding_box(), rows.first.bounding_box()
        assert name is not None
        assert card is not None
        assert name["y"] - card["y"] < 40, f"{path}: the name comes first"
    assert not tab.complaints


def test_filters_of_activity_are_behind_a_button_on_a_phone_alone(signed_in: SignIn) -> None:
    for width, is_narrow in (("wide", False), ("narrow", True)):
        page = signed_in(width).new_page()
        page.goto("/activity")
        expect(page.locator("label.fold")).to_be_visible(visible=is_narrow)
        expect(page.get_by_label("Actor")).to_be_visible(visible=not is_narrow)
    page.locator("label.fold").click()
    expect(page.get_by_label("Actor")).to_be_visible()


def test_actions_are_a_sheet_on_a_phone(signed_in: SignIn) -> None:
    page = signed_in("narrow").new_page()
    page.goto("/datasets")
    pause = page.locator("#bulk").get_by_role("button", name="Pause")
    expect(pause).to_be_hidden()
    page.get_by_role("checkbox", name="Choose shop.dear").check()
    expect(pause).to_be_in_viewport()
    page.goto("/datasets/shop.dear")
    page.get_by_label("More actions").click()
    pause = page.locator("#head").get_by_role("button", name="Pause")
    expect(pause).to_be_in_viewport()
    check_looks(page)
    page.get_by_label("More actions").focus()
    page.keyboard.press("Escape")
    expect(pause).to_be_hidden()


@pytest.mark.parametrize("has_font", [True, False])
def test_the_top_row_fits_at_each_width(signed_in: SignIn, has_font: bool) -> None:
    """A width on each side of where the row changes, also before the font has come."""
    context = signed_in()
    if not has_font:
        context.route("**/inter.woff2*", lambda route: route.abort())
    page = context.new_page()
    page.goto("/activity")
    page.reload()  # the font is in the cache
    for width in (760, 761, 1240, 1241, 1480, 1481):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(BEYOND) <= 0, width


def test_a_page_is_shared_by_keys(signed_in: SignIn, home: Pages) -> None:
    page = signed_in().new_page()
    page.goto("/datasets?kind=sql")
    page.get_by_text("Share / API").focus()
    page.keyboard.press("Enter")
    menu = page.locator(".share .card")
    expect(menu).to_contain_text(f"{home.url}/datasets?kind=sql")
    expect(menu).to_contain_text("headgate ")
    assert page.evaluate(FONT)
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    menu.get_by_role("link", name="This page as JSON").click()
    page.wait_for_url("**/datasets.json?kind=sql")


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_a_bar_of_the_histogram_chooses_its_runs(signed_in: SignIn, width: str) -> None:
    tab = Tab(signed_in(width).new_page())
    page = tab.page
    page.goto("/activity")
    every = page.locator("#runs tbody tr").count()
    bar = page.locator(".histogram a").first
    expect(bar).to_have_attribute("aria-label", "1 run, 1 failed from 2025-11-24 16:01 UTC")
    bar.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity?from=*")
    expect(page.locator("#runs tbody tr")).to_have_count(1)
    assert every > 1
    expect(page.get_by_label("From (UTC)")).not_to_have_value("")
    check_looks(page)
    assert not tab.complaints
