"""What pages of others, and texts of users, cannot do in a browser that has a session."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import SignIn, Tab
from tests.unit.ui.world import HOSTILE, Pages

# The same site for a browser, so that cookies are sent: a program on the same machine
NEIGHBOUR = "http://127.0.0.1:9"
STRANGER = "http://evil.example"
FORM = """<form method=post action="{action}"><input name=csrf value={csrf}><button>go</button></form>"""


def stand_in(page: Page, place: str, content: str) -> None:
    """A page of somebody else's."""

    def answer(route: Route) -> None:
        route.fulfill(body=content, content_type="text/html")

    page.route(f"{place}/**", answer)


def wishes(home: Pages) -> list[str]:
    with home.services.store.read() as tx:
        return [change.action for change in tx.audit.changes("main", 1000)]


def test_no_other_page_ends_a_session_or_changes_anything(signed_in: SignIn, home: Pages) -> None:
    page = signed_in().new_page()
    page.goto("/")
    proof = page.locator("input[name=csrf]").first.get_attribute("value")
    for place in (NEIGHBOUR, STRANGER):
        stand_in(page, place, FORM.format(action=f"{home.url}/logout", csrf=proof))
        page.goto(f"{place}/")
        with page.expect_navigation() as navigation:
            page.get_by_role("button", name="go").click()
        assert navigation.value is not None
        assert navigation.value.status == 403, place
        page.goto("/flows")
        expect(page.locator("h1")).to_have_text("Dataflows")


def test_no_script_of_another_page_reaches_the_api(signed_in: SignIn, home: Pages) -> None:
    page = signed_in().new_page()
    stand_in(page, NEIGHBOUR, "<p>hello")
    page.goto(f"{NEIGHBOUR}/")
    ask = "([url, how]) => fetch(url, {credentials: 'include', ...how}).then((r) => r.text(), (e) => `refused: ${e}`)"
    told = page.evaluate(ask, [f"{home.url}/v1/branches/main/status", {}])
    assert told.startswith("refused"), "answers are not for other origins"
    before = wishes(home)
    page.evaluate(
        ask,
        [f"{home.url}/v1/branches/main/pause", {"method": "POST", "body": "{}", "mode": "no-cors"}],
    )
    assert wishes(home) == before


def test_no_page_is_shown_in_a_frame(signed_in: SignIn, home: Pages) -> None:
    page = signed_in().new_page()
    stand_in(page, NEIGHBOUR, f'<iframe src="{home.url}/"></iframe>')
    page.goto(f"{NEIGHBOUR}/", wait_until="networkidle")
    assert page.frames[1].url.startswith("chrome-error:")


def test_texts_of_users_are_texts(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    for path in ("/datasets/shop.told", "/flows/shop", "/datasets", "/flows/shop/blueprint"):
        tab.page.goto(path)
        assert HOSTILE[0] in tab.page.locator("main").inner_text(), path
        assert "Headgate" in tab.page.title()
    for path in (
        "/plan?flow=shop",
        "/branches/main...dev",
        "/checks",
        "/activity",
        "/settings/tokens",
    ):
        tab.page.goto(path)
        assert "Headgate" in tab.page.title()
        assert (
            tab.page.locator("main :is(img, script, iframe, [onerror], [onload])").count() == 0
        ), path
    for i, text in enumerate(HOSTILE):
        tab.page.goto(f"/{('datasets', 'flows')[i % 2]}?q={quote(text)}")
        expect(tab.page.locator("main input[type=search]")).to_have_value(
            text.replace("\0", "\ufffd")
        )
        assert "Headgate" in tab.page.title()
    assert not tab.complaints
