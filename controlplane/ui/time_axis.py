"""The time that the keys of partitions name, and its periods: pure functions of keys.

Example: `flown=2013-07-04` is of a day; of 2,000 such keys a picture has a cell for each week.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal, TypeAlias

Period: TypeAlias = Literal["hour", "day", "week", "month"]
KEYS_FROM: Final = 21  # fewer keys make no axis
# Days up to which a period is used; a longer time takes the next one
LONGEST: Final[tuple[tuple[Period, int], ...]] = (
    ("hour", 62),
    ("day", 3 * 366),
    ("week", 10 * 366),
    ("month", 100 * 366),
)
WEEKS, MONTHS, HOURS = 53, 12, 24  # of a year, of a year, of a day
# 2013-07, 2013-07-04, and an hour: 2013-07-04T05, 2013-07-04%2005 or 2013-07-04/hour=05
TIME = re.compile(r"(?<!\d)(\d{4})-(\d\d)(?:-(\d\d)(?:(?:T|%20|/hour=|/h=)(\d\d))?)?(?!\d|-\d)")


def time_of(key: str) -> tuple[datetime, Period] | None:
    """The first time in a key, and the period that it names: an hour, a day or a month. None if
    there is no such time."""
    match = TIME.search(key)
    if match is None:
        return None
    year, month, day, hour = match.groups()
    try:
        at = datetime(int(year), int(month), int(day or 1), int(hour or 0), tzinfo=UTC)
    except ValueError:
        return None
    return at, "hour" if hour else "day" if day else "month"


def period_of(keys: Sequence[str]) -> Period | None:
    """The shortest period in which all of these sorted keys fit on an axis. None if there are few,
    if one names no time, if times are not in the order of keys, or if all are of one period."""
    if len(keys) < KEYS_FROM:
        return None
    fitting = next((period for period, _ in LONGEST if fits(period, keys)), None)
    if fitting is None or number_of(fitting, keys[0]) == number_of(fitting, keys[-1]):
        return None
    return fitting


def fits(period: Period, keys: Sequence[str]) -> bool:
    """Whether each of these sorted keys names such a period or a shorter one, in the order of keys
    and within the longest time of an axis."""
    times = [named for key in keys if (named := time_of(key)) is not None]
    if len(times) < len(keys):
        return False
    instants = [at for at, _ in times]
    if any(later < earlier for earlier, later in pairwise(instants)):
        return False
    periods = [name for name, _ in LONGEST]
    shortest = max(periods.index(named) for _, named in times)
    days = (instants[-1] - instants[0]).days
    return periods.index(period) >= shortest and days <= dict(LONGEST)[period]


def has_one_key_each(period: Period, keys: Sequence[str]) -> bool:
    """Whether no two keys are in the same period."""
    return len({number_of(period, key) for key in keys}) == len(keys)


def number_of(period: Period, key: str) -> int:
    """The number of the period that a key is in. Raises ValueError if the key names no time."""
    named = time_of(key)
    if named is None:
        raise ValueError(f"no time in the key {key!r}")
    at = named[0]
    match period:
        case "hour":
            return at.toordinal() * HOURS + at.hour
        case "day":
            return at.toordinal()
        case "week":  # of seven days from the first of January; the last one has a day or two
            return at.year * WEEKS + (at.timetuple().tm_yday - 1) // 7
        case "month":
            return at.year * MONTHS + at.month - 1


def row_of(period: Period, number: int) -> tuple[int, int]:
    """The row and the column of a period. A row is a year, or the day of hours. Days have a row for
    each day of the week, and a column for each week."""
    match period:
        case "hour":
            return divmod(number, HOURS)
        case "day":
            week, weekday = divmod(number - 1, 7)  # the first day of the calendar is a Monday
            return weekday, week
        case "week":
            return divmod(number, WEEKS)
        case "month":
            return divmod(number, MONTHS)


def words_of(period: Period, number: int) -> str:
    """A period as text, such as `2026-02-12 to 2026-02-18`."""
    row, column = row_of(period, number)
    match period:
        case "hour":
            return f"{date.fromordinal(row)} {column:02}:00"
        case "day":
            return str(date.fromordinal(number))
        case "week":
            first = date(row, 1, 1) + timedelta(days=7 * column)
            days_left = (date(row, 12, 31) - first).days
            return f"{first} to {first + timedelta(days=min(days_left, 6))}"
        case "month":
            return f"{row:04}-{column + 1:02}"
