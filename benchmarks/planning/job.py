"""What a child process is asked to measure. Does not belong here: anything that takes time to
import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """`layers`, `width`, `columns` and `partitions` are those of a graph's Shape.

    `is_shared`: others come after on the same store, so each run takes back what it did to
    listings.
    """

    scenario: str
    url: str
    layers: int
    width: int
    columns: int
    partitions: int
    runs: int = 1
    is_shared: bool = False
