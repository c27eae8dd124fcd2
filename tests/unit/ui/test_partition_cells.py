"""Partitions as cells: on an axis of time, by what colours stand for, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from controlplane.core.model.answers.datasets import PartitionWork
from controlplane.ui import partition_cells as cells
from controlplane.ui import time_axis
from controlplane.ui.partition_cells import Cell, CellMap
from controlplane.ui.time_axis import Period


def days(number: int, each: int = 1) -> list[str]:
    return [f"flown={date(2013, 1, 1) + timedelta(days=i * each)}" for i in range(number)]


def hours(number: int) -> list[str]:
    start = datetime(2026, 2, 14, 22, tzinfo=UTC)
    return [f"{start + timedelta(hours=i):%Y-%m-%dT%H}.csv" for i in range(number)]


def single(keys: list[str], rows: int = 5) -> list[Cell]:
    return [Cell(key, key, 1, rows + i) for i, key in enumerate(keys)]


def drawn(keys: list[str]) -> CellMap:
    return cells.draw_cells(single(keys), time_axis.period_of(keys))


@pytest.mark.parametrize(
    ("keys", "period"),
    [
        (hours(40), "hour"),
        (hours(64 * 24), "day"),
        (days(31), "day"),
        (days(1_098), "day"),
        (days(1_100), "week"),
        (days(2_000), "week"),
        (days(3_700), "month"),
        (days(40, each=400), "month"),
        (days(200, each=400), None),
        ([f"month={year}-{month:02}" for year in (2012, 2013) for month in range(1, 13)], "month"),
        ([f"day={day}/hour=07" for day in days(40)], "hour"),
        ([f"{day}/store={n:02}" for day in days(30) for n in range(9)], "day"),
    ],
)
def test_the_axis_has_the_shortest_period_that_fits(keys: list[str], period: Period) -> None:
    assert time_axis.period_of(keys) == period


@pytest.mark.parametrize(
    "keys",
    [
        days(20),
        [*days(30), "other"],
        [f"store={n}/{day}" for n in range(2) for day in days(30)],
        ["2013-02-30"] * 30,
        [f"2013-02-28/store={n:02}" for n in range(30)],  # of one day
    ],
)
def test_keys_without_times_in_order_are_squares(keys: list[str]) -> None:
    assert time_axis.period_of(keys) is None
    squares = drawn(keys)
    assert [square.cell.last for square in squares.cells] == keys
    places = [(square.y, square.x) for square in squares.cells]
    assert places == sorted(set(places))


def test_days_make_a_calendar_of_weeks() -> None:
    calendar = drawn(days(31))
    first, second = calendar.cells[0], calendar.cells[6]  # a Tuesday, and the Monday after
    assert (first.y - cells.TOP, second.x - first.x) == (17, 17)
    assert second.y == cells.TOP
    assert [text for _, _, text in calendar.labels] == ["Mon", "Wed", "Fri", "Jan 2013"]


def test_a_year_is_a_row_and_a_week_is_a_column() -> None:
    keys = days(300, each=7)
    axis = drawn(keys)
    by_year: dict[int, set[int]] = {}
    for square in axis.cells:
        by_year.setdefault(square.y, set()).add(square.x)
    assert len(by_year) == 6
    assert len(axis.cells) == len({(square.x, square.y) for square in axis.cells}) == 300
    names = [text for _, _, text in axis.labels]
    assert names[:6] == ["2013", "2014", "2015", "2016", "2017", "2018"]
    assert names[6:8] == ["Jan", "Feb"]
    assert axis.cells[0].period == "2013-01-01 to 2013-01-07"


def test_a_day_is_a_row_of_hours() -> None:
    axis = drawn(hours(40))
    assert [(square.x, square.y) for square in axis.cells[:3]] == [
        (cells.LEFT + 22 * 17, cells.TOP),
        (cells.LEFT + 23 * 17, cells.TOP),
        (cells.LEFT, cells.TOP + 17),
    ]
    assert axis.cells[2].period == "2026-02-15 00:00"


def test_a_range_of_nodes_reaches_back_to_the_one_before() -> None:
    ranges = [Cell("", "2013-01-05", 50, 500), Cell("2013-01-05", "2013-01-08", 40, 400)]
    exact = cells.draw_cells(ranges, "day")
    assert [square.period for square in exact.cells] == ["2013-01-05", "2013-01-08"]
    reaching = cells.draw_cells(ranges, "day", is_exact=False)
    assert [square.period for square in reaching.cells] == [
        "2013-01-05",
        "2013-01-06",
        "2013-01-07",
        "2013-01-08",
    ]
    assert len(reaching.listed) == 2, "a range is listed once"


def test_the_last_week_of_all_years_has_words() -> None:
    number = time_axis.number_of("week", "9999-12-31")
    assert time_axis.words_of("week", number) == "9999-12-31 to 9999-12-31"


def test_missing_partitions_of_a_period_are_one_square() -> None:
    missing = [Cell(f"2013-01-02/{n}", "", 1, 0, to_do=1, is_missing=True) for n in range(3)]
    missing = [replace(cell, last=cell.first) for cell in missing]
    axis = cells.draw_cells([*single(["2013-01-01"]), *missing], "day")
    assert [square.cell.last for square in axis.cells] == ["2013-01-01", "2013-01-02/0"]


def test_steps_are_by_rank_so_that_one_huge_partition_hides_nothing() -> None:
    rows = [0, 1, 2, 3, 4, 5, 6, 7, 8, 1_000_000]
    squares = cells.draw_cells([Cell(str(i), str(i), 1, n) for i, n in enumerate(rows)])
    steps = [int(square.look[1:]) for square in squares.cells]
    assert steps == [0, 1, 1, 2, 2, 3, 4, 4, 5, 5]


def test_equal_values_have_the_step_in_the_middle() -> None:
    rows = [10] * 8 + [1, 20]
    squares = cells.draw_cells([Cell(str(i), str(i), 1, n) for i, n in enumerate(rows)])
    assert [square.look for square in squares.cells] == ["c3"] * 8 + ["c1", "c5"]


WORK: dict[PartitionWork, list[str]] = {"failed": ["b", "d"], "to_do": ["c", "e"]}


def test_work_is_counted_in_its_ranges_and_missing_partitions_have_cells() -> None:
    ranges = [Cell("", "b", 2, 9), Cell("b", "c", 3, 9), Cell("c", "c", 1, 3)]
    marked = cells.with_work(ranges, WORK, ["d", "e"])
    assert [(cell.last, cell.failed, cell.to_do, cell.is_missing) for cell in marked] == [
        ("b", 1, 0, False),
        ("c", 0, 1, False),
        ("c", 0, 1, False),
        ("d", 1, 0, True),
        ("e", 0, 1, True),
    ]
    looks = [square.look for square in cells.draw_cells(marked, colour="state").cells]
    assert looks == ["w-failed", "w-to_do", "w-to_do", "w-failed", "w-to_do"]


def test_age_and_seconds_colour_what_is_known() -> None:
    old, new = (
        Cell("a", "a", 1, 1, at=10.0, seconds=5.0),
        Cell("b", "b", 1, 1, at=20.0, seconds=1.0),
    )
    unknown = Cell("c", "c", 1, 1)
    for colour, looks in (("age", ["c2", "c4", "c0"]), ("seconds", ["c4", "c2", "c0"])):
        squares = cells.draw_cells([old, new, unknown], colour=colour)  # type: ignore[arg-type]
        assert [square.look for square in squares.cells] == looks
