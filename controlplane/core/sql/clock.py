"""Where a query reads the clock, and the literal that is put there instead: the time of the plan.

A literal has the type of the function that it stands for, so that the schema stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from controlplane.core import zone_periods
from controlplane.core.sql import functions
from controlplane.core.sql.edits import Edit
from controlplane.core.sql.scan import Lexeme

SECONDS: Final = "unix_timestamp"  # of the clock only without arguments
_MOVING: Final = re.compile(
    r"""[rR]?['"]\s*(now|today|tomorrow|yesterday)(\s+[^'"]*)?['"]""", re.IGNORECASE
)
_DAYS: Final = frozenset({"curdate", "current_date"})


def is_read(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    """Does a call without arguments that asks for the time begin here?"""
    lexeme, behind = lexemes[at], lexemes[at + 1 : at + 3]
    if lexeme.token.name.lower() not in functions.CLOCK | {SECONDS} or not lexeme.is_call:
        return False
    is_member = at > 0 and lexemes[at - 1].is_symbol(".")
    return (
        not is_member and len(behind) == 2 and behind[0].is_symbol("(") and behind[1].is_symbol(")")
    )


def is_moving(lexeme: Lexeme) -> bool:
    """A text that Spark reads as another time in each run, where it meets a date or a timestamp."""
    return lexeme.token.kind == "string" and _MOVING.fullmatch(lexeme.token.text) is not None


def readings(lexemes: tuple[Lexeme, ...]) -> Iterator[tuple[str, int, int]]:
    """The function's name, and its place [start, end) in the text."""
    for at, lexeme in enumerate(lexemes):
        if is_read(lexemes, at):
            yield lexeme.token.name.lower(), lexeme.token.start, lexemes[at + 2].token.end


def stopped(lexemes: tuple[Lexeme, ...], as_of: float, timezone: str) -> Iterator[Edit]:
    """What makes the query read this time instead."""
    for name, start, end in readings(lexemes):
        yield Edit(start, end, _literal(name, as_of, timezone))


def _literal(name: str, as_of: float, timezone: str) -> str:
    if name == SECONDS:
        return f"CAST({int(as_of)} AS BIGINT)"
    local = zone_periods.local(as_of, timezone)
    if name in _DAYS:
        return f"DATE'{local.date().isoformat()}'"
    if name == "localtimestamp":
        return f"TIMESTAMP_NTZ'{_text(local)}'"
    return f"TIMESTAMP_LTZ'{_text(zone_periods.local(as_of, 'UTC'))}Z'"


def _text(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
