"""A world that works until nothing is under way, whatever becomes of single datasets.

Does not belong here: what harms it.
"""

from __future__ import annotations

from controlplane.operations.desired import controls
from tests.property.world import BRANCH, World

LONG_S = 1_000.0
PASSES = 60


class Resting(World):
    """Unlike its base, it does not expect that all datasets come to what they should be."""

    def go_on(self) -> dict[str, str]:
        """List everything, and work until nothing is under way; the status of every dataset and
        copy."""
        controls.refresh(self.ctx, BRANCH, None)
        for _ in range(PASSES):
            last, worked = self.once(), False
            while self.engine.step():
                worked = True
            if not worked and not last.changed and not last.under_way and not self._is_listing():
                return {d.dataset: d.status for d in last.plan.decisions}
            self._now += LONG_S
        raise AssertionError(f"no rest after {PASSES} passes (I7)")
