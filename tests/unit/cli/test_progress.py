"""Progress of a run: lines where there is no terminal, bars by name where there is one."""

from __future__ import annotations

import io

import pytest

from controlplane.cli.progress import ProgressDisplay
from controlplane.cli.service_run import Moving


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A terminal of 80 columns."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


BUILDING = {"shop.orders": "building", "shop.items": "stale", "shop.days": "up_to_date"}


def test_without_a_terminal_there_is_a_line_each_ten_seconds() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(out, clock) as progress:
        for seconds, left in ((0.0, 12), (9.9, 9), (10.1, 5), (15.0, 4), (20.2, 1)):
            clock.now = seconds
            progress.show(Moving(left, BUILDING, {"shop.orders": left}))
    assert out.getvalue().splitlines() == [
        "headgate: 1 of 3 datasets are up to date; now shop.orders 7/12 tasks",
        "headgate: 1 of 3 datasets are up to date; now shop.orders 11/12 tasks",
    ]


def test_a_start_of_spark_is_told() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(out, clock) as progress:
        clock.now = 12.0
        progress.show(Moving(1, {"shop.orders": "building"}, {}, spark_starting_s=11.6))
    assert out.getvalue() == ("headgate: 0 of 1 datasets are up to date; Spark is starting, 12 s\n")


def test_a_short_run_writes_nothing() -> None:
    out = io.StringIO()
    with ProgressDisplay(out, Clock()) as progress:
        progress.show(Moving(3, BUILDING, {"shop.orders": 3}))
    assert out.getvalue() == ""


def test_many_datasets_are_counted_behind_the_first() -> None:
    out, clock = io.StringIO(), Clock()
    names = [f"shop.d{number}" for number in range(5)]
    with ProgressDisplay(out, clock) as progress:
        clock.now = 10.0
        progress.show(Moving(5, dict.fromkeys(names, "building"), dict.fromkeys(names, 1)))
    assert out.getvalue().endswith(
        "now shop.d0 0/1 tasks, shop.d1 0/1 tasks, shop.d2 0/1 tasks and 2 more\n"
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Screen()


def test_a_terminal_names_what_is_made_and_what_has_ended(terminal: Screen) -> None:
    clock = Clock()
    with ProgressDisplay(terminal, clock) as progress:
        both = {**BUILDING, "shop.items": "building"}
        progress.show(Moving(2, both, {"shop.orders": 4, "shop.items": 2}))
        clock.now = 4.12
        ended = {**BUILDING, "shop.orders": "up_to_date", "shop.items": "failed"}
        progress.show(Moving(1, ended, {}))
    text = terminal.getvalue()
    assert "✓ shop.orders  4.1 s" in text
    assert "✗ shop.items  failed" in text
    assert "0/4" in text
    assert "2/3" in text, "datasets that are up to date"


def test_a_run_with_nothing_to_do_draws_nothing(terminal: Screen) -> None:
    with ProgressDisplay(terminal, Clock()) as progress:
        progress.show(Moving(0, {"shop.orders": "up_to_date"}))
    assert terminal.getvalue() == ""


def test_an_end_is_told_once_and_only_of_what_was_made_or_failed(terminal: Screen) -> None:
    states = {"a.x": "building", "a.y": "building", "a.z": "building"}
    with ProgressDisplay(terminal, Clock()) as progress:
        for ended in ("up_to_date", "building", "up_to_date"):
            progress.show(Moving(1, states, dict.fromkeys(states, 1)))
            later = {"a.x": ended, "a.y": "failed", "a.z": "waiting"}
            progress.show(Moving(1, later, {"a.y": 1, "a.z": 1}))
    text = terminal.getvalue()
    assert (text.count("✓ a.x"), text.count("✗ a.y")) == (1, 1)
    assert not {"✓ a.z", "✗ a.z"} & {line.strip() for line in text.splitlines()}


def test_many_ends_are_one_text(terminal: Screen) -> None:
    names = [f"a.d{number}" for number in range(1_000)]
    with ProgressDisplay(terminal, Clock()) as progress:
        progress.show(Moving(9, dict.fromkeys(names, "building"), dict.fromkeys(names, 1)))
        progress.show(Moving(9, dict.fromkeys(names, "up_to_date"), {}))
    assert "and 980 more" in terminal.getvalue()


def test_tasks_that_are_done_are_counted_while_a_dataset_is_published() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(out, clock) as progress:
        progress.show(Moving(12, BUILDING, {"shop.orders": 12}))
        clock.now = 10.0
        progress.show(Moving(0, BUILDING | {"shop.old": "paused"}, {}, publishing=1))
    assert out.getvalue() == (
        "headgate: 1 of 3 datasets are up to date; now shop.orders 12/12 tasks; publishing\n"
    )


def test_a_dataset_that_waits_for_its_inputs_is_not_said_to_be_made() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressDisplay(out, clock) as progress:
        clock.now = 10.0
        progress.show(Moving(3, BUILDING, {"shop.orders": 3, "shop.items": 2}))
    assert "shop.items" not in out.getvalue()
