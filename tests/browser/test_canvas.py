"""The graph of a dataflow and the cells of partitions in a real browser: large ones stay readable,
and all of it goes by keys."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from playwright.sync_api import Page, expect

from controlplane.operations.desired import controls
from tests.browser.conftest import WIDTHS, SignIn, Tab
from tests.browser.test_each_page import SMALLEST, TEXT_SIZES, check_looks
from tests.unit.ui.test_budget import components
from tests.unit.ui.test_ranges import DATASET, PATH, TAB, built, commit
from tests.unit.ui.world import Pages

MOST_SHIFT = 0.1  # more is seen as a jump (https://web.dev/articles/cls)
SHIFT = """() => new Promise((done) => {
  let sum = 0;
  const observer = new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) if (!shift.hadRecentInput) sum += shift.value;
  });
  observer.observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
})"""


def check_picture(page: Page, where: str) -> None:
    """Texts can be read and nothing has jumped, at both widths."""
    for wide, high in WIDTHS.values():
        page.set_viewport_size({"width": wide, "height": high})
        page.reload()
        assert min(page.evaluate(TEXT_SIZES, where)) >= SMALLEST
        assert page.evaluate(SHIFT) < MOST_SHIFT
    page.set_viewport_size({"width": 1280, "height": 900})


def many(home: Pages, number: int) -> None:
    home.world.apply(components(number), flow="many")


def test_300_boxes_can_be_read_searched_and_walked(signed_in: SignIn, home: Pages) -> None:
    many(home, 299)
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/many?show=all")
    check_picture(page, "[data-graph]")
    expect(page.locator("[data-graph] .node")).to_have_count(300)
    page.get_by_role("searchbox", name="Find").fill("mart_00")
    expect(page.locator("[data-hits]")).to_have_text("25 of 300 boxes")
    expect(page.locator(".node.hit")).to_have_count(25)
    page.locator("#graph").dispatch_event("moved")
    expect(page.locator(".node.hit")).to_have_count(25)
    page.get_by_role("searchbox", name="Find").fill("")
    chip = page.locator("[data-state]").first
    count = int(chip.locator("b").inner_text())
    chip.focus()
    page.keyboard.press("Enter")
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".node.hit")).to_have_count(count)
    page.get_by_role("searchbox", name="Find").fill("mart_00")
    page.keyboard.press("Enter")
    page.wait_for_url("**/flows/many?*find=mart_00*")
    expect(page.locator("#listh")).to_have_text("25 datasets found")
    assert not tab.complaints


def test_groups_are_opened_and_closed_by_keys(signed_in: SignIn, home: Pages) -> None:
    many(home, 100)
    page = signed_in().new_page()
    page.goto("/flows/many")
    page.get_by_role("combobox", name="Group by").select_option("prefix of the name")
    page.get_by_role("button", name="Show").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/flows/many?*group=prefix*")
    expect(page.locator(".node.group")).to_have_count(4)
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator("#n-mart").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**&open=mart*")
    expect(page.locator(".node.group")).to_have_count(3)
    expect(page.locator("#n-many\\.mart_0003")).to_be_visible()
    page.get_by_role("link", name="close mart").click()
    expect(page.locator(".node.group")).to_have_count(4)


def test_the_small_map_and_zoom_move_the_window(signed_in: SignIn, home: Pages) -> None:
    many(home, 299)
    page = signed_in().new_page()
    page.goto("/flows/many?show=all")
    canvas, small_map = (page.locator(name).bounding_box() for name in (".scroller", "[data-map]"))
    assert canvas is not None
    assert small_map is not None
    assert small_map["y"] >= canvas["y"] + canvas["height"], "it would cover boxes"
    window = page.locator("[data-window]")
    before = float(window.get_attribute("x") or 0)
    box = page.locator("[data-map]").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.5)
    expect(window).not_to_have_attribute("x", str(before))
    wide = float(window.get_attribute("width") or 0)
    page.get_by_role("button", name="Zoom in").click()
    assert float(window.get_attribute("width") or 0) < wide
    for _ in range(9):
        page.get_by_role("button", name="Zoom out").click()
    assert min(page.evaluate(TEXT_SIZES, "[data-graph]")) >= SMALLEST


def test_a_card_says_why_and_a_double_click_opens(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/shop")
    page.locator("#n-shop\\.strict").hover()
    expect(page.locator(".hover")).to_contain_text("an expectation fails")
    page.keyboard.press("Escape")
    expect(page.locator(".hover")).to_have_count(0)
    page.locator("#n-shop\\.after_strict").focus()
    expect(page.locator(".hover")).to_contain_text("shop.strict has failed")
    page.locator("#n-shop\\.dear").dblclick()
    page.wait_for_url("**/datasets/shop.dear")
    assert not tab.complaints


def test_a_click_shows_its_choice_before_the_page_follows(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/flows/shop")
    page.route("**/flows/shop?on=*", lambda route: None)  # no answer comes
    # Read with the click: Playwright waits for a page that has begun to follow
    classes = page.locator("#n-shop\\.dear").evaluate(
        "box => (box.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, detail: 1})),"
        " [...box.classList])"
    )
    assert "on" in classes
    page.unroute_all()


def test_the_lineage_of_a_column_is_drawn(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/shop?on=shop.spent")
    page.get_by_role("link", name="Lineage of a column").click()
    page.get_by_role("combobox", name="Lineage of").select_option("total")
    page.get_by_role("button", name="Draw").click()
    page.wait_for_url("**/flows/shop?on=shop.spent&column=total")
    badges = {
        name: page.locator(f"#n-shop\\.{name} .badge text").text_content()
        for name in ("orders", "dear", "spent", "grand")
    }
    assert badges == {"orders": "v", "dear": "price", "spent": "total", "grand": "t"}
    expect(page.locator("#n-shop\\.told")).to_have_class(re.compile(r"\bdim\b"))
    expect(page.locator(".link.lit")).to_have_count(3)
    assert not tab.complaints


def test_a_range_of_weeks_is_chosen_by_pointer_and_by_keys(signed_in: SignIn, home: Pages) -> None:
    controls.pause(home.world.ctx, "main", DATASET)
    days = [f"c0={date(2019, 1, 1) + timedelta(days=n)}" for n in range(2_000)]
    commit(home.world, built(home.world, days), len(days))
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto(TAB)
    check_picture(page, "[data-axis]")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    cell = page.locator("[data-axis] a")
    after, last = page.get_by_label("After the key"), page.get_by_label("up to the key")
    cell.nth(3).hover()
    expect(page.locator(".hover")).to_contain_text("7 partitions up to c0=2019-01-28")
    page.mouse.down()
    cell.nth(5).hover()
    page.mouse.up()
    assert (after.input_value(), last.input_value()) == ("c0=2019-01-21", "c0=2019-02-11")
    assert page.url.endswith(TAB), "a drag opens nothing"
    cell.nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    assert (after.input_value(), last.input_value()) == ("c0=2019-01-07", "c0=2020-01-21")
    cell.nth(9).click(modifiers=["Shift"])
    page.get_by_role("button", name="Look into").click()
    page.wait_for_url(f"**{PATH}?tab=partitions&from=*")
    expect(page.locator("#partitions .crumbs")).to_contain_text(": 63 partitions")
    assert not tab.complaints
    controls.resume(home.world.ctx, "main", DATASET)


@pytest.mark.soak
def test_5000_components_are_found_by_search(signed_in: SignIn, home: Pages) -> None:
    many(home, 5_000)
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/many")
    check_picture(page, "[data-graph]")
    assert page.locator("[data-graph] .node").count() <= 300
    page.goto("/flows/many?find=mart_4999")
    expect(page.locator("#listh")).to_have_text("1 dataset found")
    expect(page.locator("#n-many\\.mart_4999")).to_be_visible()
    assert not tab.complaints
