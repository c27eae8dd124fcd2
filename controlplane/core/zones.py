"""Time zones by name, and the days and hours of theirs that a time lies in.

Does not belong here: what the time is, and what follows when a period has ended.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")


class UnknownZone(ValueError):
    """No zone of this name is known on this machine."""


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """Of a name such as `Europe/Berlin`, or an offset such as `+05:30`. Raises UnknownZone."""
    if name in ("UTC", "Z"):
        return UTC
    try:
        if match := _OFFSET.fullmatch(name):
            ahead = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(-ahead if match[1] == "-" else ahead)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as e:
        raise UnknownZone(f"the time zone {name!r} is not known here") from e


def local(at: float, name: str) -> datetime:
    """A time in seconds since 1970, in a zone, to the millisecond."""
    since = timedelta(milliseconds=int(at * 1000))
    return (datetime(1970, 1, 1, tzinfo=UTC) + since).astimezone(zone(name))


def period(kind: str, at: float, name: str) -> str:
    """The day, or the hour, of a zone that a time lies in; empty for what has no periods. Equal only in one period:
    of an hour that comes twice in autumn each has its own."""
    match kind:
        case "daily":
            return local(at, name).date().isoformat()
        case "hourly":
            return local(at, name).replace(minute=0, second=0, microsecond=0).isoformat(timespec="minutes")
        case _:
            return ""
