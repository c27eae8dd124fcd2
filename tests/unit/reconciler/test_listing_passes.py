"""Listings cost few passes of the loop."""

from __future__ import annotations

import threading
from pathlib import Path

from controlplane.reconciler.loop import IDLE_S, Progress
from controlplane.reconciler.wake import WakeCounter
from tests.unit.reconciler.test_reasons import Place


class Waits(WakeCounter):
    """Ends the loop at its first wait. `seconds`: for how long that would have been; 0 where a
    notice ends it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.over, self.seconds = threading.Event(), 0.0

    def wait(self, timeout_s: float, count: int | None = None) -> None:
        self.seconds = timeout_s if count == self.count else 0.0
        self.over.set()


def test_one_pass_queues_what_is_due_and_the_loop_waits(tmp_path: Path) -> None:
    """Else it passes again and again while workers list, each time over all of the graph."""
    place, waits, passes = Place(tmp_path), Waits(), list[Progress]()
    place.loop.wake, place.loop.on_progress = waits, passes.append
    place.loop.run(waits.over)
    assert waits.count > 0, "a worker that waits is told"
    assert len(passes) == 1
    assert waits.seconds == IDLE_S
