"""Words of errors as they may leave a process: of bounded length, and without characters that no
reader or terminal can show.

A file's own text gets into messages as names of columns and as values, and may be anything.
"""

from __future__ import annotations

import re

LONGEST_NAME = 100  # characters of a quoted name or value
LONGEST_MESSAGE = 2_000
LONGEST_DETAIL = 64_000
CUT = "…"
_QUOTED = re.compile(rf"(?<!\w)(['\"`])((?:(?!\1)[^\n]){{{LONGEST_NAME + 1},}}?)\1(?!\w)")
# No path, URL or word of ours has these
_ODD_RUN = re.compile(r"(?<!\S)\S*?\\(?:x[0-9a-f]{2}|u[0-9a-f]{4})\S*")
_ODD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def message(text: str) -> str:
    """The message of an error, for display: long names within it are shortened."""
    plain = _QUOTED.sub(
        lambda m: f"{m[1]}{m[2][:LONGEST_NAME]}{CUT}{m[1]}", visible(text[:LONGEST_DETAIL])
    )
    plain = _ODD_RUN.sub(lambda m: _head(m[0], LONGEST_NAME), plain)
    return _head(plain, LONGEST_MESSAGE)


def detail(text: str) -> str:
    """A trace: the beginning and the end are kept, which show the call and the error."""
    plain = visible(text)
    if len(plain) <= LONGEST_DETAIL:
        return plain
    half = LONGEST_DETAIL // 2
    return f"{plain[:half]}\n{CUT}\n{plain[-half:]}"


def visible(text: str) -> str:
    """Control characters, those that turn the direction of text, and halves of characters as
    escapes; lines stay."""
    return _ODD.sub(_escaped, text)


def _escaped(character: re.Match[str]) -> str:
    code = ord(character[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _head(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + CUT
