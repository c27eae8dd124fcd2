"""Time zones by name, as both planes read them."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

UTC_NAMES = ("UTC", "Etc/UTC", "Z")  # those that people write
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")


class UnknownZone(ValueError):
    """No zone of this name is known on this machine."""


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """The time zone of a name such as `Europe/Berlin`, or of an offset such as `+05:30`. Raises
    UnknownZone."""
    if name in UTC_NAMES:
        return UTC
    try:
        if match := _OFFSET.fullmatch(name):
            ahead = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(-ahead if match[1] == "-" else ahead)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as e:
        raise UnknownZone(f"the time zone {name!r} is not known here") from e
