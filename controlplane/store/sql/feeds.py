"""Feeds and their grants. Does not belong here: the content of a feed."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from controlplane.core.model.feeds import Feed, FeedGrant
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump


class SqlFeeds(Part):
    def all(self) -> tuple[Feed, ...]:
        rows = self._rows_of(db.feeds)
        return tuple(sorted((_feed(row) for row in rows), key=lambda feed: feed.name))

    def get(self, name: str) -> Feed | None:
        row = self._row_of(db.feeds, name=name)
        return None if row is None else _feed(row)

    def put(self, feed: Feed) -> None:
        row = {
            "name": feed.name,
            "dataset": feed.dataset,
            "columns": dump(feed.columns),
            "actor": feed.actor,
            "at": feed.at,
        }
        self._upsert(db.feeds, [row])

    def drop(self, name: str) -> None:
        self._delete(db.feed_grants, feed=name)
        self._delete(db.feeds, name=name)

    def grants(self, feed: str | None = None) -> tuple[FeedGrant, ...]:
        only = {} if feed is None else {"feed": feed}
        rows = self._rows_of(db.feed_grants, **only)
        grants = (_grant(row) for row in rows)
        return tuple(sorted(grants, key=lambda grant: (grant.feed, grant.namespace, grant.dataflows)))

    def put_grant(self, grant: FeedGrant) -> None:
        self._upsert(db.feed_grants, [{**_key(grant), "actor": grant.actor, "at": grant.at}])

    def drop_grant(self, grant: FeedGrant) -> None:
        self._delete(db.feed_grants, **_key(grant))


def _feed(row: Row[Any]) -> Feed:
    return Feed(row.name, row.dataset, json.loads(row.columns), row.actor, row.at)


def _grant(row: Row[Any]) -> FeedGrant:
    return FeedGrant(row.feed, row.reader, row.dataflows, row.actor, row.at)


def _key(grant: FeedGrant) -> dict[str, Any]:
    return {"feed": grant.feed, "reader": grant.namespace, "dataflows": grant.dataflows}
