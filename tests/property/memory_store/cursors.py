"""Cursors in memory: the twin of `sql.cursors`. Does not belong here: who reads them."""

from __future__ import annotations

from tests.property.memory_store.queue import MemoryPart


class MemoryCursors(MemoryPart):
    def cursor(self, name: str) -> int | None:
        return self._space.cursors.get(name)

    def move_cursor(self, name: str, event: int) -> None:
        self._space.cursors[name] = max(event, self._space.cursors.get(name, event))
