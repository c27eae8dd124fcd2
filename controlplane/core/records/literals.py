"""Literals of a condition as values: texts between quotes, dates and times."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

_PIECE = re.compile(
    r"""(?P<raw>[rR](?:'[^']*'|"[^"]*"))|(?P<plain>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SHORT = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII
)


def unquoted(token: str) -> str:
    """What a literal of Spark's means: `'it''s'`, `'it\\'s'` and `"it's"` are one text, `r'\\d'`
    has its backslash."""
    text, quote = "", ""
    for match in _PIECE.finditer(token):
        if match["raw"]:
            text += match["raw"][2:-1]
        else:
            piece = match["plain"]
            if quote == piece[0]:
                text += quote  # it is doubled
            text += _ESCAPE.sub(_unescaped, piece[1:-1])
        quote = match[0][-1]
    return text


def _unescaped(match: re.Match[str]) -> str:
    meant = match[1]
    if len(meant) == 5:
        return chr(int(meant[1:], 16))
    if meant in "%_":
        return match[0]  # LIKE reads it
    return _SHORT.get(meant, meant)


def date_text(text: str) -> str | None:
    """None unless the text is a date such as 2013-02-28."""
    try:
        return (
            date.fromisoformat(text).isoformat()
            if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII)
            else None
        )
    except ValueError:
        return None


def instant_text(text: str) -> str | None:
    """A time with its zone, in UTC; None unless the text is one."""
    moment = _time(text, has_zone=True)
    if moment is None:
        return None
    try:
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        return None


def local_text(text: str) -> str | None:
    """A time, or the beginning of a day, without a zone; None unless the text is one."""
    moment = _time(text, has_zone=False)
    return None if moment is None else moment.isoformat(timespec="microseconds")


def _time(text: str, *, has_zone: bool) -> datetime | None:
    match = _TIME.fullmatch(text)
    if match is None or bool(match["zone"]) != has_zone:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
