"""Collecting problems with their places, so that a user hears of all of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, TypeAlias

from controlplane.core.blueprint.model import Use
from controlplane.core.blueprint.text_places import Position
from controlplane.core.errors import InvalidBlueprint, Problem

# Every code has its row in docs/errors.md.
Code: TypeAlias = Literal[
    "too-large",
    "invalid-encoding",
    "invalid-character",
    "invalid-yaml",
    "too-deep",
    "too-many-nodes",
    "yaml-anchor",
    "yaml-tag",
    "several-documents",
    "duplicate-key",
    "invalid-key",
    "invalid-number",
    "wrong-type",
    "invalid-value",
    "invalid-name",
    "name-clash",
    "missing-key",
    "unknown-key",
    "unknown-reference",
    "conflicting-keys",
    "not-supported",
    "literal-secret",
    "invalid-duration",
    "invalid-path",
    "place-refused",
    "invalid-partition",
    "invalid-schema",
    "missing-file",
    "invalid-python",
    "missing-entrypoint",
    "unsupported-signature",
    "missing-input",
    "self-reference",
    "cycle",
    "input-is-write",
    "duplicate-dataflow",
    "too-many-problems",
]

MOST_PROBLEMS = 1000
_MOST_GUESSES = 100
_LONGEST_GUESS = 64  # names are short; comparing anything longer only costs time
_MOST_CANDIDATES = 1000


class BlueprintRefused(Exception):
    """A value cannot be used."""


class Problems:
    """An append-only list of problems, cut off where no reader would follow."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._dropped = 0
        self.noted = 0  # also those that are reported once for several components

    def __bool__(self) -> bool:
        return bool(self._problems)

    def add(self, place: Position, code: Code, message: str, hint: str = "") -> None:
        self.noted += 1
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(place.problem(code, message, hint))
        else:
            self._dropped += 1

    def refuse(self, place: Position, code: Code, message: str, hint: str = "") -> BlueprintRefused:
        """Record a problem; the answer is for `raise`."""
        self.add(place, code, message, hint)
        return BlueprintRefused()

    def guess(self, word: str, candidates: Iterable[str]) -> str:
        """`did_you_mean`, for the first problems only: comparing names takes longer than finding
        them missing."""
        return did_you_mean(word, candidates) if len(self._problems) < _MOST_GUESSES else ""

    def holds(self, place: Position, code: Code, message: str) -> bool:
        """Whether a problem is known, with another component that uses the same part."""
        at = (place.file, place.line, place.column, code)
        same = (p for p in self._problems if (p.file, p.line, p.column, p.code) == at)
        return any(
            p.message == message or p.message.startswith(f"{message}; component ") for p in same
        )

    def raise_if_any(self) -> None:
        if self._problems:
            raise InvalidBlueprint(self.in_order)

    @property
    def in_order(self) -> tuple[Problem, ...]:
        """In order of place; a last one counts those that were dropped."""
        in_order = sorted(self._problems)
        if self._dropped:
            last = in_order[-1]
            message = f"{self._dropped} more problems are not shown"
            in_order.append(
                Problem(
                    last.file,
                    last.line,
                    last.column,
                    "too-many-problems",
                    message,
                    "fix these first",
                )
            )
        return tuple(in_order)


class ProblemsOfUse(Problems):
    """The problems of a component that takes parts from elsewhere: they go to those of the
    document.

    A problem of a part that several components use is reported once, with the first of them.
    """

    def __init__(self, problems: Problems, use: Use) -> None:
        super().__init__()
        self._of_document, self._use = problems, use

    def add(self, place: Position, code: Code, message: str, hint: str = "") -> None:
        if self._of_document.holds(place, code, message):
            self._of_document.noted += 1
        else:
            self._of_document.add(place, code, self._use.message_at(place, message), hint)

    def guess(self, word: str, candidates: Iterable[str]) -> str:
        return self._of_document.guess(word, candidates)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A hint with the closest known name, or nothing."""
    if len(word) > _LONGEST_GUESS:
        return ""
    near = [c for c in candidates if abs(len(c) - len(word)) <= len(word) // 2 + 1][
        :_MOST_CANDIDATES
    ]
    matches = get_close_matches(word.lower(), near, n=1)
    return f"did you mean {matches[0]!r}?" if matches else ""


def shown(text: str) -> str:
    """A user's text as it may stand in a message: quoted and short."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
