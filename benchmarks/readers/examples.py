"""The examples of `docs/readers.md`, with the addresses of a running service in place of theirs.

Does not belong here: executing them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from benchmarks.pages import ROOT
from benchmarks.readers.service import Place, State

PAGE = ROOT / "docs" / "readers.md"
SESSION = "session"  # what is executed before all others of an engine
_EXAMPLE = re.compile(r"<!-- example: (.+?), (.+?)(?:, (\w+))? -->\n```python\n(.*?)```", re.DOTALL)
Pairs = Mapping[str, str]  # of the page and in its place


def examples(text: str) -> Mapping[tuple[str, str, str], str]:
    """Code by engine, way and state; the state is empty where an address says it."""
    every = (match.groups(default="") for match in _EXAMPLE.finditer(text))
    return {(engine, way, state): code for engine, way, state, code in every}


def with_addresses(code: str, way: str, state: State, place: Place) -> str:
    """Code that reads this state of the service's own `shop.orders`."""
    for old, new in {**ADDRESSES[way](state, place), **_service(place)}.items():
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
        "2026-11-24T07:00:00Z": place.moment,
    }


def _in_lake(state: State, place: Place) -> Pairs:
    return {"shop/orders": "shop/orders/_branches/dev"} if state == "branch" else {}


def _in_view(state: State, place: Place) -> Pairs:
    addresses: Mapping[State, str] = {
        "newest": "main/shop/orders",
        "generation": "main/shop/orders@2",
        "time": f"main@{place.time}/shop/orders",
        "branch": "dev/shop/orders",
    }
    return {"main/shop/orders": addresses[state]}


def _in_catalogue(state: State, place: Place) -> Pairs:
    if state == "generation":
        return {"orders\"": "orders@2\"", "`orders`": "`orders@2`"}
    warehouses: Mapping[State, str] = {"time": f"main@{place.time}", "branch": "dev"}
    warehouse = warehouses.get(state, "main")
    return {"'main'": f"'{warehouse}'", '"main"': f'"{warehouse}"'}


def _in_share(state: State, place: Place) -> Pairs:
    return {"shop.orders": "shop.orders_dev"} if state == "branch" else {}


BY_ADDRESS: Mapping[str, tuple[State, ...]] = {"Delta in the lake": ("newest", "branch"), "Delta Sharing": ("newest", "branch")}
"""States that an address says; all of them for other ways."""
ADDRESSES: Mapping[str, Callable[[State, Place], Pairs]] = {
    "Delta in the lake": _in_lake,
    "Delta by S3": _in_view,
    "Parquet by S3": _in_view,
    "Iceberg": _in_catalogue,
    "Delta Sharing": _in_share,
}
