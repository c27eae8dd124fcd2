"""How far an output partition reads beyond its own granule of time, in an input that is read by key.

Both planes work out the neighbours of a key by these functions: they name the task, the files of its
claim and the rows that it reads. Times are those of UTC, or of no zone.

Example: by `hour`, with `before` of 90 minutes, `at=2026-11-27T20` reads the keys of the hours 18, 19
and 20.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

from dataplane.contract.key_values import MINUTES, granule_text
from dataplane.contract.keys import column_texts, encode_segment

_MOMENT = timedelta(microseconds=1)
_LATEST = datetime.max.replace(tzinfo=UTC)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}


class Reach(NamedTuple):
    """Seconds before the start of a granule and after its end."""

    before_s: int
    after_s: int

    @property
    def reversed(self) -> Reach:
        """From a granule that is read to those that read it."""
        return Reach(self.after_s, self.before_s)


def neighbours(key: str, granules: Sequence[str], reach: Reach) -> list[str]:
    """The keys that the output partition `key` reads, its own among them, in the order of time.

    `granules`: of the key's parts, in order; empty texts but for one. A key whose time is NULL, or
    lies beyond the years 1 to 9999, reads itself alone.
    """
    place = next(number for number, granule in enumerate(granules) if granule)
    text = column_texts(key)[place]
    start = None if text is None else _start(text, granules[place])
    if start is None:
        return [key]
    segments = key.split("/")
    name, _, _ = segments[place].partition("=")
    keys: list[str] = []
    for neighbour in _texts(start, granules[place], reach):
        segments[place] = _segment(name, neighbour)
        keys.append("/".join(segments))
    return keys


def most_neighbours(granule: str, reach: Reach) -> int:
    """How many granules a partition reads beside its own, at most."""
    width_s = _shortest(granule).total_seconds()
    return sum(int(-(-seconds // width_s)) for seconds in reach)


def _shortest(granule: str) -> timedelta:
    if granule in _MONTHS:
        return timedelta(days=28 * _MONTHS[granule])
    return _width(granule)


def _width(granule: str) -> timedelta:
    return timedelta(minutes=MINUTES.get(granule, 0), days=_DAYS.get(granule, 0))


def _texts(start: datetime, granule: str, reach: Reach) -> Iterator[str]:
    """Those of the granules with a moment from `before_s` before the start to `after_s` after the
    end, the end not included."""
    first = _moved(start, -timedelta(seconds=reach.before_s))
    last = min(_moved(_end(start, granule), timedelta(seconds=reach.after_s)), _LATEST) - _MOMENT
    text, last_text = granule_text(first, granule, UTC), granule_text(last, granule, UTC)
    yield text
    while text != last_text:
        text = _following(text, granule)
        yield text


# Neighbouring keys have most of their neighbours in common
@lru_cache(maxsize=65_536)
def _following(text: str, granule: str) -> str:
    """The text of the next granule, of one that is not the last."""
    start = _start(text, granule)
    assert start is not None
    return granule_text(_end(start, granule), granule, UTC)


@lru_cache(maxsize=65_536)
def _segment(name: str, text: str) -> str:
    return f"{name}={encode_segment(text)}"


def end_of_granule(key: str, granule: str) -> datetime | None:
    """The end of the granule in the first part of a key. None where the part is no time between the
    years 1 and 9999."""
    text = column_texts(key)[0]
    start = None if text is None else _start(text, granule)
    return None if start is None else _end(start, granule)


def start_of_granule(moment: datetime, granule: str) -> datetime:
    """The start of the granule in UTC that a moment is in."""
    start = _start(granule_text(moment, granule, UTC), granule)
    return datetime.min.replace(tzinfo=UTC) if start is None else start


def _start(text: str, granule: str) -> datetime | None:
    """The start of the granule that has this text in a key."""
    try:
        match granule:
            case "year":
                text = f"{text}-01-01"
            case "month":
                text = f"{text}-01"
            case "quarter":
                year, _, quarter = text.partition("-Q")
                text = f"{year}-{3 * int(quarter) - 2:02}-01"
            case "week":
                year, _, week = text.partition("-W")
                day = date.fromisocalendar(int(year), int(week), 1)
                return datetime.combine(day, time(tzinfo=UTC))
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def _end(start: datetime, granule: str) -> datetime:
    """The start of the next granule; of the last one the last moment that there is."""
    if granule not in _MONTHS:
        return _moved(start, _width(granule))
    months = start.month - 1 + _MONTHS[granule]
    year = start.year + months // 12
    if year > _LATEST.year:
        return _LATEST
    return start.replace(year=year, month=months % 12 + 1)


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Within the years that there are."""
    try:
        return moment + by
    except OverflowError:
        return _LATEST if by > timedelta() else datetime.min.replace(tzinfo=UTC)
