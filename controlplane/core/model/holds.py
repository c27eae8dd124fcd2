"""Holds: datasets that an operator rolled back, and that stay as they were then until the hold is
released."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`seq`: the state that the rollback wrote. `generation`: the earlier one whose rows that state
    has. `at`: seconds since 1970."""

    branch: str
    dataset: str
    seq: int
    generation: int
    actor: str
    at: float
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The hold as text: generation, actor, time and reason."""
        since = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        words = f"held at generation {self.generation} by {self.actor} since {since}"
        return f"{words}: {self.reason}" if self.reason else words
