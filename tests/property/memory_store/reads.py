"""Reads of data in memory: the twin of `sql.reads`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from controlplane.core.model.reads import Read
from tests.property.memory_store.queue import MemoryPart


class MemoryReads(MemoryPart):
    def put_reads(self, reads: Sequence[Read]) -> None:
        for read in reads:
            self._space.reads[self._count("reads")] = read

    def reads(
        self, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
    ) -> tuple[Read, ...]:
        newest_first = (read for _, read in sorted(self._space.reads.items(), reverse=True))
        told = (
            read
            for read in newest_first
            if branch in (None, read.branch) and since <= read.at and (until is None or read.at < until)
        )
        return tuple(islice(told, limit))

    def drop_reads(self, before: float, limit: int) -> int:
        old = sorted((read.at, number) for number, read in self._space.reads.items() if read.at < before)[:limit]
        for _, number in old:
            del self._space.reads[number]
        return len(old)
