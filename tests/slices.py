"""Slices of sweeps: `make test` runs one in so many of a sweep's cases, the next commit the next
ones, `make soak` all.

A sweep has many cases of one kind, such as seeds: each may find what the others miss, and none
guards code of its own. Does not belong here: which sweeps there are. Each says beside itself why it
may be sliced.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

C = TypeVar("C")
T = TypeVar("T", bound=Callable[..., Any])
NAME = "HEADGATE_SLICE"
SHORT_HASH = 8
SOAKING = 1_000  # examples of a property from which on its profile is that of `make soak`


def turn() -> int:
    """HEADGATE_SLICE if it is set, else a number that grows by one with each commit; 0 where git
    does not tell."""
    given = os.environ.get(NAME)
    if given:
        return int(given)
    if _git("rev-parse", "--is-shallow-repository") == "true":  # its commits cannot be counted
        return int(_git("rev-parse", "HEAD")[:SHORT_HASH] or "0", 16)
    return int(_git("rev-list", "--count", "--first-parent", "HEAD") or "0")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


TURN = turn()


def in_turn(number: int, of: int, now: int = TURN) -> list[pytest.MarkDecorator]:
    """Marks of the `number`-th of `of` cases that take turns: one is part of this run, the others
    of `make soak`."""
    marks = [pytest.mark.sweep]
    if number % of != now % of:
        marks.append(pytest.mark.soak)
    return marks


def takes_turns(number: int, of: int) -> Callable[[T], T]:
    """The same for a test that is a case by itself."""

    def marked(test: T) -> T:
        for mark in in_turn(number, of):
            test = mark(test)
        return test

    return marked


def sliced(cases: Iterable[Any], of: int, now: int = TURN) -> list[Any]:
    """Cases for `parametrize`: one in `of` of them, evenly spread, is part of this run, the others
    of `make soak`.

    A case is one value, or a `pytest.param`.
    """
    found = []
    for number, case in enumerate(cases):
        param = case if hasattr(case, "marks") else pytest.param(case)
        marks = [*in_turn(number, of, now), *param.marks]
        found.append(pytest.param(*param.values, marks=marks, id=param.id))
    return found


def part_of(cases: Iterable[C], of: int, now: int = TURN) -> list[C]:
    """Cases of a loop within one test, which is marked `sweep`: one in `of`, evenly spread; in
    `make soak` all."""
    return [case for number, case in enumerate(cases) if _soaks() or number % of == now % of]


def examples(few: int, many: int) -> int:
    """`max_examples` of a property whose examples are dear: `few` in `make test`, `many` in `make
    soak`."""
    return many if _soaks() else few


def _soaks() -> bool:
    profile = settings.default
    return profile is not None and profile.max_examples > SOAKING
