"""The page of queries, the editor and the menu of branches in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import SignIn, Tab
from tests.browser.test_each_page import check_looks
from tests.unit.ui.asked import ROWS, asked_home
from tests.unit.ui.world import HOSTILE, Pages

EVERY = "SELECT k, v FROM shop.totals ORDER BY k"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with asked_home(tmp_path_factory.mktemp("asked")) as (found, _):
        yield found


def write(page: Page, text: str) -> None:
    """Into the editor, as by hand."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_a_query_is_written_run_paged_and_kept(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/query")
    expect(page.get_by_role("textbox", name="SQL")).to_be_visible()
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    write(page, EVERY)
    page.keyboard.press("Control+Enter")
    rows = page.locator("#result tbody tr")
    expect(rows).to_have_count(100)
    expect(page.locator("#rowsh")).to_have_text(f"{ROWS} rows")
    assert HOSTILE[0] in rows.first.inner_text()
    assert page.locator("#result :is(img, script, [onerror])").count() == 0
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Rows 101 and on").click()
    expect(rows.first).to_contain_text("v100")
    page.get_by_role("button", name="Rows before").click()
    expect(rows.first).to_contain_text("0")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert len(download.value.path().read_text().splitlines()) == ROWS + 1
    assert "shop.totals" in page.url.partition("#q=")[2]
    write(page, "SELECT 1")
    page.keyboard.press("Control+Enter")
    expect(rows).to_have_count(1)
    page.go_back()
    expect(page.locator(".cm-content")).to_contain_text("shop.totals")
    page.reload()
    expect(page.locator(".cm-content")).to_contain_text("shop.totals")
    page.get_by_text("History", exact=True).click()
    page.get_by_role("button", name="SELECT 1", exact=True).click()
    expect(page.locator(".cm-content")).to_have_text("SELECT 1")
    assert not tab.complaints


def test_a_problem_is_underlined_and_names_are_completed(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/query?table=shop.totals")
    write(page, "SELECT nothing\nFROM shop.totls")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Line 2, column 6")
    expect(page.locator(".cm-lintRange-error")).to_have_text("shop.totls")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    write(page, "SELECT * FROM ")
    page.keyboard.type("shop.to")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("shop.totals")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert not page.evaluate("() => document.activeElement.matches('.editor')"), (
        "Tab leaves the editor"
    )
    assert not tab.complaints


def test_a_long_query_is_cancelled(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/query")
    write(page, "SELECT sum(a.range * b.range) FROM range(1000000000) a, range(100000) b")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("cancel")
    assert not tab.complaints


def test_a_query_becomes_a_plan(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/query")
    write(page, "SELECT v, count(*) AS n FROM shop.totals GROUP BY v")
    page.get_by_text("Make it a dataset").click()
    page.get_by_label("Its name").fill("shop.busy")
    page.get_by_role("button", name="Propose it").click()
    expect(page.locator("#promoh")).to_contain_text("shop.busy as a dataset")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Plan it").click()
    expect(page.locator("h1")).to_have_text("Plan of an edit")
    expect(page.get_by_role("button", name="Apply this plan")).to_be_visible()
    assert not tab.complaints


def test_a_draft_is_checked_and_completed_as_it_is_typed(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/plan?flow=shop")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    write(page, "dataflow: shop\ncomponents:\n  a: {transform: {sql: SELECT k FRM totals}}\n")
    expect(page.locator("[data-checked]")).to_contain_text("problem")
    expect(page.locator(".cm-lintRange-error").first).to_be_visible()
    page.get_by_role("button", name="Plan", exact=True).click()
    place = page.locator("[data-problem] a").first
    place.click()
    expect(page.locator(".editor")).to_be_focused()
    write(page, "dataflow: shop\ncomponents:\n  a:\n    ")
    page.keyboard.type("tra")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("transform")
    assert not tab.complaints


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    """While the page's events are handled."""
    while not holds():
        page.wait_for_timeout(20)


def test_an_editor_that_comes_late_goes_on_where_the_page_was(signed_in: SignIn) -> None:
    """It takes over the focus of the field, and goes to a problem whose link was followed
    before."""
    tab = Tab(signed_in().new_page())
    page = tab.page
    late: list[Route] = []
    page.route("**/codemirror.js*", lambda route: late.append(route))
    editor, text = page.locator(".editor"), page.locator(".cm-content")
    page.goto("/plan?flow=shop")
    wait_until(page, lambda: len(late) == 1)
    page.get_by_label("Text of the blueprint").fill(
        "dataflow: shop\ncomponents:\n  a: {transform: {sql: SELECT k "
    )
    late[0].continue_()
    expect(editor).to_be_focused()
    page.keyboard.type("FRM totals}}")
    expect(text).to_contain_text("SELECT k FRM totals}}")
    page.get_by_role("button", name="Plan", exact=True).click()
    wait_until(page, lambda: len(late) == 2)
    page.locator("[data-problem] a").first.click()
    late[1].continue_()
    expect(editor).to_be_focused()
    expect(page.locator(".cm-activeLine")).to_contain_text("SELECT k FRM totals")
    assert not tab.complaints


def test_a_query_runs_without_scripts(signed_in: SignIn) -> None:
    page = signed_in(java_script_enabled=False).new_page()
    page.goto("/query?table=shop.totals")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#rowsh")).to_have_text("100 rows")
    expect(page.get_by_label("SQL")).to_have_value("SELECT *\nFROM shop.totals\nLIMIT 100")


def test_the_branch_is_switched_and_stays(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/datasets/shop.totals")
    menu = page.get_by_label("Branch main: choose another")
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="dev", exact=True)).to_be_visible()
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="dev", exact=True)).to_be_hidden()
    menu.click()
    page.get_by_role("searchbox", name="Search branches").fill("try-7")
    expect(page.locator("[data-menu] li:visible")).to_have_text(["try-7"])
    page.get_by_role("searchbox", name="Search branches").fill("de")
    page.get_by_role("link", name="dev", exact=True).click()
    page.wait_for_url("**/datasets/shop.totals?branch=dev")
    expect(page.get_by_role("region", name="Branch", exact=True)).to_contain_text("branch dev")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("link", name="Datasets", exact=True).click()
    page.wait_for_url("**/datasets?branch=dev")
    # A request for the list that the next page cuts off is a complaint of htmx
    with page.expect_response("**part=list**"):
        page.get_by_role("searchbox", name="Words").fill("totals")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_url("**branch=dev**")
    expect(page.get_by_role("region", name="Branch", exact=True)).to_contain_text("branch dev")
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/flows?branch=dev")
    page.get_by_role("link", name="See this in main").click()
    expect(page.get_by_role("region", name="Branch", exact=True)).to_have_count(0)
    assert not tab.complaints
