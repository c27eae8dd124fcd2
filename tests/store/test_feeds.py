"""Feeds, and to whom they are granted."""

from __future__ import annotations

from tests.store.conftest import World
from tests.store.examples import SCHEMA, feed, feed_grant


def test_feeds_are_kept_as_they_were_put(world: World) -> None:
    with world.begin() as tx:
        tx.put_feed(feed("b"))
        tx.put_feed(feed("a", columns={**SCHEMA, "fields": SCHEMA["fields"][:1]}))
        tx.put_feed(feed("b", dataset="flights.b"))
    with world.read() as tx:
        assert [one.name for one in tx.feeds()] == ["a", "b"]
        assert tx.feed("b") == feed("b", dataset="flights.b")
        found = tx.feed("a")
        assert found is not None
        assert found.columns["fields"] == SCHEMA["fields"][:1]
        assert tx.feed("c") is None


def test_a_feed_goes_with_its_grants_alone(world: World) -> None:
    with world.begin() as tx:
        for name in ("a", "b"):
            tx.put_feed(feed(name))
            tx.put_feed_grant(feed_grant(name, "team-b"))
            tx.put_feed_grant(feed_grant(name, "team-a", "sales*"))
            tx.put_feed_grant(feed_grant(name, "team-a", "sales*"))
    with world.read() as tx:
        assert tx.feed_grants("a") == (feed_grant("a", "team-a", "sales*"), feed_grant("a", "team-b"))
        assert len(tx.feed_grants()) == 4
    with world.begin() as tx:
        tx.drop_feed_grant(feed_grant("b", "team-b"))
        tx.drop_feed("a")
    with world.read() as tx:
        assert tx.feeds() == (feed("b"),)
        assert tx.feed_grants() == (feed_grant("b", "team-a", "sales*"),)
