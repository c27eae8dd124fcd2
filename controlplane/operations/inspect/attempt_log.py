"""The lines of a driver's log that are about one attempt. Pure.

A driver runs several attempts at a time and writes one log. A line with `event=... attempt=...` is
about that attempt. A line without them, as Spark and users' code write them, is taken for a line of each attempt
that was under way when it was written. For example, of these lines the attempt `a1` has 2, 3 and 5:

    1 level=INFO event=spark-started
    2 level=INFO event=begin attempt=a1
    3 26/11/28 18:00:00 WARN TaskSetManager: Lost task 0.0
    4 level=INFO event=attempt attempt=b2
    5 level=INFO event=attempt attempt=a1
    6 26/11/28 18:00:09 WARN BlockManager: ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["error", "warning", "info"]
# With its event: users' code writes of attempts of its own, as in `retry attempt=3`
_ATTEMPT: Final = re.compile(r"\bevent=[a-z-]+ attempt=([0-9A-Za-z-]+)")
_BEGIN: Final = re.compile(r"\bevent=begin attempt=")
_END: Final = re.compile(r"\bevent=(?:attempt|stopped|fenced) attempt=")
_LEVEL: Final = re.compile(r"\b(ERROR|FATAL|CRITICAL|WARN(?:ING)?|INFO|DEBUG|TRACE)\b")
LEVELS: Final[dict[str, Level]] = {
    "ERROR": "error",
    "FATAL": "error",
    "CRITICAL": "error",
    "WARN": "warning",
    "WARNING": "warning",
}
LEVEL_WITHIN: Final = 80  # characters: further on, the word is part of a message


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """`first`: the number of the first line, counted from the begin of the attempt. `is_own`: the
    log names the attempt; else these are the last lines of the log, of any attempt."""

    text: str
    first: int
    is_own: bool


@dataclass(frozen=True, slots=True)
class LogLine:
    number: int
    level: Level
    text: str


def of_attempt(log: str, attempt: str, most: int) -> AttemptLog:
    """The last `most` lines of an attempt. Where its begin is cut off, lines are counted from the
    first one that is there."""
    lines = log.splitlines(keepends=True)
    own = list(_own(lines, attempt))
    is_own = bool(own)
    shown = own or lines
    first = max(0, len(shown) - most)
    return AttemptLog("".join(shown[first:]), first + 1, is_own)


def _own(lines: list[str], attempt: str) -> Iterator[str]:
    names = [match[1] if (match := _ATTEMPT.search(line)) else None for line in lines]
    if attempt not in names:
        return
    first = names.index(attempt)
    # Its begin was cut off where another line is the first one to name it
    is_under_way = _BEGIN.search(lines[first]) is None
    is_about = is_under_way
    for line, name in zip(lines, names, strict=True):
        if name == attempt and _BEGIN.search(line):
            is_under_way = True
        elif name == attempt and _END.search(line):
            is_under_way = False
        if not _continues(line):
            is_about = name == attempt or (name is None and is_under_way)
        if is_about:
            yield line


def _continues(line: str) -> bool:
    """Whether it belongs to the line before it, as the lines of a stack do."""
    return line[:1].isspace() or line.startswith(("Traceback ", "Caused by:"))


def levelled(log: AttemptLog) -> list[LogLine]:
    """The lines with their levels. One without a level has that of the line before it, if it
    belongs to that."""
    lines: list[LogLine] = []
    level: Level = "info"
    for number, text in enumerate(log.text.splitlines(), log.first):
        match = _LEVEL.search(text[:LEVEL_WITHIN])
        if match:
            level = LEVELS.get(match[1], "info")
        elif not _continues(text):
            level = "info"
        lines.append(LogLine(number, level, text))
    return lines
