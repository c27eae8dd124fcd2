"""Pages that stay open: what arrives is shown without a reload, one stream for all tabs, nothing
lost while away."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn, Tab
from tests.unit.ui.world import Pages

TABS = 8
STAYS = "() => { window.stays = true; }"


def is_same_document(page: Page) -> bool:
    return bool(page.evaluate("() => window.stays === true"))


def test_a_late_file_arrives_on_every_open_page_and_takes_nothing_away(
    signed_in: SignIn, home: Pages
) -> None:
    context = signed_in()
    dataset, flow, listed = (Tab(context.new_page()) for _ in range(3))
    for tab, path in (
        (dataset, "/datasets/shop.orders?tab=partitions"),
        (flow, "/flows/shop"),
        (listed, "/datasets"),
    ):
        tab.page.goto(path)
        tab.page.evaluate(STAYS)
    flow.page.locator("#n-shop\\.dear").focus()
    listed.page.get_by_role("searchbox", name="Words").fill("ord")
    dataset.page.get_by_text("The same as a list").click()

    home.late_file()

    expect(dataset.page.locator("#head")).to_contain_text("61 partitions")
    expect(dataset.page.locator("#partitions details")).to_have_attribute("open", "")
    expect(flow.page.locator("#n-shop\\.orders")).to_contain_text("61 parts")
    expect(flow.page.locator("#n-shop\\.dear")).to_be_focused()
    expect(listed.page.locator("#list")).to_contain_text("61")
    expect(listed.page.get_by_role("searchbox", name="Words")).to_have_value("ord")
    for tab in (dataset, flow, listed):
        assert is_same_document(tab.page)
        assert not tab.complaints


def test_who_signs_out_asks_for_nothing_more_with_the_session_that_ends(signed_in: SignIn) -> None:
    context = signed_in()
    # A browser stays where it is, as while it waits
    context.route("**/logout", lambda route: route.fulfill(status=204))
    page = context.new_page()
    page.goto("/flows/shop")
    expect(page.locator("[data-live-sign]")).to_have_text("live")
    with page.expect_event("requestfailed", lambda request: "/v1/events" in request.url):
        page.get_by_role("button", name="Sign out").click()


def test_a_page_that_is_left_reports_none_of_its_requests(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/shop")
    for _ in range(5):
        page.route("**/*part=*", lambda route: None)  # no answer comes
        with page.expect_request("**/*part=*"):
            page.locator("#list").dispatch_event("moved")
        page.locator("#list").dispatch_event("moved")  # waits for the first one
        page.goto("/datasets")
        page.unroute_all()
        page.go_back()
        expect(page.locator("[data-live-sign]")).to_have_text("live")
    assert not tab.complaints


def test_eight_tabs_share_one_stream_and_the_next_one_takes_it_over(signed_in: SignIn) -> None:
    context, streams = signed_in(), list[Page]()
    context.on(
        "request",
        lambda request: streams.append(request.frame.page) if "/v1/events" in request.url else None,
    )
    tabs = [Tab(context.new_page()) for _ in range(TABS)]
    for tab in tabs:
        tab.page.goto("/flows/shop")
    for tab in tabs:
        expect(tab.page.locator("[data-live-sign]")).to_have_text("live")
    assert streams == [tabs[0].page]
    tabs[0].page.close()
    for _ in range(50):
        if len(streams) == 2:
            break
        tabs[1].page.wait_for_timeout(100)
    assert len(streams) == 2
    assert streams[1] in [tab.page for tab in tabs[1:]]
    assert not [c for tab in tabs for c in tab.complaints]


def test_a_part_that_cannot_be_had_keeps_what_it_had_and_says_so(signed_in: SignIn) -> None:
    page = signed_in().new_page()
    page.goto("/flows/shop")
    page.route("**/flows/shop?part=list", lambda route: route.fulfill(status=503, body="later"))
    page.evaluate("() => document.getElementById('list').dispatchEvent(new CustomEvent('moved'))")
    expect(page.locator("#list.old")).to_contain_text("strict")
