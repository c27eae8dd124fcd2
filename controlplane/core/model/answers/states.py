"""How a dataset or a whole stands, in a word."""

from __future__ import annotations

from typing import Literal, TypeAlias

State: TypeAlias = Literal[
    "up_to_date", "stale", "building", "failed", "blocked", "waiting", "paused", "held"
]
"""How a dataset, a target, a dataflow or all of them stand: `core.plan.Status`."""

Level: TypeAlias = Literal["failed", "warning"]
LEVELS: tuple[Level, ...] = ("failed", "warning")
