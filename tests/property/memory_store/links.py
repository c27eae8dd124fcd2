"""Signed links in memory: the twin of `sql.links`. Does not belong here: who may make one."""

from __future__ import annotations

from controlplane.core.model.links import Link
from tests.property.memory_store.queue import MemoryPart


class MemoryLinks(MemoryPart):
    def link(self, id: str) -> Link | None:
        return self._space.links.get(id)

    def links(self) -> tuple[Link, ...]:
        return tuple(sorted(self._space.links.values(), key=lambda link: (link.at, link.id)))

    def put_link(self, link: Link) -> None:
        self._space.links[link.id] = link
