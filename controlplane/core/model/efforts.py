"""Work by dataset and day: what attempts took, and what did not have to run."""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Effort:
    """One dataset's work on one day, counted from 1970-01-01 in UTC.

    Attempts count on the day on which they ended, failed ones among them. `seconds`: those of
    drivers and workers; 0 of an attempt whose duration is not known. `reused`: partitions that
    entered a state from memory; `unchanged`: commits that changed nothing that readers see.
    """

    dataset: str
    day: int
    attempts: int
    tasks: int
    seconds: float
    bytes_read: int
    bytes_written: int
    reused: int
    unchanged: int
