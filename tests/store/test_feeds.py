"""Feeds, and to whom they are granted."""

from __future__ import annotations

from tests.store.conftest import World
from tests.store.examples import SCHEMA, feed, feed_grant


def test_feeds_are_kept_as_they_were_put(world: World) -> None:
    with world.begin() as tx:
        tx.feeds.put(feed("b"))
        tx.feeds.put(feed("a", columns={**SCHEMA, "fields": SCHEMA["fields"][:1]}))
        tx.feeds.put(feed("b", dataset="flights.b"))
    with world.read() as tx:
        assert [one.name for one in tx.feeds.all()] == ["a", "b"]
        assert tx.feeds.get("b") == feed("b", dataset="flights.b")
        found = tx.feeds.get("a")
        assert found is not None
        assert found.columns["fields"] == SCHEMA["fields"][:1]
        assert tx.feeds.get("c") is None


def test_a_feed_goes_with_its_grants_alone(world: World) -> None:
    with world.begin() as tx:
        for name in ("a", "b"):
            tx.feeds.put(feed(name))
            tx.feeds.put_grant(feed_grant(name, "team-b"))
            tx.feeds.put_grant(feed_grant(name, "team-a", "sales*"))
            tx.feeds.put_grant(feed_grant(name, "team-a", "sales*"))
    with world.read() as tx:
        assert tx.feeds.grants("a") == (
            feed_grant("a", "team-a", "sales*"),
            feed_grant("a", "team-b"),
        )
        assert len(tx.feeds.grants()) == 4
    with world.begin() as tx:
        tx.feeds.drop_grant(feed_grant("b", "team-b"))
        tx.feeds.drop("a")
    with world.read() as tx:
        assert tx.feeds.all() == (feed("b"),)
        assert tx.feeds.grants() == (feed_grant("b", "team-a", "sales*"),)
