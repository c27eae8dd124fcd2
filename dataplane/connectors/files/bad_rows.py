"""The fault of a file whose rows cannot be written as CSV."""

from __future__ import annotations

from collections.abc import Iterable

BAD_FILE = 2  # the exit code of the process that says so


class BadRows(ValueError):
    """`line` is the place in the file, from 1."""

    def __init__(
        self, message: str, condition: str = "MALFORMED_FILE", line: int | None = None
    ) -> None:
        super().__init__(message)
        self.condition, self.line = condition, line


def check_names(names: Iterable[str]) -> None:
    """BadRows if two columns have one name. A column without a name is named by its place."""
    names_before: set[str] = set()
    for name in filter(None, names):
        if name in names_before:
            message = f"two columns are named {name[:100]!r}: rename one of them"
            raise BadRows(message, "schema-clash")
        names_before.add(name)
