"""Where a problem ends: editors underline a range, and problems have the place of its beginning.

Only the text is looked at, so it works in any language and where a document is broken.
"""

from __future__ import annotations

import re

_QUOTED = (r'"(?:[^"\\]|\\.)*"', r"'(?:[^'\\]|\\.|'')*'", r"`[^`]*`")
_NAME = r":?[\w$]+(?:[.-][\w$]+)*"
_TOKEN = re.compile("|".join([*_QUOTED, _NAME, r"\S"]))


def end_of(text: str, line: int, column: int) -> tuple[int, int]:
    """Line and column behind the word or quoted text that begins there, counted from 1 as the place
    is; the place itself where nothing is there, and (0, 0) where there is no place."""
    if line < 1 or column < 1:
        return 0, 0
    lines = lines_of(text)
    if line > len(lines):
        return line, column
    token = _TOKEN.match(lines[line - 1], column - 1)
    return line, token.end() + 1 if token else column


def lines_of(text: str) -> list[str]:
    """As YAML and editors count them."""
    return re.split(r"\r\n?|\n", text)


def word_at(text: str, line: int, column: int) -> tuple[str, int]:
    """The name that a place (from 1) is within or directly behind, with its column; dots belong to
    it. Else nothing."""
    lines = lines_of(text)
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    for token in re.finditer(r"[A-Za-z_][\w]*(?:\.[A-Za-z_][\w]*)*", here):
        if token.start() < column <= token.end() + 1:
            return token[0], token.start() + 1
    return "", column
