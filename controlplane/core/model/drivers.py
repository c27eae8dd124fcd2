"""Processes that pull work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from controlplane.core.model.driver_ends import STARTING
from controlplane.core.model.tasks import Size

NOTICE_S = 10.0  # before the first notice that Spark is starting, and between two

Fault: TypeAlias = Literal[
    "",
    "crashed",
    "memory",
    "deadline",
    "evicted",
    "disrupted",
    "quota",
    "refused",
    "image",
    "unschedulable",
]


@dataclass(frozen=True, slots=True)
class Driver:
    """A child or pod that pulls work. `pool` is `local` or `kubernetes`; `kind` determines if it
    has a JVM.

    `seen` moves once, when it ends: an unchanged driver is not stored again. `reason` is that of
    its end, or of its waiting. The `fault` is what its attempts ended of; it
    and the `size` are not stored.
    """

    id: str
    pool: str
    kind: Literal["driver", "worker"]
    at: float
    seen: float
    ended: bool = False
    reason: str = ""
    fault: Fault = field(default="", compare=False)
    size: Size = field(default="standard", compare=False)


def spark_starting_s(drivers: Iterable[Driver], now: float) -> float | None:
    """The longest time for which one of these drivers has been starting Spark; None if none is."""
    times = [
        now - driver.at for driver in drivers if driver.reason == STARTING and not driver.ended
    ]
    return max(0.0, *times) if times else None


class StartNotices:
    """The sentences that say, every NOTICE_S seconds, that Spark is still starting."""

    def __init__(self) -> None:
        self._last_s = 0.0

    def sentence(self, starting_s: float | None) -> str | None:
        """The sentence that is due after `starting_s` seconds; None if none is."""
        if starting_s is None:
            self._last_s = 0.0
            return None
        if starting_s < self._last_s + NOTICE_S:
            return None
        self._last_s = starting_s
        return f"{STARTING}, {starting_s:.0f} s"
