"""Feeds and their grants. Does not belong here: the content of a feed."""

from __future__ import annotations

from controlplane.core.model.feeds import Feed, FeedGrant
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record

_FEEDS = Record(db.feeds, Feed)
_GRANTS = Record(db.feed_grants, FeedGrant, namespace="reader")


class SqlFeeds(TableGroup):
    def all(self) -> tuple[Feed, ...]:
        return tuple(sorted(self._values_of(_FEEDS), key=lambda feed: feed.name))

    def get(self, name: str) -> Feed | None:
        return self._value_of(_FEEDS, name=name)

    def put(self, feed: Feed) -> None:
        self._put(_FEEDS, [feed])

    def drop(self, name: str) -> None:
        self._delete(db.feed_grants, feed=name)
        self._delete(db.feeds, name=name)

    def grants(self, feed: str | None = None) -> tuple[FeedGrant, ...]:
        only = {} if feed is None else {"feed": feed}
        grants = self._values_of(_GRANTS, **only)
        return tuple(
            sorted(grants, key=lambda grant: (grant.feed, grant.namespace, grant.dataflows))
        )

    def put_grant(self, grant: FeedGrant) -> None:
        self._put(_GRANTS, [grant])

    def drop_grant(self, grant: FeedGrant) -> None:
        key = {"feed": grant.feed, "reader": grant.namespace, "dataflows": grant.dataflows}
        self._delete(db.feed_grants, **key)
