"""Feeds in memory: the twin of `sql.feeds`. Does not belong here: the content of a feed."""

from __future__ import annotations

from controlplane.core.model.feeds import Feed
from tests.property.memory_store.queue import MemoryPart


class MemoryFeeds(MemoryPart):
    def feeds(self) -> tuple[Feed, ...]:
        return tuple(sorted(self._space.feeds.values(), key=lambda feed: feed.name))
