"""The part of a transaction that is about holds.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.model.holds import Hold


class Holds(Protocol):
    """Holds of one namespace. A branch never reads those of main here: which of them hold for it follows from the
    datasets that it overrides. They end with a deletion of their dataflow, and where their dataset is shared with main
    again."""

    def holds(self, branch: str) -> dict[str, Hold]:
        """By dataset."""

    def put_hold(self, hold: Hold) -> None:
        """Insert or replace."""

    def drop_holds(self, branch: str, datasets: Iterable[str]) -> None: ...
