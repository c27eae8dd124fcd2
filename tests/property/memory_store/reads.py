"""Reads of data in memory: the twin of `sql.audit_trail`."""

from __future__ import annotations

from tests.property.memory_store.queue import MemoryPart


class MemoryReads(MemoryPart):
    def drop_reads(self, before: float, limit: int) -> int:
        old = sorted(
            (read.at, number) for number, read in self._space.reads.items() if read.at < before
        )[:limit]
        for _, number in old:
            del self._space.reads[number]
        return len(old)
