"""Times of cron expressions with five fields: minute, hour, day of month, month, day of week.

Changes of a zone's clock are as in Debian's cron. Where an expression fixes minute and hour, a time
that is left out comes when the clock has been put forward, and one that comes twice counts once.
Where one of the two is `*` or a step of it, a time that is left out does not come, and one that
comes twice counts twice.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from controlplane.core import zone_periods

FIELDS = 5
LONGEST = 100  # characters of an expression
_LEAP_YEAR = datetime(2024, 1, 1, tzinfo=UTC)


def fault(expression: str) -> str | None:
    """Why this is no cron expression, in words. None where it is one."""
    if len(expression) > LONGEST:
        return f"has more than {LONGEST} characters"
    fields = len(expression.split())
    if fields != FIELDS:
        return f"has {fields} fields, and needs minute, hour, day of month, month, day of week"
    try:
        next(CronSim(expression, _LEAP_YEAR))
    except CronSimError as e:
        field = str(e).removeprefix("Bad ").replace("-", " ")
        return f"has a wrong {field}"
    except StopIteration:
        return "names a day that never comes"
    return None


@lru_cache(maxsize=4096)
def next_after(expression: str, at: float, timezone: str) -> float:
    """The first time of a valid expression after a time. Both in seconds since 1970. Raises
    UnknownZone."""
    local = datetime.fromtimestamp(at, UTC).astimezone(zone_periods.zone(timezone))
    times = (time.timestamp() for time in CronSim(expression, local))
    # After a clock was put back, cronsim may begin with the first of two equal local times
    return next(time for time in times if time > at)
