"""Pages of much: what happened, ranges of keys, searching as one types, and one wish for
several."""

from __future__ import annotations

import re
from dataclasses import replace

from playwright.sync_api import Page, expect

from controlplane.core import tree
from controlplane.core.tree import Entry
from controlplane.operations.desired import controls
from dataplane.contract.identity import Content
from tests.browser.conftest import SignIn, Tab
from tests.browser.test_each_page import check_looks
from tests.browser.test_live import STAYS, is_same_document
from tests.unit.ui.world import Pages

MANY = 20_000


def test_a_late_file_is_seen_in_the_waves_of_open_pages(signed_in: SignIn, home: Pages) -> None:
    context = signed_in()
    flow, start = Tab(context.new_page()), Tab(context.new_page())
    flow.page.goto("/flows/shop")
    start.page.goto("/")
    for tab in (flow, start):
        expect(tab.page.locator("#waves li").first).not_to_contain_text("2025-03-02")
        expect(tab.page.locator("[data-live-sign]")).to_have_text("live")
        tab.page.evaluate(STAYS)

    home.late_file()

    for tab in (flow, start):
        expect(tab.page.locator("#waves li").first).to_contain_text(
            "2025-03-02.csv arrived in orders"
        )
        assert is_same_document(tab.page)
    start.page.locator("#waves a").first.click()
    start.page.wait_for_url("**/flows/shop?wave=shop.orders*")
    expect(start.page.locator("#n-shop\\.orders")).to_contain_text("gen 2")
    assert not [*flow.complaints, *start.complaints]


def test_a_wave_is_looked_at_by_its_address(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/shop")
    page.locator("#waves a").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/flows/shop?wave=shop.rev1")
    expect(page.locator("#n-shop\\.strict")).to_have_class(re.compile(r"\bdim\b"))
    page.locator("#n-shop\\.dear").click()
    page.wait_for_url("**/flows/shop?wave=shop.rev1&on=shop.dear")
    page.go_back()
    page.reload()
    expect(page.locator("#waves a[aria-current]")).to_have_count(1)
    expect(page.locator("#n-shop\\.dear .badge")).to_have_text("gen 1")
    page.get_by_role("link", name="Back to now").click()
    expect(page.locator(".badge:not(.b-overdue)")).to_have_count(0)
    assert not tab.complaints


def filled(home: Pages) -> None:
    """A dataset of many partitions, which nobody computes."""
    controls.pause(home.world.ctx, "main", "shop.told")
    with home.world.store.begin() as tx:
        state = tx.states.newest("main", ["shop.told"])["shop.told"]
        some = next(iter(tree.scan(tx.nodes, state.root))).fragment
        root = tree.build(
            tx.nodes, (Entry(f"k{n:06}", some, Content(n % 99, 1, 1)) for n in range(MANY))
        )
        seq, generation = state.seq + 1, state.generation + 1
        made = replace(
            state, root=root, seq=seq, generation=generation, partitions=MANY, rows=MANY * 49
        )
        tx.states.commit(made, state.seq)


def test_one_looks_into_ranges_down_to_a_key_and_goes_back(signed_in: SignIn, home: Pages) -> None:
    filled(home)
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/datasets/shop.told?tab=partitions")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator(".heat[role=group] a").nth(3).click()
    page.wait_for_url(re.compile(r"\?from=k\d+&to=k\d+$"))
    within = page.url
    expect(page.locator("#partitions .crumbs")).to_contain_text("all 20,000")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("region", name="List of ranges").get_by_role("link").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets/shop.told/partition?key=k*")
    page.go_back()
    assert page.url == within
    page.reload()
    expect(page.locator("#partitions .crumbs")).to_contain_text("all 20,000")
    page.locator("#partitions").get_by_role("link", name="Show all").click()
    expect(page.locator("#partitions .crumbs")).to_have_count(0)
    assert not tab.complaints
    controls.resume(home.world.ctx, "main", "shop.told")


def found(page: Page) -> list[str]:
    return page.locator("#list tbody tr td:nth-child(2)").all_inner_texts()


def test_the_list_follows_what_is_typed(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/datasets?kind=sql")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Words")).to_be_focused()
    page.evaluate(STAYS)
    page.keyboard.type("price")
    expect(page.locator("#listh")).to_have_text(re.compile("^1 of"))
    assert found(page) == ["shop.dear"]
    expect(page.locator("#list mark").first).to_have_text("price")
    expect(page).to_have_url(re.compile(r"/datasets\?q=price&kind=sql$"))
    assert is_same_document(page)
    expect(page.get_by_role("searchbox", name="Words")).to_be_focused()
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.reload()
    assert found(page) == ["shop.dear"]
    page.get_by_role("group", name="Kind").get_by_role("link", name="sql").click()
    page.wait_for_url("**/datasets?q=price")
    page.go_back()
    expect(page).to_have_url(re.compile(r"kind=sql$"))
    page.get_by_role("searchbox", name="Words").fill("")
    expect(page.locator("#list tbody tr")).not_to_have_count(1)
    assert not tab.complaints


def test_several_are_paused_by_keys_and_go_on_again(signed_in: SignIn) -> None:
    tab = Tab(signed_in().new_page())
    page = tab.page
    page.goto("/flows/shop")
    for name in ("dear", "spent"):
        page.get_by_role("checkbox", name=f"Choose {name}").focus()
        page.keyboard.press("Space")
    expect(page.locator("[data-chosen]")).to_have_text("2 chosen:")
    page.locator("#list").dispatch_event("moved")
    expect(page.get_by_role("checkbox", name="Choose dear")).to_be_checked()
    page.locator("#bulk").get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Pause: what would happen")
    check_looks(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.reload()
    expect(page.get_by_role("button", name="Pause 2")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/flows/shop")
    expect(
        page.get_by_role("status").filter(has_text="All that was chosen is paused")
    ).to_be_visible()
    expect(page.locator("#list .s-paused")).to_have_count(2)
    page.get_by_role("checkbox", name="Choose all of it").check()
    expect(page.locator("[data-chosen]")).to_have_text("8 chosen:")
    page.locator("#bulk").get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Resume 8").click()
    expect(page.locator("#list .s-paused")).to_have_count(0)
    assert not tab.complaints


def test_several_are_chosen_without_scripts(signed_in: SignIn) -> None:
    page = signed_in(java_script_enabled=False).new_page()
    page.goto("/flows")
    page.get_by_role("checkbox", name="Choose other").check()
    page.locator("#bulk").get_by_role("button", name="Recompute").click()
    expect(page.locator("h1")).to_have_text("Recompute: what would happen")
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url("**/flows")
