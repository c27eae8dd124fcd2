"""Durations as people say them."""

from __future__ import annotations

from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `1 d 21 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < MINUTE_S:
        return f"{rounded} s"
    if rounded < HOUR_S:
        return f"{rounded // MINUTE_S} min {rounded % MINUTE_S} s"
    if rounded < DAY_S:
        return f"{rounded // HOUR_S} h {rounded % HOUR_S // MINUTE_S} min"
    return f"{rounded // DAY_S} d {rounded % DAY_S // HOUR_S} h"
