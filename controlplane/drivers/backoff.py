"""How long to wait before another start where several in a row ended young."""

from __future__ import annotations

from dataclasses import dataclass, field

SHORT_LIFE_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


@dataclass(slots=True)
class Backoff:
    """How often in a row children of a kind died young, and until when none is started."""

    deaths: int = 0
    until: float = field(default=float("-inf"))

    def after(self, lived_s: float, now: float) -> None:
        self.deaths = self.deaths + 1 if lived_s < SHORT_LIFE_S else 0
        pause_s = (
            min(FIRST_PAUSE_S * 2.0 ** (self.deaths - 1), LONGEST_PAUSE_S) if self.deaths else 0.0
        )
        self.until = now + pause_s
