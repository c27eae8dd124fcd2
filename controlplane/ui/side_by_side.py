"""A unified diff as two columns of lines: each changed line beside its earlier text.

The lines of `difflib.unified_diff` go in. Hunks are read by the counts of their headings, so that a
line such as `-- a comment` of SQL is not taken for a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

_HEADING = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Side:
    """A line with its number. `differs`: the part between the equal parts `before` and `behind`."""

    number: int
    before: str
    differs: str = ""
    behind: str = ""


@dataclass(frozen=True, slots=True)
class SideBySideRow:
    """The line before, and after; None where there is none. `is_same`: nothing differs."""

    left: Side | None
    right: Side | None
    is_same: bool


@dataclass(slots=True)
class Hunk:
    """`heading`: with the numbers of its lines, as `diff` writes it."""

    file: str
    heading: str
    rows: list[SideBySideRow] = field(default_factory=list)


def hunks(lines: Iterable[str]) -> list[Hunk]:
    """The hunks of a unified diff of any number of files."""
    all_hunks, file = list[Hunk](), ""
    following = iter(lines)
    for line in following:
        if heading := _HEADING.match(line):
            hunk = Hunk(file, heading[0])
            hunk.rows = list(_rows(following, heading))
            all_hunks.append(hunk)
        elif line.startswith("+++ "):
            file = line[4:]
    return all_hunks


def _rows(following: Iterator[str], heading: re.Match[str]) -> Iterator[SideBySideRow]:
    """Takes as many lines as the heading counts."""
    left, right = int(heading[1]), int(heading[3])
    last_left, last_right = left + _length(heading[2]), right + _length(heading[4])
    removed, added = list[str](), list[str]()
    while left + len(removed) < last_left or right + len(added) < last_right:
        line = next(following, "")
        if line.startswith("-"):
            removed.append(line[1:])
        elif line.startswith("+"):
            added.append(line[1:])
        else:
            yield from _paired(left, right, removed, added)
            left, right = left + len(removed), right + len(added)
            removed, added = [], []
            yield SideBySideRow(Side(left, line[1:]), Side(right, line[1:]), is_same=True)
            left, right = left + 1, right + 1
    yield from _paired(left, right, removed, added)


def _length(text: str | None) -> int:
    """A heading leaves out a length of 1."""
    return 1 if text is None else int(text)


def _paired(left: int, right: int, removed: list[str], added: list[str]) -> Iterator[SideBySideRow]:
    for place, (old, new) in enumerate(zip_longest(removed, added)):
        if old is None or new is None:
            first = None if old is None else Side(left + place, "", old)
            other = None if new is None else Side(right + place, "", new)
        else:
            start = _common(old, new)
            end = _common(old[start:][::-1], new[start:][::-1])
            first = _side(left + place, old, start, len(old) - end)
            other = _side(right + place, new, start, len(new) - end)
        yield SideBySideRow(first, other, is_same=False)


def _common(text: str, other: str) -> int:
    """How many characters both begin with."""
    differing = (place for place, (a, b) in enumerate(zip(text, other, strict=False)) if a != b)
    return next(differing, min(len(text), len(other)))


def _side(number: int, text: str, start: int, end: int) -> Side:
    return Side(number, text[:start], text[start:end], text[end:])
