"""Making, granting and ending feeds, and what of a blueprint they keep from going."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import BadFeed, FeedInUse, InvalidBlueprint, NameTaken, NotFound
from controlplane.operations.desired import blueprints, feeds
from tests.unit.feeds.world import Installation, Team

READ = "dataflow: sales\ncomponents: {sold: {read: {connector: feed, feed: orders}}}"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    team = Installation(tmp_path).team("team-a")
    team.put("1.csv", (1, 10))
    team.sells()
    team.settle()
    return team


def test_a_feed_promises_all_columns_or_those_that_are_named(team: Team) -> None:
    whole = feeds.create(team.ctx, "orders", "shop.kept")
    assert whole["columns"] == [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}]
    assert (whole["generation"], whole["grants"], whole["readers"]) == (1, [], [])
    part = feeds.create(team.ctx, "keys", "shop.kept", "k BIGINT")
    assert part["columns"] == [{"name": "k", "type": "BIGINT"}]
    assert [one["name"] for one in feeds.listing(team.ctx)] == ["keys", "orders"]


def test_what_cannot_be_offered_or_granted_is_refused(team: Team) -> None:
    for name, columns in (
        ("Orders", None),
        ("keys", "k STRING"),
        ("keys", "gone INT"),
        ("keys", "k k k"),
    ):
        with pytest.raises(BadFeed):
            feeds.create(team.ctx, name, "shop.kept", columns)
    with pytest.raises(NotFound):
        feeds.create(team.ctx, "orders", "shop.none")
    feeds.create(team.ctx, "orders", "shop.kept")
    with pytest.raises(NameTaken):
        feeds.create(team.ctx, "orders", "shop.orders")
    for namespace, pattern in (("No", "*"), ("team-b", "a b"), ("team-b", "[ab]")):
        with pytest.raises(BadFeed):
            feeds.grant(team.ctx, "orders", namespace, pattern)
    with pytest.raises(NotFound):
        feeds.revoke(team.ctx, "orders", "team-b")
    assert feeds.show(team.ctx, "orders")["grants"] == []


def test_a_feed_that_is_read_stays_and_so_does_its_dataset(team: Team) -> None:
    feeds.create(team.ctx, "orders", "shop.kept")
    feeds.grant(team.ctx, "orders", "team-a", "sales")
    team.apply(READ, "sales")
    with pytest.raises(FeedInUse, match=r"sales\.sold"):
        feeds.delete(team.ctx, "orders")
    for end in (
        lambda: blueprints.delete(team.ctx, "main", "shop"),
        lambda: team.apply("dataflow: shop", "shop"),
    ):
        with pytest.raises(InvalidBlueprint):
            end()
    without = "dataflow: shop\ncomponents: {orders: {read: {connector: feed, feed: other}}}"
    with pytest.raises(InvalidBlueprint, match="offered-by-feed"):
        team.apply(without, "shop")

    blueprints.delete(team.ctx, "main", "sales")
    feeds.delete(team.ctx, "orders")
    blueprints.delete(team.ctx, "main", "shop")
    with pytest.raises(NotFound):  # although its rows are kept for a while
        feeds.create(team.ctx, "orders", "shop.kept")


def test_who_lost_the_grant_keeps_no_feed_alive(team: Team) -> None:
    feeds.create(team.ctx, "orders", "shop.kept")
    feeds.grant(team.ctx, "orders", "team-a", "sales")
    team.apply(READ, "sales")
    team.rest()
    feeds.revoke(team.ctx, "orders", "team-a", "sales")
    feeds.delete(team.ctx, "orders")
    team.rest()
    assert team.decision("sales.sold").status == "failed"
    assert team.rows("sales.sold") == [(1, 10)]


def test_a_namespace_is_told_what_it_is_offered_and_no_more(team: Team) -> None:
    other, third = team.of.team("team-b"), team.of.team("team-c")
    feeds.create(team.ctx, "orders", "shop.kept", "k BIGINT")
    feeds.create(team.ctx, "hidden", "shop.kept")
    feeds.grant(team.ctx, "orders", "team-b", "sales*")
    (found,) = feeds.offered(other.ctx)
    assert found == {
        "namespace": "team-a",
        "feed": "orders",
        "dataflows": ["sales*"],
        "columns": [{"name": "k", "type": "BIGINT"}],
        "generation": 1,
        "breaches": [],
    }
    assert feeds.offered(third.ctx) == []


@pytest.mark.parametrize(
    ("component", "place"),
    [
        ("{read: {connector: feed}}", "missing-key"),
        ("{read: {connector: feed, feed: Orders}}", "invalid-name"),
        ("{read: {connector: feed, feed: orders, namespace: A}}", "invalid-name"),
        ("{read: {connector: feed, feed: orders}, sort_by: [k]}", "conflicting-keys"),
        (
            "{read: {connector: feed, feed: orders}, expect: [{name: few, check: k > 1, on_fail: drop}]}",
            "conflicting-keys",
        ),
    ],
)
def test_a_blueprint_that_says_too_little_or_too_much_is_refused(
    team: Team, component: str, place: str
) -> None:
    with pytest.raises(InvalidBlueprint, match=place):
        team.apply(f"dataflow: sales\ncomponents: {{sold: {component}}}", "sales")
