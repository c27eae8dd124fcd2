"""Addresses of data: a dataset, and the state of it that is meant. Pure.

    shop.totals                      its newest state
    shop.totals@12                   its generation 12
    shop.totals@2026-11-24T07:00Z    the newest state that was committed by then

Does not belong here: finding the state (`operations.inspect.time_travel`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from controlplane.core.errors import BadAddress

MOST = 2**53  # of a generation: what JSON holds exactly
FORMS = "a generation (shop.totals@12) or a time with its zone (shop.totals@2026-11-24T07:00Z)"
_NUMBER = re.compile(r"[0-9]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a dataset. They count from 1."""

    number: int

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in milliseconds since 1970: answers tell times to the millisecond, so a time that was told finds what it
    was told of."""

    milliseconds: int

    @property
    def end(self) -> float:
        """Seconds since 1970: what was committed before it was there at this moment."""
        return (self.milliseconds + 1) / 1000

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.milliseconds // 1000, UTC).replace(tzinfo=None)
        rest = self.milliseconds % 1000
        return f"{at.isoformat()}{f'.{rest:03}' if rest else ''}Z"


Point: TypeAlias = Generation | Moment
"""Which state of a dataset is meant. Where there is none, the newest."""


@dataclass(frozen=True, slots=True)
class Address:
    """A dataset or dataflow by name, and the state that is meant of it."""

    name: str
    point: Point | None = None

    def __str__(self) -> str:
        return self.name if self.point is None else f"{self.name}@{self.point}"


def parse(text: str) -> Address:
    """`NAME`, `NAME@GENERATION` or `NAME@TIME`. Raises BadAddress. Whether there is such a name is not looked at."""
    name, at, wanted = text.partition("@")
    if not at:
        return Address(name)
    if not name:
        raise BadAddress(f"{_quoted(text)}: there is no name before @; write {FORMS}")
    return Address(name, point(wanted, text))


def point(text: str, whole: str | None = None) -> Point:
    """A generation or a time. `whole`: the address that it stands in, for the error. Raises BadAddress."""
    if _NUMBER.fullmatch(text):
        return generation(int(text[:20]), whole or text)
    return moment(text, whole)


def generation(number: int, whole: str | None = None) -> Generation:
    """Raises BadAddress."""
    if not 1 <= number <= MOST:
        raise BadAddress(f"{_quoted(whole or str(number))}: generations are numbered from 1")
    return Generation(number)


def moment(text: str, whole: str | None = None) -> Moment:
    """A time as in ISO 8601, with a zone. Raises BadAddress."""
    shown = _quoted(whole or text)
    if _DAY.fullmatch(text):
        raise BadAddress(f"{shown}: a day is no moment; add a time and its zone, as in {text}T07:00Z")
    found = _TIME.fullmatch(text)
    if found is None:
        raise BadAddress(f"{shown}: what is meant is {FORMS}")
    if found["zone"] is None:
        raise BadAddress(f"{shown}: the time says no zone; add Z for UTC, or an offset such as +01:00")
    try:
        return Moment(_milliseconds(datetime.fromisoformat(text).astimezone(UTC)))
    except (ValueError, OverflowError) as error:
        raise BadAddress(f"{shown}: there is no such time ({error})") from None


def moment_of(at: datetime) -> Moment:
    """Raises BadAddress where it has no zone."""
    if at.tzinfo is None:
        raise BadAddress(f"{at.isoformat()}: the time says no zone; give it one, as in datetime(..., tzinfo=UTC)")
    return Moment(_milliseconds(at.astimezone(UTC)))


def _milliseconds(at: datetime) -> int:
    since = at - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _quoted(text: str) -> str:
    return repr(text[:100])
