"""Datasets that were rolled back, and are held there."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class DatasetHold(TypedDict):
    """`generation`: the earlier one whose rows the dataset has. `branch`: where it was rolled
    back."""

    branch: str
    generation: int
    actor: str
    since: str
    reason: str


class HeldDataset(DatasetHold):
    """A dataset for which nothing is planned, since it is held."""

    dataset: str


class RollbackEntry(TypedDict):
    """A dataset that was rolled back: from its generation `before`, to the rows of `back_to`, which
    came `at` that time. `generation` is the number under which they are read now."""

    dataset: str
    generation: int
    before: int
    back_to: int
    at: str
    rows: int


class RollbackAnswer(TypedDict):
    """The datasets that are held from now on. `left_out`: datasets that had no data at that
    time."""

    branch: str
    target: str
    held: list[RollbackEntry]
    left_out: list[str]
