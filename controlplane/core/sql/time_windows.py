"""Windows of time: `window(at, '1 minute')`, as proofs see it.

A row has one tumbling window, which begins at the last multiple of the window's length since
1970-01-01 UTC. So the window's start is a function of the row's time; and if its length divides an
hour, the start lies in the same hour of UTC as the time.

A row has several sliding windows, `window(at, '10 minutes', '1 minute')`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

SLIDING: Final = "a row has several sliding windows"
_NAME: Final = "window"
_SESSION: Final = "session_window"
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_LONGEST: Final = 100  # characters of a length
_AMOUNT: Final = re.compile(rf"(\d{{1,9}})\s+({'|'.join(_UNITS)})s?\b\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tumbling:
    """The start of a tumbling window over `time`. `length` is as it is written."""

    time: exp.Expr
    length: str
    length_s: int

    def lies_within(self, seconds: int) -> bool:
        """Whether no such window crosses a multiple of so many seconds since 1970."""
        return seconds % self.length_s == 0 if seconds else False


def is_window(node: exp.Expr) -> bool:
    """Whether it is a call of `window`, tumbling or sliding."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == _NAME


def start_of_tumbling(node: exp.Expr) -> Tumbling | None:
    """`window(time, 'length').start`; None for all else."""
    if not isinstance(node, exp.Dot) or node.expression.name.lower() != "start":
        return None
    call = node.this
    if not is_window(call) or len(call.expressions) != 2:
        return None
    time, length = call.expressions
    length_s = _seconds(length.name) if isinstance(length, exp.Literal) else 0
    return Tumbling(time, length.name, length_s) if length_s else None


def is_pure(node: exp.Expr) -> bool:
    """Whether it is part of the start of a tumbling window."""
    start = node.parent if is_window(node) else node
    return start is not None and start_of_tumbling(start) is not None


def selects_of_sessions(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that call `session_window`, each once for each call."""
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() == _SESSION:
            yield call.find_ancestor(exp.Select) or tree


def obstacle(selected: exp.Expr) -> str:
    """Why this selected window is no value of a row; empty where there is none."""
    windows = [node for node in selected.find_all(exp.Anonymous) if is_window(node)]
    if any(len(window.expressions) > 2 for window in windows):
        return SLIDING
    if windows or any(column.table.lower() == _NAME for column in selected.find_all(exp.Column)):
        return "the key is not `window(column, 'length').start`"
    return ""


def _seconds(text: str) -> int:
    """A length such as `1 hour 30 minutes`; 0 if it is none of whole seconds."""
    if len(text) > _LONGEST:
        return 0
    rest = text.strip().lower().removeprefix("interval").strip()
    total = 0
    while match := _AMOUNT.match(rest):
        total += int(match[1]) * _UNITS[match[2].lower()]
        rest = rest[match.end() :]
    return 0 if rest else total
