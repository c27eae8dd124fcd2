"""Addresses of data: a dataset, and the state of it that is meant. Pure.

shop.totals                      its newest state
shop.totals@12                   its generation 12
shop.totals@2026-11-24T07:00Z    the newest state that was committed by then
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
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a dataset. They count from 1."""

    number: int

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in milliseconds since 1970: answers have times to the millisecond, so a time copied
    from an answer finds the state it belongs to."""

    milliseconds: int

    @classmethod
    def of(cls, at: float) -> Moment:
        """The moment that a time lies in. `at`: seconds since 1970."""
        return cls(int(at * 1000))

    @property
    def end(self) -> float:
        """Seconds since 1970: a state committed before this was there at this moment."""
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
    """`NAME`, `NAME@GENERATION` or `NAME@TIME`. Raises BadAddress. The name need not exist."""
    name, at, point_text = text.partition("@")
    if not at:
        return Address(name)
    if not name:
        raise BadAddress(f"{_quoted(text)}: there is no name before @; write {FORMS}")
    return Address(name, point_of(point_text, text))


def named(name: str, generation: int | None = None, at: str | datetime | None = None) -> Address:
    """A name that may be an address, with a generation or time given beside it. Raises
    BadAddress."""
    address = parse(name)
    parts = [part for part in (address.point, generation, at) if part is not None]
    if len(parts) > 1:
        raise BadAddress(
            f"{_quoted(name)}: which state is meant is said twice; say it once, as {FORMS}"
        )
    if generation is not None:
        return Address(address.name, generation_of(generation))
    return address if at is None else Address(address.name, moment_of(at))


def time_of(name: str, at: str | datetime | None = None) -> tuple[str, Moment | None]:
    """The name of a dataflow, and the time that is meant, if any: it has no generations. Raises
    BadAddress."""
    address = named(name, at=at)
    if isinstance(address.point, Generation):
        raise BadAddress(
            f"{_quoted(name)}: a dataflow has no generations, its datasets have; write a time (shop@2026-11-24T07:00Z)"
        )
    return address.name, address.point


def point_of(text: str, address: str = "") -> Point:
    """A generation or a time. `address`: the address that it stands in, for the error. Raises
    BadAddress."""
    if _NUMBER.fullmatch(text):
        return generation_of(int(text[:20]), address or text)
    return moment_of(text, address)


def generation_of(number: int, address: str = "") -> Generation:
    """Raises BadAddress."""
    if not 1 <= number <= MOST:
        raise BadAddress(f"{_quoted(address or str(number))}: generations are numbered from 1")
    return Generation(number)


def moment_of(at: str | datetime, address: str = "") -> Moment:
    """A time with a zone; text is as in ISO 8601. Raises BadAddress."""
    moment = _time(at, address) if isinstance(at, str) else at
    shown = _quoted(address or str(at))
    if moment.tzinfo is None:
        raise BadAddress(
            f"{shown}: the time says no zone; add Z for UTC, or an offset such as +01:00"
        )
    try:
        return Moment(_milliseconds(moment.astimezone(UTC)))
    except OverflowError:
        raise BadAddress(f"{shown}: there is no such time in UTC") from None


def _time(text: str, address: str) -> datetime:
    shown = _quoted(address or text)
    if _DAY.fullmatch(text):
        raise BadAddress(
            f"{shown}: a day is no moment; add a time and its zone, as in {text}T07:00Z"
        )
    if not _TIME.fullmatch(text):
        raise BadAddress(f"{shown}: write {FORMS}")
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadAddress(f"{shown}: there is no such time ({error})") from None


def _milliseconds(at: datetime) -> int:
    since = at - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _quoted(text: str) -> str:
    return repr(text[:100])
