"""Packs that are no longer needed, in memory: the twin of `sql.packs`. Does not belong here: which those are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.core.model.pack_origins import Origin, PendingDeletion
from tests.property.memory_store.queue import MemoryPart


class MemorySuperseded(MemoryPart):
    def put_origins(self, origins: Sequence[Origin]) -> None:
        self._space.origins.update((origin.pack, origin) for origin in origins)

    def origins(self) -> Iterator[Origin]:
        return iter(tuple(self._space.origins.values()))

    def drop_packs(self, packs: Sequence[bytes]) -> None:
        for pack in packs:
            self._space.origins.pop(pack, None)
            self._space.fragments.pop(pack, None)

    def put_leftovers(self, leftovers: Sequence[PendingDeletion]) -> None:
        self._space.leftovers.update((one.folder, one) for one in leftovers)

    def leftovers(self, due: float, limit: int) -> tuple[PendingDeletion, ...]:
        found = sorted((one.due, folder) for folder, one in self._space.leftovers.items() if one.due <= due)
        return tuple(self._space.leftovers[folder] for _, folder in found[:limit])

    def drop_leftovers(self, folders: Sequence[str]) -> None:
        for folder in folders:
            self._space.leftovers.pop(folder, None)
