"""What stands around the editor, in a real browser: tables to insert, charts, cells, kept queries;
where a plan opens its text, links with a draft, and branches of it."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, expect

from controlplane.operations.desired import tokens
from tests.browser.conftest import SignIn, Tab
from tests.browser.test_each_page import check_looks
from tests.browser.test_query import EVERY, write
from tests.unit.queries.world import World
from tests.unit.ui.asked import ROWS, asked_home
from tests.unit.ui.world import Pages

SHIFTS = """() => { window.shifted = 0; new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifted += shift.value;
}).observe({type: "layout-shift", buffered: true}); }"""
MOST_SHIFTED = 0.1
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pages, World]]:
    with asked_home(tmp_path_factory.mktemp("asked")) as found:
        yield found


@pytest.fixture(scope="module")
def home(asked: tuple[Pages, World]) -> Pages:
    return asked[0]


def opened(signed_in: SignIn, path: str) -> Tab:
    context = signed_in(permissions=CLIPBOARD)
    context.add_init_script(f"({SHIFTS})()")
    tab = Tab(context.new_page())
    tab.page.goto(path)
    return tab


def wide(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})


def copied(page: Page) -> str:
    text: str = page.evaluate("() => navigator.clipboard.readText()")
    return text


def test_a_table_is_shown_at_once_and_others_are_inserted_by_keyboard(signed_in: SignIn) -> None:
    tab = opened(signed_in, "/query?table=shop.totals")
    page = tab.page
    expect(page.locator("#rowsh")).to_have_text("100 rows")
    expect(page.locator("[data-tree] summary")).to_have_text("shop.totals")
    assert page.evaluate("() => window.shifted") < MOST_SHIFTED
    page.go_back()
    page.go_forward()
    expect(page.locator("[data-tree] summary")).to_have_text("shop.totals")  # no request is cut off
    page.reload()
    expect(page.locator(".cm-content")).to_contain_text("shop.totals")
    expect(page.locator("#rowsh")).to_have_count(0)  # a reload shows the text, and runs nothing
    write(page, "SELECT ")
    field = page.get_by_role("searchbox", name="Filter tables and columns")
    field.fill("nothing like that")
    expect(page.locator("#tables")).to_contain_text("No table or column has these words")
    field.fill("tot")
    expect(page.locator("[data-tree] summary")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Insert k, long")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_have_text("SELECT k")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[data-tree] summary")).to_be_focused()
    expect(page.get_by_role("button", name="Insert k, long")).to_be_hidden()
    page.get_by_role("link", name="Insert shop.totals").click()
    expect(page.locator(".cm-content")).to_have_text("SELECT k shop.totals")
    expect(page.locator(".editor")).to_be_focused()
    assert not tab.complaints


def test_a_result_is_sorted_drawn_counted_and_copied(signed_in: SignIn) -> None:
    tab = opened(signed_in, "/query")
    page = tab.page
    write(page, EVERY)
    page.keyboard.press("Control+Enter")
    rows = page.locator("#view tbody tr")
    expect(rows).to_have_count(100)
    heading = page.get_by_role("columnheader", name="k")
    page.get_by_role("button", name="k", exact=True).click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="k", exact=True).click()
    expect(rows.first.locator("td").nth(1)).to_have_text(str(ROWS - 1))
    expect(heading).to_have_attribute("aria-sort", "descending")
    page.get_by_role("region", name="Rows, scrollable").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Control+c"):
        page.keyboard.press(key)
    expect(page.locator("[data-copied]")).to_have_text(f"Copied v{ROWS - 2}")
    assert copied(page) == f"v{ROWS - 2}"
    page.get_by_role("link", name="Chart", exact=True).click()  # one click
    expect(page.get_by_role("img", name=f"bar chart of k by v, {ROWS} points")).to_be_visible()
    check_looks(page)
    wide(page)
    page.get_by_role("radio", name="line").check()  # two
    expect(page.get_by_role("img", name=f"line chart of k by v, {ROWS} points")).to_be_visible()
    page.get_by_role("link", name="Profile", exact=True).click()
    expect(page.locator("#other-view")).to_contain_text("Most common")
    expect(page.locator("#view")).to_be_hidden()
    check_looks(page)
    wide(page)
    page.get_by_role("link", name="Table", exact=True).click()
    expect(rows.first).to_be_visible()
    expect(page.locator("#other-view")).to_be_hidden()
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#rowsh")).to_have_text("Plan of the query")
    check_looks(page)
    assert not tab.complaints


def test_kept_queries_are_of_one_user_and_history_ends_with_the_session(
    signed_in: SignIn, asked: tuple[Pages, World]
) -> None:
    tab = opened(signed_in, "/query")
    page = tab.page
    write(page, "SELECT 'a secret'")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#rowsh")).to_have_text("1 row")
    page.get_by_text("Saved queries", exact=True).click()
    page.get_by_label("Name", exact=True).fill("mine")
    page.keyboard.press("Enter")
    expect(page.locator("[data-kept]")).to_have_text("Saved mine in this browser.")
    check_looks(page)
    wide(page)
    page.goto("/query")
    page.get_by_text("Saved queries", exact=True).click()
    page.get_by_role("button", name="mine", exact=True).click()
    expect(page.locator(".cm-content")).to_have_text("SELECT 'a secret'")

    pages, world = asked
    text, _ = tokens.create(world.ctx, "bea", ("admin",))
    sign_in_as(page, pages.url, text)
    page.goto("/query")
    expect(page.locator("[data-saved] summary")).to_be_visible()
    assert page.locator("[data-saved] li, [data-history] li").count() == 0

    sign_in_as(page, pages.url, pages.token)
    page.goto("/query")
    page.get_by_text("History", exact=True).click()
    expect(page.get_by_role("button", name="SELECT 'a secret'", exact=True)).to_be_visible()
    other = page.context.new_page()
    other.goto("/query")
    expect(other.locator("[data-history] li")).to_have_count(1)
    page.get_by_role("button", name="Sign out ada").click()
    page.wait_for_url("**/login**")
    expect(other.locator("[data-history] li")).to_have_count(0)
    sign_in_as(page, pages.url, pages.token)
    page.goto("/query")
    page.get_by_text("Saved queries", exact=True).click()
    expect(page.locator("[data-history] li")).to_have_count(0)
    page.get_by_role("button", name="Delete mine").click()
    expect(page.locator("[data-saved] li")).to_have_count(0)
    assert "a secret" not in page.evaluate("() => JSON.stringify(localStorage)")
    assert not tab.complaints


FULL = """() => {
  const rows = Array.from({ length: 100 }, (_, number) => ({ name: `q${number}`, sql: "SELECT 1" }));
  localStorage.setItem("headgate saved default/ada", JSON.stringify(rows));
}"""
KEPT_BYTES = """() => Object.entries(localStorage).filter(([key]) => key.startsWith("headgate history "))
  .map(([, text]) => new Blob([text]).size).reduce((sum, size) => sum + size, 0)"""


def test_kept_queries_have_a_bound_in_bytes_and_none_is_dropped(signed_in: SignIn) -> None:
    tab = opened(signed_in, "/query")
    page = tab.page
    page.evaluate(FULL)
    page.reload()
    for letter in "üäö":
        write(page, f"SELECT '{letter * 35_000}'")
        page.keyboard.press("Control+Enter")
        expect(page.locator("[data-history] li").first).to_contain_text(f"SELECT '{letter}")
    expect(page.locator("[data-history] li")).to_have_count(2)
    assert 200_000 < page.evaluate(KEPT_BYTES) <= 400_000
    page.get_by_text("Saved queries", exact=True).click()
    page.get_by_label("Name", exact=True).fill("one more")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("[data-kept]")).to_contain_text("Not saved: there is no room")
    expect(page.locator("[data-saved] li")).to_have_count(100)


def sign_in_as(page: Page, url: str, token: str) -> None:
    own_site = {"Sec-Fetch-Site": "same-origin"}
    with httpx2.Client(base_url=url, trust_env=False, timeout=60) as http:
        http.post("/login", data={"token": token}, headers=own_site)
        session = http.cookies["hg"]
    page.context.add_cookies([{"name": "hg", "value": session, "url": url, "httpOnly": True}])


LONG = "dataflow: shop\ncomponents:\n" + "".join(
    f"  c{number}: {{transform: {{sql: SELECT k FROM totals WHERE k > {number}}}}}\n"
    for number in range(80)
)


FIRST_LINES = """() => {
  const shadow = document.querySelector(".editor")?.shadowRoot;
  const scroller = shadow?.querySelector(".cm-scroller");
  if (!scroller) return "";
  const top = scroller.getBoundingClientRect().top + 12;
  const lines = [...shadow.querySelectorAll(".cm-line")];
  return lines.filter((line) => line.getBoundingClientRect().bottom > top).slice(0, 3)
    .map((line) => line.textContent).join("\\n");
}"""


def test_a_plan_opens_its_text_where_it_was_edited_and_goes_to_others(signed_in: SignIn) -> None:
    tab = opened(signed_in, "/plan?flow=shop")
    page = tab.page
    stored = page.locator("textarea[name=text]").input_value()
    more = LONG.partition("components:\n")[2]
    write(page, stored + more)
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator("h1")).to_have_text("Plan of an edit")
    expect(page.locator(".cm-content")).to_be_visible()
    page.wait_for_function(f"() => ({FIRST_LINES})().includes('c0:')")
    box = page.locator(".editor").bounding_box()
    assert box is not None
    assert box["height"] < 900, "the text scrolls in its own frame"
    page.locator("[id='n-shop.c41']").click()
    page.wait_for_function(f"() => ({FIRST_LINES})().includes('c41:')")
    assert page.evaluate("() => window.shifted") < MOST_SHIFTED
    assert not tab.complaints


def test_a_draft_goes_by_link_and_becomes_a_branch(signed_in: SignIn) -> None:
    tab = opened(signed_in, "/plan?flow=shop")
    page = tab.page
    text = page.locator("textarea[name=text]").input_value()
    write(page, text.replace("least: 3", "least: 30") + "# ü\n")
    page.get_by_role("button", name="Share link").click()
    expect(page.locator("[data-share]")).to_have_text("Link copied")
    link = copied(page)
    assert "least" not in link
    other = Tab(page.context.new_page())
    other.page.goto(link)
    expect(other.page.locator(".cm-content")).to_contain_text("least: 30}}# ü")
    expect(other.page.locator("[data-checked]")).to_contain_text("The text is of a link")
    other.page.get_by_role("button", name="Plan", exact=True).click()
    expect(other.page.locator("h1")).to_have_text("Plan of an edit")
    expect(other.page.locator(".sides mark")).to_have_text("0")
    check_looks(other.page)
    wide(other.page)
    other.page.get_by_text("Save as branch", exact=True).click()
    other.page.get_by_label("Name of the branch").fill("try-30")
    other.page.get_by_role("button", name="Create it with this text").click()
    other.page.wait_for_url("**/branches/main...try-30")
    expect(other.page.locator("main")).to_contain_text("shop.some")
    assert not tab.complaints
    assert not other.complaints


def test_a_short_link_of_a_huge_text_is_not_unpacked(signed_in: SignIn) -> None:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(b"#" * 20_000_000) + packer.flush()
    link = base64.urlsafe_b64encode(packed).decode()
    assert len(link) < 60_000
    tab = opened(signed_in, f"/plan?flow=shop#text={link}")
    expect(tab.page.locator(".cm-content")).to_contain_text("dataflow: shop")
    assert tab.page.locator("textarea[name=text]").input_value().startswith("dataflow: shop")
    assert not tab.complaints
