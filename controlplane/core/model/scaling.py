"""How many drivers are worth having: grow at once, shrink late; and who gets them where they are
too few for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from controlplane.core.model.tasks import Size
from dataplane.contract.kinds import Process

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Limits of one pool. One more is worth while for each `tasks_each` tasks that wait or run."""

    minimum: int
    maximum: int
    idle_s: float = 900.0
    tasks_each: int = 64

    def worth(self, tasks: int) -> int:
        return min(self.maximum, max(self.minimum, -(-tasks // self.tasks_each)))


Keep: TypeAlias = Literal["warm", "idle", "cold"]


@dataclass(frozen=True, slots=True)
class DriverKeep:
    """How long a dataflow's drivers stay without work. `idle_s` in seconds, of `idle` alone; None:
    as the pool says."""

    keep: Keep = "idle"
    idle_s: float | None = None

    def within(self, limits: PoolLimits, tasks: int) -> PoolLimits:
        """The limits of a pool whose drivers only this dataflow needs. `tasks`: that wait or run;
        while there are some, `cold` ends no driver early."""
        if self.keep == "warm":
            return replace(limits, minimum=max(limits.minimum, min(1, limits.maximum)))
        if self.keep == "cold":
            return limits if tasks else replace(limits, idle_s=0.0)
        return limits if self.idle_s is None else replace(limits, idle_s=self.idle_s)


USUAL_KEEP = DriverKeep()  # of dataflows that do not choose


def warmest(limits: PoolLimits, keeps: Sequence[DriverKeep], tasks: int) -> PoolLimits:
    """The limits of a pool whose drivers several dataflows need: the longest stay counts."""
    if not keeps:
        return limits
    each = [keep.within(limits, tasks) for keep in keeps]
    minimum = max(of.minimum for of in each)
    return replace(limits, minimum=minimum, idle_s=max(of.idle_s for of in each))


@dataclass(frozen=True, slots=True)
class PoolShare:
    """What a pool has of one kind and size of drivers, and the sizes of the tasks that those
    take."""

    kind: Process
    size: Size
    serves: tuple[Size, ...]
    limits: PoolLimits
    # In all namespaces together, where that is more than one of them may have
    most: int | None = None

    @property
    def room(self) -> int:
        return self.limits.maximum if self.most is None else self.most


@dataclass(frozen=True, slots=True)
class Level:
    """How many are kept, and the time when that many were last worth while."""

    count: int
    at: float

    def after(self, limits: PoolLimits, tasks: int, now: float) -> Level:
        worth = limits.worth(tasks)
        if worth >= self.count or now - self.at > limits.idle_s:
            return Level(worth, now)
        return Level(min(self.count, limits.maximum), self.at)


def surplus(idle: Sequence[T], running: int, target: int) -> Sequence[T]:
    """The drivers to end, so that `target` of those `running` remain: the last of the idle ones,
    never a busy one."""
    return idle[max(0, target - (running - len(idle))) :]


def fair(targets: Mapping[str, int], room: int, order: Sequence[str]) -> dict[str, int]:
    """Each one's share of `room`, at most its target: no share exceeds by two or more that of
    another whose target is not met. What cannot be split goes to the first ones in `order`."""
    got = dict.fromkeys(order, 0)
    left = room
    while left > 0 and (short := [name for name in order if got[name] < targets[name]]):
        for name in short[:left]:
            got[name] += 1
        left -= min(left, len(short))
    return got
