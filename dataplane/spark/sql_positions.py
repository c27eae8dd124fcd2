"""From places in the SQL text that runs back to places in the text that the user wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

# [start, end, text] on the user's text; sorted, not overlapping
Edit: TypeAlias = Sequence[int | str]


def original_offset(edits: Iterable[Edit], offset: int) -> int:
    """The offset in the user's text of `offset` in the edited text; the edit's start for text that
    an edit wrote."""
    shift = 0  # how much longer the edited text is up to here
    for edit in edits:
        start, end, text = int(edit[0]), int(edit[1]), str(edit[2])
        if offset < start + shift:
            break
        if offset < start + shift + len(text):
            return start
        shift += len(text) - (end - start)
    return offset - shift


def unedited(edits: Iterable[Edit], text: str) -> str:
    """The user's text, as long as it was, with question marks for the parts that the edits of
    `text` replaced."""
    parts, at, original = [], 0, 0
    for edit in edits:
        start, end = int(edit[0]), int(edit[1])
        unchanged = text[at : at + start - original]
        parts += [unchanged, "?" * (end - start)]
        at, original = at + len(unchanged) + len(str(edit[2])), end
    return "".join([*parts, text[at:]])


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of an offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def offset_of(text: str, line: int, column: int) -> int:
    """The offset of a line from 1 and a column from 0, as Spark's parser counts."""
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
    return min(len(text), starts[min(line, len(starts)) - 1] + column)
