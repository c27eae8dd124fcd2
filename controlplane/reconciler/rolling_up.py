"""Rolling up as a habit: now and then. `upkeep.roll_up` decides which slices are due."""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.operations.upkeep import roll_up
from controlplane.ports.store import Store

LOOK_S = 60.0


@dataclass(slots=True)
class RollingUp:
    """The roll-ups of one namespace."""

    store: Store
    namespace: str
    _looked: float = field(default=float("-inf"))
    _memory: roll_up.ScanMemory = field(default_factory=roll_up.ScanMemory)

    def step(self, now_s: float) -> bool:
        """To be called often; `now_s` is any clock that goes on. True if slices were rolled up, so
        that there is something to plan, and perhaps more to roll up."""
        if now_s - self._looked < LOOK_S:
            return False
        if roll_up.roll_up(self.store, self.namespace, memory=self._memory):
            return True
        self._looked = now_s
        return False
