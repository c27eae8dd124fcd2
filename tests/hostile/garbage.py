"""Values that no honest driver writes, and honest values that were spoilt in one place.

Does not belong here: where they are written.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**60, 0.5, 1e308, float("nan"), float("inf"),
    "", "zz", "0" * 64, "f" * 64, "\ud800", "a\0b", "../../../token", "/etc/passwd", "x" * 10_000,
    "done", "failed", "void",
)  # fmt: skip
NAMES = (
    "task",
    "epoch",
    "state",
    "files",
    "content",
    "schema",
    "result",
    "error",
    "metrics",
    "keys",
    "rows",
    "",
)
DEEP = 300  # json.dumps takes some more


def garbage(chance: random.Random, depth: int = 0) -> Any:
    """Any value that json.loads can return."""
    kind = chance.random()
    if depth > 3 or kind < 0.6:
        return chance.choice(SCALARS)
    if kind < 0.65:
        return _deep()
    size = chance.randint(0, 4)
    if kind < 0.8:
        return [garbage(chance, depth + 1) for _ in range(size)]
    return {chance.choice(NAMES): garbage(chance, depth + 1) for _ in range(size)}


def _deep() -> Any:
    value: Any = 0
    for _ in range(DEEP):
        value = [value]
    return value


def spoilt(chance: random.Random, value: Any) -> Any:
    """A copy in which some values are garbage, gone, or stand under another name."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        holder, key = chance.choice(list(_places(value)) or [([value], 0)])
        match chance.random():
            case dice if dice < 0.2 and isinstance(holder, dict):
                del holder[key]
            case dice if dice < 0.3 and isinstance(holder, dict):
                holder[chance.choice(NAMES)] = holder.pop(key)
            case _:
                holder[key] = garbage(chance)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place below a value, as its holder with the key or index."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
