"""The examples of `docs/readers.md`, with the addresses of a running service in place of theirs.

Does not belong here: executing them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import TypeAlias

from benchmarks.pages import ROOT
from benchmarks.readers.service import STATES, Place, State

PAGE = ROOT / "docs" / "readers.md"
TIME, MOMENT = "20261124T070000Z", "2026-11-24T07:00:00Z"  # of the page
SESSION = "session"  # what is executed before all others of an engine
_EXAMPLE = re.compile(
    r"<!-- example: (.+?), (.+?)(?:, (\w+))? -->\n```(?:python|properties)\n(.*?)```", re.DOTALL
)
Pairs: TypeAlias = Mapping[str, str]  # of the page and in its place
Examples: TypeAlias = Mapping[tuple[str, str, str], str]


def examples(text: str) -> Examples:
    """Code by engine, way and state; the state is empty where an address says it."""
    every = (match.groups(default="") for match in _EXAMPLE.finditer(text))
    return {(engine, way, state): code for engine, way, state, code in every}


def codes(engine: str, place: Place, text: str) -> dict[tuple[str, State], str | None]:
    """Code by way and state, for the ways of an engine. None where no example says how."""
    every = examples(text)
    ways = [way for way in ADDRESSES if any(key[:2] == (engine, way) for key in every)]
    session = every.get((engine, SESSION, ""), "")
    code_of: dict[tuple[str, State], str | None] = {}
    for way, state in product(ways, STATES):
        code = _code(every, (engine, way, state))
        code_of[way, state] = None if code is None else replaced(session + code, _service(place))
    return code_of


def properties(engine: str, name: str, text: str, place: Place) -> dict[str, str]:
    """Settings of a server, which the page has as an example of this name."""
    lines = replaced(examples(text)[engine, name, ""], _service(place)).splitlines()
    return dict(line.split("=", 1) for line in lines)


def _code(every: Examples, key: tuple[str, str, State]) -> str | None:
    engine, way, state = key
    if key in every:
        return every[key]
    addresses: Mapping[State, Pairs] = {"newest": {}, **ADDRESSES[way]}
    if state not in addresses or (engine, way, "") not in every:
        return None
    return replaced(every[engine, way, ""], addresses[state])


def replaced(code: str, pairs: Pairs) -> str:
    """Code with other texts in place of its own."""
    for old, new in pairs.items():
        code = code.replace(old, new)
    return code


def _service(place: Place) -> Pairs:
    return {
        "127.0.0.1:8420": place.url.partition("//")[2],
        "hg_...": place.token,
        "ACCESS_KEY": place.access_key,
        "SECRET_KEY": place.secret_key,
        "partner.share": str(place.profile),
        "/srv/headgate/lake": str(place.lake),
        MOMENT: place.moment,
        TIME: place.time,
    }


_VIEW: Mapping[State, Pairs] = {
    "generation": {"main/shop/orders": "main/shop/orders@2"},
    "time": {"main/shop/orders": f"main@{TIME}/shop/orders"},
    "branch": {"main/shop/orders": "dev/shop/orders"},
}
ADDRESSES: Mapping[str, Mapping[State, Pairs]] = {
    "Records": {
        "generation": {"shop.orders": "shop.orders@2"},
        "time": {"shop.orders": f"shop.orders@{MOMENT}"},
        "branch": {'"main"': '"dev"'},
    },
    "Delta in the lake": {"branch": {"shop/orders": "shop/orders/_branches/dev"}},
    "Delta by S3": _VIEW,
    "Parquet by S3": _VIEW,
    "Iceberg": {
        "generation": {'orders"': 'orders@2"', "`orders`": "`orders@2`"},
        "time": {"'main'": f"'main@{TIME}'", '"main"': f'"main@{TIME}"'},
        "branch": {"'main'": "'dev'", '"main"': '"dev"'},
    },
    "Delta Sharing": {"branch": {"shop.orders": "shop.orders_dev"}},
}
"""By way: the states other than the newest that an address says, and what to write for what."""
