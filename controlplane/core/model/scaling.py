"""How many drivers are worth having: grow at once, shrink late.

Does not belong here: starting and ending them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from controlplane.core.model.tasks import Size

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one pool. One more is worth while for each `tasks_each` tasks that wait or run."""

    minimum: int
    maximum: int
    idle_s: float = 900.0
    tasks_each: int = 64

    def worth(self, tasks: int) -> int:
        return min(self.maximum, max(self.minimum, -(-tasks // self.tasks_each)))


@dataclass(frozen=True, slots=True)
class Share:
    """What a pool has of one kind and size of drivers, and the sizes of the tasks that those take."""

    kind: str
    size: Size
    serves: tuple[Size, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Level:
    """How many are kept, and the time when that many were last worth while."""

    kept: int
    at: float

    def after(self, limits: Limits, tasks: int, now: float) -> Level:
        worth = limits.worth(tasks)
        if worth >= self.kept or now - self.at > limits.idle_s:
            return Level(worth, now)
        return Level(min(self.kept, limits.maximum), self.at)


def surplus(idle: Sequence[T], running: int, wanted: int) -> Sequence[T]:
    """Whom to end, so that `wanted` of those `running` remain: the last of the idle ones, and nobody who is busy."""
    return idle[max(0, wanted - (running - len(idle))) :]
