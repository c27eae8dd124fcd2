"""One browser and one home for each file of tests of pages: Debian's Chromium, the fake engine
behind a real server.

Not for the whole session: Playwright's loop is the thread's own while it lives, and other tests
could start none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import httpx2
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    expect,
    sync_playwright,
)

from tests.browser.chromium import ARGUMENTS, chromium
from tests.unit.ui.world import Pages, pages

PATIENCE_MS = 30_000  # a busy machine is to be no failure
expect.set_options(timeout=PATIENCE_MS)
WIDTHS = {"wide": (1280, 900), "narrow": (390, 844)}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Raises MissingTool where this machine can have no Chromium."""
    found = chromium(tmp_path_factory.mktemp("chromium"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.program, env=dict(found.environment), args=list(ARGUMENTS)
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with pages(tmp_path_factory.mktemp("home")) as found:
        yield found


@dataclass
class Tab:
    """A page and all that its console and its requests complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", lambda request: self._failed(request.url, request.failure))

    def _said(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _failed(self, url: str, failure: str | None) -> None:
        if "ERR_ABORTED" not in (failure or ""):  # a stream that is closed, a page that is left
            self.complaints.append(f"{url}: {failure}")


SignIn: TypeAlias = Callable[..., BrowserContext]


@pytest.fixture
def signed_in(browser: Browser, home: Pages) -> Iterator[SignIn]:
    """Makes contexts with a session of their own, as the sign-in form gives it."""
    made: list[BrowserContext] = []

    def make(width: str = "wide", **options: object) -> BrowserContext:
        wide, high = WIDTHS[width]
        context = browser.new_context(
            base_url=home.url,
            viewport={"width": wide, "height": high},
            **options,  # type: ignore[arg-type]
        )
        made.append(context)
        context.set_default_timeout(PATIENCE_MS)
        context.add_cookies(
            [{"name": "hg", "value": session_of(home), "url": home.url, "httpOnly": True}]
        )
        return context

    yield make
    for context in made:
        try:
            context.close()
        except Error:  # its browser has ended
            break


def session_of(home: Pages) -> str:
    """The cookie of a new session, as the sign-in form gives it."""
    with httpx2.Client(base_url=home.url, trust_env=False, timeout=60) as http:
        answer = http.post(
            "/login", data={"token": home.token}, headers={"Sec-Fetch-Site": "same-origin"}
        )
        assert answer.status_code == 303, answer.text
        return http.cookies["hg"]
