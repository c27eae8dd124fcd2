"""Feeds in memory: the twin of `sql.feeds`. Does not belong here: the content of a feed."""

from __future__ import annotations

from controlplane.core.model.feeds import Feed, FeedGrant
from tests.property.memory_store.queue import MemoryPart


class MemoryFeeds(MemoryPart):
    def feeds(self) -> tuple[Feed, ...]:
        return tuple(sorted(self._space.feeds.values(), key=lambda feed: feed.name))

    def feed(self, name: str) -> Feed | None:
        return self._space.feeds.get(name)

    def put_feed(self, feed: Feed) -> None:
        self._space.feeds[feed.name] = feed

    def drop_feed(self, name: str) -> None:
        for grant in self.feed_grants(name):
            self.drop_feed_grant(grant)
        self._space.feeds.pop(name, None)

    def feed_grants(self, feed: str | None = None) -> tuple[FeedGrant, ...]:
        found = (grant for grant in self._space.feed_grants.values() if feed is None or grant.feed == feed)
        return tuple(sorted(found, key=lambda grant: (grant.feed, grant.namespace, grant.dataflows)))

    def put_feed_grant(self, grant: FeedGrant) -> None:
        self._space.feed_grants[grant.feed, grant.namespace, grant.dataflows] = grant

    def drop_feed_grant(self, grant: FeedGrant) -> None:
        self._space.feed_grants.pop((grant.feed, grant.namespace, grant.dataflows), None)
