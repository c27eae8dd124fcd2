"""Time zones by name, and the days and hours of theirs that a time lies in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dataplane.contract.zones import UnknownZone, zone

__all__ = ["UnknownZone", "local", "period", "zone"]


def local(at: float, name: str) -> datetime:
    """A time in seconds since 1970, in a zone, to the millisecond."""
    since = timedelta(milliseconds=int(at * 1000))
    return (datetime(1970, 1, 1, tzinfo=UTC) + since).astimezone(zone(name))


def period(kind: str, at: float, name: str) -> str:
    """The day, or the hour, of a zone that a time lies in; empty for a kind without periods. Equal
    only in one period: of an hour that comes twice in autumn each has its own."""
    match kind:
        case "daily":
            return local(at, name).date().isoformat()
        case "hourly":
            return (
                local(at, name)
                .replace(minute=0, second=0, microsecond=0)
                .isoformat(timespec="minutes")
            )
        case _:
            return ""
