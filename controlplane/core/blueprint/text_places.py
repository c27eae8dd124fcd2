"""Places in the texts of users, and the values of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from controlplane.core.errors import Problem

ParamValue: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where something stands. Lines and columns count from 1."""

    file: str
    line: int
    column: int

    def problem(self, code: str, message: str, hint: str = "") -> Problem:
        """A problem that stands here."""
        return Problem(self.file, self.line, self.column, code, message, hint)


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where the first character of a user's text stands.

    `exact`: every line of the text is one line of the file, at the same indent. Otherwise (folded
    or escaped text) only its beginning is known.
    """

    file: str
    line: int
    column: int
    exact: bool

    def at(self, line: int, column: int) -> Position:
        """The place of a line and column of the text itself, both counted from 1."""
        if not self.exact:
            return Position(self.file, self.line, self.column)
        return Position(self.file, self.line + line - 1, self.column + column - 1)
