"""What GET routes are asked with. Does not belong here: whose names are put in."""

from __future__ import annotations

from collections.abc import Iterable

ASKED = {
    "all": "true",
    "long": "true",
    "rows": "true",
    "after": "0",
    "follow": "false",
    "direction": "downstream",
    "since": "0",
}


def queries_of(given: Iterable[str]) -> list[dict[str, str]]:
    """Without parameters, and with those of `given` that choose how much is told."""
    return [{}, {name: ASKED[name] for name in given if name in ASKED}]
