"""The text of a value in a partition's key, for values in Python.

`dataplane.fragments.spark.spark_key_columns` has the same rule as SQL text, for the rows that Spark
reads. tests/spark/test_by.py compares both.

Example: the time 2013-07-04 23:30 by the granule `day` is `2013-07-04`.
"""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from decimal import Decimal

from dataplane.contract.keys import KeyPart
from dataplane.contract.schemas import Json
from dataplane.contract.xxh64 import xxhash64
from dataplane.contract.zones import UTC_NAMES

CUT = {"day": 0, "month": 3, "year": 6}  # granule -> characters cut from the end of a date's text
MINUTES = {"minute": 1, "15 minutes": 15, "hour": 60}  # granule of a time of day -> its length
_DAY_S = 86_400


def key_text(value: Json, part: KeyPart, zone: tzinfo) -> str | None:
    """The text of a typed value in a key. NULL stays None."""
    if value is None:
        return None
    text = granule_text(value, part["granule"], zone) if part["granule"] else _text(value)
    return str(xxhash64(text.encode()) % part["buckets"]) if part["buckets"] else text


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def granule_text(value: date, granule: str, zone: tzinfo) -> str:
    """The text of the granule that holds a date or a time."""
    local = value.astimezone(zone) if isinstance(value, datetime) and value.tzinfo else value
    day = local.isoformat()[:10]
    match granule:
        case "minute" | "15 minutes" | "hour":
            assert isinstance(local, datetime)
            return f"{day}T{_time(local, granule)}"
        case "week":
            year, week, _ = local.isocalendar()
            return f"{year:04}-W{week:02}"
        case "quarter":
            return f"{day[:4]}-Q{(local.month + 2) // 3}"
    return day[: len(day) - CUT[granule]]


def _time(local: datetime, granule: str) -> str:
    if granule == "hour":
        return f"{local.hour:02}"
    minute = local.minute - local.minute % MINUTES[granule]
    return f"{local.hour:02}:{minute:02}"


def utc_granule_s(granule: str, timezone: str) -> int:
    """Every granule of this kind is made of whole spans of so many seconds since 1970 in UTC; 0 if
    none are known.

    Days of other zones begin at other hours of UTC, and some hours of former times at other
    minutes.
    """
    if not granule or timezone not in UTC_NAMES:
        return 0
    return 60 * MINUTES[granule] if granule in MINUTES else _DAY_S
