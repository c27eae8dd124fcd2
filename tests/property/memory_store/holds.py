"""Holds in memory: the twin of `sql.states`. Does not belong here: the states that they hold."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core.model import change_marks
from controlplane.core.model.holds import Hold
from tests.property.memory_store.queue import MemoryPart


class MemoryHolds(MemoryPart):
    def holds(self, branch: str) -> dict[str, Hold]:
        return {name: hold for (b, name), hold in self._space.holds.items() if b == branch}

    def put_hold(self, hold: Hold) -> None:
        self._space.holds[hold.branch, hold.dataset] = hold
        self._mark(hold.branch, change_marks.HOLDS, hold.dataset)

    def drop_holds(self, branch: str, datasets: Iterable[str]) -> None:
        names = list(datasets)
        if not names:
            return
        for name in names:
            self._space.holds.pop((branch, name), None)
        self._mark(branch, change_marks.HOLDS, *names)
