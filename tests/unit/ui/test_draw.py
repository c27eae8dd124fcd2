"""Numbers for pictures: texts, bars, calendars."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from controlplane.ui import draw


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (336_776, "337 k"),
        (1_417_000, "1.4 M"),
        (23e6, "23 M"),
        (1.5e9, "1.5 B"),
    ],
)
def test_counts_as_people_say_them(number: float, text: str) -> None:
    assert draw.human(number) == text


def test_a_bar_is_as_long_as_its_shares() -> None:
    boxes = [draw.Box("a.b", "sql", "stale", "", share=draw.PartitionShares(0.5, 0.25, 0.25))]
    (box,) = draw.graph(boxes, []).boxes
    assert box.bar == (("done", 12, 76.0), ("todo", 88.0, 38.0), ("bad", 126.0, 38.0))


def test_a_long_name_is_cut_where_it_would_leave_its_box() -> None:
    (box,) = draw.graph([draw.Box("flow." + "x" * 40, "sql", "stale", "")], []).boxes
    assert box.short == "x" * 15 + "…"


def cells(keys: list[str], rows: int = 5) -> list[draw.Cell]:
    return [draw.Cell(key, key, 1, rows + i) for i, key in enumerate(keys)]


def days(count: int) -> list[str]:
    return [f"flown={date(2013, 1, 1) + timedelta(days=i)}" for i in range(count)]


def test_days_make_a_calendar_of_weeks() -> None:
    found = draw.cells(cells(days(31)))
    assert found.is_calendar
    first, second = found.cells[0], found.cells[6]  # a Tuesday, and the Monday after
    assert (first.y - draw.TOP, second.x - first.x) == (17, 17)
    assert second.y == draw.TOP
    assert [text for _, _, text in found.labels] == ["Mon", "Wed", "Fri", "Jan 2013"]


@pytest.mark.parametrize(
    "keys",
    [
        days(20),
        [*days(30), "other"],
        [*days(30), days(30)[0]],
        ["2013-02-30"] * 30,
        ["2013-01-01", *days(30)[1:], "2099-01-01"],
    ],
)
def test_other_keys_are_squares_in_their_order(keys: list[str]) -> None:
    found = draw.cells(cells(keys))
    assert not found.is_calendar
    assert [one.cell.last for one in found.cells] == keys
    places = [(one.y, one.x) for one in found.cells]
    assert places == sorted(set(places))


def test_steps_are_by_rank_so_that_one_huge_partition_hides_nothing() -> None:
    rows = [0, 1, 2, 3, 4, 5, 6, 7, 8, 1_000_000]
    found = draw.cells([draw.Cell(str(i), str(i), 1, n) for i, n in enumerate(rows)])
    assert [one.step for one in found.cells] == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
