"""Pages as people use them: signing in, keys, addresses that keep the state, themes, and no
JavaScript at all."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from tests.browser.conftest import SignIn, Tab
from tests.browser.test_each_page import check_looks
from tests.unit.ui.world import Pages

MOST_SHIFT = 0.1


def test_signing_in_goes_on_to_what_was_asked_for_and_signing_out_ends_it(
    browser: Browser, home: Pages
) -> None:
    context = browser.new_context(base_url=home.url)
    tab = Tab(context.new_page())
    page = tab.page
    page.goto("/datasets?q=dear")
    page.get_by_label("Token").fill(home.token)
    # Or else the stream may begin after the session has ended
    with page.expect_response("**/v1/events?*"):
        page.keyboard.press("Enter")
    page.wait_for_url("**/datasets?q=dear")
    assert not page.evaluate("() => document.cookie"), "no script sees the session"
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    page.goto("/flows")
    assert "/login" in page.url
    assert not tab.complaints
    context.close()


def test_the_graph_is_walked_by_keys(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/flows/shop")
    page.locator("#n-shop\\.orders").focus()
    page.keyboard.press("ArrowRight")
    first = page.evaluate("() => document.activeElement.dataset.name")
    assert first in ("shop.dear", "shop.strict", "shop.told")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("() => document.activeElement.dataset.name") != first
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("() => document.activeElement.dataset.name") == "shop.orders"
    page.keyboard.press("Enter")
    page.wait_for_url("**/flows/shop?on=shop.orders")
    expect(page.locator(".node.on")).to_have_attribute("data-name", "shop.orders")


def test_tab_goes_from_skip_to_all_that_can_be_done_and_is_seen(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/flows/shop")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    seen = set[str]()
    for _ in range(80):
        page.keyboard.press("Tab")
        there: str = page.evaluate(
            """() => {
              const at = document.activeElement, look = getComputedStyle(at), ring = at.querySelector?.(".ring");
              const isSeen = look.outlineStyle !== "none" || (ring && getComputedStyle(ring).strokeWidth !== "0px");
              return isSeen ? at.dataset.name ?? at.textContent.trim() : `unseen: ${at.outerHTML.slice(0, 200)}`;
            }"""
        )
        assert not there.startswith("unseen") or "<body" in there, there
        seen.add(there)
    assert {"shop.orders", "shop.grand", "…", "Datasets", "Share / API"} <= seen


def test_places_and_search_have_keys(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/flows")
    page.keyboard.press("/")
    page.keyboard.type("gd?")
    assert page.url.endswith("/flows"), "what is typed is text"
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets?q=gd%3F")
    page.keyboard.press("?")
    page.wait_for_url("**/help/keys")


def test_the_palette_finds_by_keys_alone(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette [data-hit]").first).to_be_visible()
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.keyboard.type("price")
    expect(page.locator("#palette")).to_contain_text("column price")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#palette [data-hit]").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets/shop.dear")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    assert not tab.complaints


LATE_HTMX = "const later = setTimeout; window.setTimeout = (run, ms) => later(run, ms ?? 1000);"


def test_the_palette_finds_when_its_key_is_pressed_before_htmx_starts(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.add_init_script(LATE_HTMX)
    page.goto("/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette [data-hit]").first).to_be_visible()


def test_a_phone_has_a_menu_and_news_first(signed_in: SignIn) -> None:
    page = signed_in("narrow").new_page()
    page.goto("/")
    expect(page.locator(".top nav")).to_be_hidden()
    place = page.locator("#needsh").bounding_box()
    assert place is not None
    assert place["y"] < 160
    page.get_by_text("Menu", exact=True).click()
    page.get_by_role("link", name="Datasets", exact=True).click()
    page.wait_for_url("**/datasets")


def test_rows_come_once_their_tab_is_open_and_move_nothing(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.add_init_script(
        "window.shift = 0; new PerformanceObserver((list) => { for (const e of list.getEntries())"
        " if (!e.hadRecentInput) window.shift += e.value; })"
        ".observe({type: 'layout-shift', buffered: true});"
    )
    for path, ready in (
        ("/", "#needs"),
        ("/datasets/shop.dear", "#schema"),
        ("/datasets/shop.dear?tab=data", "#records tbody tr"),
        ("/datasets/shop.dear?tab=columns", "#profile tbody tr"),
    ):
        page.goto(path)
        expect(page.locator(ready).first).to_be_visible()
        assert page.evaluate("() => window.shift") < MOST_SHIFT, path


def test_back_and_reload_keep_what_was_chosen(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/datasets")
    page.get_by_role("searchbox", name="Words").fill("tag:money")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"q=tag%3Amoney"))
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="shop.dear").click()
    page.wait_for_url("**/datasets/shop.dear")
    page.go_back()
    page.reload()
    expect(page.get_by_role("searchbox", name="Words")).to_have_value("tag:money")
    expect(rows).to_have_count(1)


def test_a_chosen_theme_stays_and_is_there_before_any_script(signed_in: SignIn) -> None:
    context = signed_in(color_scheme="light")
    page = context.new_page()
    page.goto("/")
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    answer = page.goto("/flows")
    assert answer is not None
    assert '<html lang="en" data-theme="dark">' in answer.text()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == dark


def test_a_wish_is_followed_and_taken_back(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/datasets/shop.told")
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").filter(has_text="It is paused")).to_be_visible()
    expect(page.locator("#head .state")).to_have_text("paused")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Take it back").click()
    expect(page.locator("#head .state")).to_have_text("up to date")
    page.get_by_label("More actions").click()
    page.get_by_text("Recompute").first.click()
    expect(page.get_by_text("All of shop.told is computed once more")).to_be_visible()
    assert not tab.complaints


def test_an_edit_is_planned_and_then_applied(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/plan?flow=other")
    box = page.get_by_role("textbox", name="Text of the blueprint")
    expect(page.locator(".editor")).to_be_visible()
    edited = page.locator("textarea[name=text]").input_value().replace("sum(t)", "min(t)")
    box.fill(edited)
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator("h1")).to_have_text("Plan of an edit")
    expect(page.locator(".sides .plus").last).to_contain_text("min(t)")
    check_looks(page)
    page.get_by_role("button", name="Apply this plan").click()
    page.wait_for_url("**/flows/other")
    expect(page.get_by_text("revision 2")).to_be_visible()
    assert not tab.complaints


def test_pages_work_without_scripts(signed_in: SignIn) -> None:
    page = signed_in(java_script_enabled=False).new_page()
    page.goto("/")
    page.get_by_role("link", name="Datasets", exact=True).click()
    page.get_by_role("searchbox", name="Words").fill("dear")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="shop.dear").click()
    expect(page.locator("h1")).to_have_text("dear")
    page.get_by_label("More actions").click()
    page.get_by_role("link", name="Graph", exact=True).click()
    page.locator("#n-shop\\.spent").click()
    expect(page.locator(".node.on")).to_have_attribute("data-name", "shop.spent")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
