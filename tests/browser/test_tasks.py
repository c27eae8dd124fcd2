"""Thirty tasks of a user, each from the home page with at most three clicks, in a real browser.

A name that is typed into the palette (Ctrl+K) and Enter count as one click. A text that is typed
into a field costs nothing; what sends it costs a click. Does not belong here: how pages look and
what keys do (`test_each_page`, `test_use`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeAlias

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from controlplane.operations.desired import blueprints
from tests.browser.conftest import PATIENCE_MS, WIDTHS, session_of
from tests.property import engine
from tests.unit.ui.world import Pages, pages

MOST_CLICKS = 3
LATE = """
dataflow: daily
components:
  report: {transform: {sql: "SELECT sum(t) AS t FROM shop.grand"}, freshness: 30s, owner: bea}
"""
NIGHT = """
dataflow: night
components:
  visits:
    read: {connector: files, path: PLACE/*.csv, format: csv, schema: "k BIGINT, v BIGINT"}
"""


class User:
    """A user who begins at the home page, and the clicks so far."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0
        page.goto("/")

    def click(self, target: Locator) -> None:
        self.clicks += 1
        target.click()

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True).first)

    def button(self, name: str) -> None:
        self.click(self.page.get_by_role("button", name=name, exact=True).first)

    def palette(self, words: str, first_hit: str) -> None:
        """Type the words and press Enter, which opens the first hit."""
        self.clicks += 1
        self.page.keyboard.press("Control+k")
        self.page.keyboard.type(words)
        hits = self.page.locator("#palette [data-hit]")
        expect(hits.first).to_contain_text(first_hit)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#palette")).to_be_hidden()

    def sees(self, *texts: str | re.Pattern[str], where: str = "main") -> None:
        for text in texts:
            expect(self.page.locator(where).first).to_contain_text(text)


UserTask: TypeAlias = Callable[[User], None]


# --- problems


def see_what_needs_attention(user: User) -> None:
    user.sees("2 problems, blocking 1 dataset; 2 datasets overdue", where="h1")


def see_which_datasets_a_failure_blocks(user: User) -> None:
    user.click(user.page.locator("#needs li", has_text="shop.strict").locator("summary"))
    expect(user.page.get_by_role("link", name="shop.after_strict")).to_be_visible()


def find_the_owner_of_the_overdue_dataset(user: User) -> None:
    user.sees(re.compile(r"daily\.report.*owner bea", re.DOTALL), where="#needs")


def read_the_rows_that_fail_a_check(user: User) -> None:
    user.click(
        user.page.locator("#needs li", has_text="shop.strict").get_by_role(
            "link", name="Failing rows"
        )
    )
    user.sees("54 of 292 rows", "2025-01-06.csv", where="#checks")


def read_the_log_of_what_failed_last_night(user: User) -> None:
    user.click(
        user.page.locator("#needs li", has_text="night.visits").get_by_role("link", name="Log")
    )
    user.sees("the disk is gone", "Log")


def see_which_line_of_the_blueprint_failed(user: User) -> None:
    user.link("shop.strict")
    user.sees("shop.yaml:18", where="#why")


def list_all_checks_that_fail(user: User) -> None:
    user.link("Checks")
    user.sees("shop.strict", "54 of 292", where="#list")


# --- causes


def see_why_a_number_changed(user: User) -> None:
    user.palette("grand", "shop.grand")
    user.sees("orders/2025-03-02.csv is new", where="#why")


def see_which_partitions_the_last_change_touched(user: User) -> None:
    user.palette("grand", "shop.grand")
    user.link("What changed")
    user.sees("Generation 1 to 2", "Partitions that differ")


def see_what_a_late_file_reached(user: User) -> None:
    user.click(user.page.locator("#waves a", has_text="2025-03-02.csv arrived"))
    user.sees("What it changed, in order", "shop.grand", where="#graph")


def see_what_a_run_waited_for(user: User) -> None:
    user.link("Activity")
    user.click(user.page.locator("#runs tr", has_text="shop.orders changed").get_by_role("link"))
    user.sees("Critical path", where="#timeline")


def read_the_log_of_an_attempt(user: User) -> None:
    user.link("Activity")
    user.click(user.page.locator("#runs tr", has_text="shop.orders changed").get_by_role("link"))
    user.click(user.page.locator("#timeline a .work").first)
    user.sees("Stats", "Log")


def see_what_work_cost(user: User) -> None:
    user.palette("cost", "Cost")
    user.sees("Owners", "bea")


def see_who_asked_for_what(user: User) -> None:
    user.link("Activity")
    user.link("Audit log")
    user.click(user.page.get_by_role("link", name="more by processes"))
    user.sees("created branch dev", where="#audit")


def see_when_a_dataset_was_updated(user: User) -> None:
    user.palette("dear", "shop.dear")
    expect(user.page.locator("#head dl div", has_text="Updated").locator("time")).to_be_visible()


# --- contents


def find_the_dataset_that_changed_last(user: User) -> None:
    user.link("Datasets")
    user.link("Updated")
    user.sees("daily.report", where="#list tbody tr")


def find_datasets_by_a_tag(user: User) -> None:
    user.link("Datasets")
    user.click(user.page.get_by_role("group", name="Tag").get_by_role("link", name="money"))
    expect(user.page.locator("#list tbody tr")).to_have_count(1)


def see_where_a_column_comes_from(user: User) -> None:
    user.palette("total", "shop.spent")
    user.click(user.page.locator("#schema").get_by_role("link", name="total"))
    user.sees(re.compile(r"spent\.total from dear\.price"), where="#graph")


def see_who_reads_a_dataset(user: User) -> None:
    user.palette("dear", "shop.dear")
    user.sees(re.compile(r"Is read by.*shop\.spent", re.DOTALL), where="#near")


def read_the_first_rows(user: User) -> None:
    user.palette("spent", "shop.spent")
    user.link("Data")
    expect(user.page.locator("#records tbody tr")).to_have_count(9)


def read_the_code(user: User) -> None:
    user.palette("dear", "shop.dear")
    user.link("Code")
    user.sees("WHERE v > 20", where="#code")


def open_the_partition_of_a_day(user: User) -> None:
    user.palette("orders", "orders")
    user.link("Partitions")
    user.click(user.page.get_by_role("link", name=re.compile(r"2025-01-03")).first)
    user.sees("3 rows", "file:///")


def see_when_a_source_was_checked(user: User) -> None:
    user.link("Sources")
    expect(
        user.page.locator("#list tr", has_text="shop.orders").locator("time").first
    ).to_be_visible()


def learn_how_to_read_a_dataset_in_python(user: User) -> None:
    user.palette("dear", "shop.dear")
    user.sees('["shop.dear"].to_pandas()', where="#use")


# --- plans


def see_what_an_edit_would_cost(user: User) -> None:
    user.palette("shop", "shop")
    user.link("Plan an edit")
    text = user.page.locator("textarea[name=text]").input_value()
    expect(user.page.locator(".editor")).to_be_visible()  # it takes the place of the field
    user.page.get_by_role("textbox", name="Text of the blueprint").press("Control+a")
    user.page.keyboard.insert_text(text.replace("v > 20", "v > 21"))
    user.button("Plan")
    user.sees("Plan of an edit", "61 computed")


def see_what_a_branch_would_bring(user: User) -> None:
    user.link("Branches")
    user.link("Compare with main")
    user.sees("Merge dev into main", "other.monthly")


def see_what_going_back_a_generation_means(user: User) -> None:
    user.palette("dear", "shop.dear")
    user.link("History")
    user.link("go back to it, to generation 1")
    user.sees("Go back to generation 1", "171 rows")


# --- requests: these change the home


def retry_what_failed_last_night(user: User) -> None:
    user.click(
        user.page.locator("#needs li", has_text="night.visits").get_by_role("button", name="Retry")
    )
    user.sees("tried again", where=".done")


def pause_a_dataset(user: User) -> None:
    user.palette("told", "shop.told")
    user.click(user.page.get_by_label("More actions"))
    user.button("Pause")
    user.sees("paused", where="#head .state")


def check_a_source_for_new_files(user: User) -> None:
    user.link("Sources")
    user.button("Check for new files")
    user.sees("Its sources are checked now", where=".done")


def create_a_branch(user: User) -> None:
    user.link("Branches")
    user.page.get_by_label("Name", exact=True).fill("try")
    user.button("Create")
    user.sees("try")


TASKS: tuple[UserTask, ...] = (
    see_what_needs_attention,
    see_which_datasets_a_failure_blocks,
    find_the_owner_of_the_overdue_dataset,
    read_the_rows_that_fail_a_check,
    read_the_log_of_what_failed_last_night,
    see_which_line_of_the_blueprint_failed,
    list_all_checks_that_fail,
    see_why_a_number_changed,
    see_which_partitions_the_last_change_touched,
    see_what_a_late_file_reached,
    see_what_a_run_waited_for,
    read_the_log_of_an_attempt,
    see_what_work_cost,
    see_who_asked_for_what,
    see_when_a_dataset_was_updated,
    find_the_dataset_that_changed_last,
    find_datasets_by_a_tag,
    see_where_a_column_comes_from,
    see_who_reads_a_dataset,
    read_the_first_rows,
    read_the_code,
    open_the_partition_of_a_day,
    see_when_a_source_was_checked,
    learn_how_to_read_a_dataset_in_python,
    see_what_an_edit_would_cost,
    see_what_a_branch_would_bring,
    see_what_going_back_a_generation_means,
    retry_what_failed_last_night,
    pause_a_dataset,
    check_a_source_for_new_files,
    create_a_branch,
)


def broken(*_: object) -> NoReturn:
    raise ValueError("the disk is gone")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """With a late file, an overdue dataset that has an owner, and work that failed last night."""
    folder = tmp_path_factory.mktemp("visits")
    (folder / "a.csv").write_text("1,2\n")
    with pages(tmp_path_factory.mktemp("home")) as home:
        home.late_file()
        apply(home, "daily", LATE)
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(engine, "parse", broken)
            apply(home, "night", NIGHT.replace("PLACE", str(folder)))
        yield home


def apply(home: Pages, flow: str, text: str) -> None:
    blueprint = blueprints.SentBlueprint(f"/{flow}.yaml", text, {})
    blueprints.apply(home.world.ctx, "main", [blueprint])
    home.world.settle()


@pytest.fixture(scope="module")
def page(browser: Browser, home: Pages) -> Iterator[Page]:
    wide, high = WIDTHS["wide"]
    context = browser.new_context(base_url=home.url, viewport={"width": wide, "height": high})
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies(
        [{"name": "hg", "value": session_of(home), "url": home.url, "httpOnly": True}]
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_three_clicks(page: Page, task: UserTask) -> None:
    user = User(page)
    task(user)
    assert user.clicks <= MOST_CLICKS, f"{user.clicks} clicks"


def test_there_are_thirty() -> None:
    assert len({*TASKS}) >= 30
