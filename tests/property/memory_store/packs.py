"""Packs that are no longer needed, in memory: the twin of `sql.upkeep`. Does not belong here: which
those are."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.model.pack_origins import Origin
from tests.property.memory_store.queue import MemoryPart


class MemorySuperseded(MemoryPart):
    def origins(self) -> Iterator[Origin]:
        return iter(tuple(self._space.origins.values()))
