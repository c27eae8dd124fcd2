"""A person signs in at an issuer, in a browser: there and back by links, with nothing that the
pages' policy stops."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from controlplane.ui import gate, sign_on
from tests.browser.conftest import Tab
from tests.unit.trust.world import trusting


def test_a_person_signs_in_at_the_issuer_and_out(browser: Browser, tmp_path: Path) -> None:
    with trusting(tmp_path) as place:
        place.trust("admins", "login", {"groups": ["platform"]}, ["admin"])
        place.issuer.person = {"sub": "u1", "groups": ["other"]}
        context = browser.new_context(base_url=place.url)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.goto("/settings/tokens")
        page.get_by_role("link", name="Sign in with Acme ID").click()
        expect(page.get_by_role("alert")).to_contain_text("no rule gives a role here")
        place.issuer.person = {"sub": "u1", "groups": ["platform"]}
        tab = Tab(page)
        page.goto("/settings/tokens")
        page.get_by_role("link", name="Sign in with Acme ID").click()
        expect(page).to_have_url(re.compile("/settings/tokens$"))
        expect(page.locator("main")).to_contain_text("u1@127.0.0.1")
        cookies = {one["name"]: one for one in context.cookies()}
        assert set(cookies) >= {gate.COOKIE}
        assert sign_on.COOKIE not in cookies
        assert cookies[gate.COOKIE]["httpOnly"]
        page.get_by_role("button", name="Sign out").click()
        expect(page).to_have_url(re.compile("/login$"))
        page.goto("/settings/tokens")
        expect(page).to_have_url(re.compile("/login"))
        assert tab.complaints == []
        context.close()
