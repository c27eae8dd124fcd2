"""What expectations found: answers, which are remembered, and results, which users see."""

from __future__ import annotations

from typing import (
    Literal,
    NotRequired,  # pydantic describes no other kind on Python 3.11
)

from typing_extensions import TypedDict


class Example(TypedDict):
    """A failing row, as JSON, and its partition; None where the whole dataset was looked at."""

    partition: str | None
    row: str


class CheckFinding(TypedDict):
    """What one expectation found in some rows. Drivers send examples as texts; sums also have their
    partitions."""

    rows: int
    failing: int
    examples: list[str | Example]
    after: NotRequired[str | None]  # the last partition that is in it; None, or absent: all are


class CheckResult(TypedDict):
    """What one expectation came to. `rows` and `failing` are None where they say nothing, or are
    not known any more."""

    name: str
    expects: str
    on_fail: str
    threshold: float
    rows: int | None
    failing: int | None
    state: Literal["ok", "warning", "failed"]
    examples: list[Example]
