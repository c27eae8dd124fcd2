"""A feed between two namespaces: what is offered is taken over as it is, and nothing is computed
again."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import BadFeed, FeedInUse
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import DatasetStatus
from controlplane.operations.desired import branches, feeds, rollback
from controlplane.operations.feeds import follow
from controlplane.operations.inspect import audit, overview
from controlplane.operations.upkeep.collect import collect
from controlplane.operations.upkeep.fsck import fsck
from controlplane.operations.upkeep.repair import repair
from tests.unit.feeds.world import READS, SHOP, Installation, Team


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path, f"sqlite:///{tmp_path}/metadata.db")


@pytest.fixture
def teams(installation: Installation) -> tuple[Team, Team]:
    """One that offers the feed `orders`, and one that it is granted to."""
    seller, reader = installation.team("team-a"), installation.team("team-b")
    seller.put("1.csv", (1, 10), (2, 20))
    seller.put("2.csv", (3, 30))
    seller.sells()
    seller.settle()
    feeds.create(seller.ctx, "orders", "shop.kept")
    feeds.grant(seller.ctx, "orders", "team-b")
    return seller, reader


def told(team: Team, dataset: str) -> DatasetStatus:
    """By the status."""
    (flow,) = overview.status(team.ctx, "main", dataset.partition(".")[0])["dataflows"]
    return next(one for one in flow["datasets"] if one["name"] == dataset)


def test_a_reader_has_the_rows_of_the_producer_and_computes_its_own_alone(
    teams: tuple[Team, Team],
) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    assert reader.rows("sales.sold") == seller.rows("shop.kept") == [(1, 10), (2, 20), (3, 30)]
    assert reader.rows("sales.twice") == [(1, 10), (2, 20), (3, 30)]
    assert {work.dataset for work in reader.engine.done} == {"sales.twice"}
    assert len(reader.engine.done) == 2  # partition by partition, as of a dataset of its own
    assert all(file.startswith("team-b/sales/sold/") for file in reader.files("sales.sold"))


def test_a_late_file_of_the_producer_flows_to_the_reader(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    seen, done = reader.loop.wake.count, len(reader.engine.done)
    seller.put("3.csv", (4, 40))
    seller.settle()
    assert reader.loop.wake.count > seen  # it is told at once
    reader.rest()
    assert reader.rows("sales.twice") == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert [work.partition for work in reader.engine.done[done:]] == ["3.csv"]


def test_a_corrected_and_a_withdrawn_file_flow_too(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    seller.put("1.csv", (1, 11))
    (seller.of.home / "orders" / "2.csv").unlink()
    seller.settle()
    reader.rest()
    assert reader.rows("sales.twice") == [(1, 11)]
    assert fsck(reader.of.store, "team-b", reader.of.lake) == ()


def test_at_rest_nothing_is_written(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    generation = reader.generation("sales.sold")
    reader.rest()
    assert not reader.loop.tick().changed
    seller.settle()
    reader.rest()
    assert reader.generation("sales.sold") == generation


def test_what_a_reader_has_outlives_the_files_of_the_producer(teams: tuple[Team, Team]) -> None:
    _, reader = teams
    reader.reads("team-a")
    reader.settle()
    reader.of.lake.delete_prefix("team-a")
    assert reader.rows("sales.sold") == [(1, 10), (2, 20), (3, 30)]


def test_a_column_that_is_added_flows_and_one_that_goes_does_not(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    seller.sells(sql="SELECT k, v, k + v AS w FROM orders")
    seller.settle()
    reader.rest()
    assert reader.rows("sales.sold") == [(1, 10, 11), (2, 20, 22), (3, 30, 33)]

    seller.sells(sql="SELECT k, k + v AS w FROM orders")
    seller.settle()
    reader.rest()
    assert reader.rows("sales.sold") == [(1, 10, 11), (2, 20, 22), (3, 30, 33)]
    found = reader.decision("sales.sold")
    assert (found.status, found.error) == ("waiting", None)
    assert "column v is gone" in found.reason
    assert "generation 2 is offered instead" in found.reason
    assert told(reader, "sales.sold")["feed"] == "team-a/orders"
    (source,) = overview.plan(reader.ctx, "main")["sources"]
    assert source["problem"] == found.reason
    assert source["as_of"] is not None
    assert told(seller, "shop.kept")["feeds"] == [
        {"name": "orders", "breaches": ["column v is gone"]}
    ]
    assert "listing" not in told(reader, "sales.sold")  # nobody looks at it, so it is never late
    shown = feeds.show(seller.ctx, "orders")
    assert (shown["generation"], shown["newest"], shown["breaches"]) == (2, 3, ["column v is gone"])

    seller.sells(sql="SELECT k, v FROM orders WHERE k > 1")
    seller.settle()
    reader.rest()
    assert reader.rows("sales.twice") == [(2, 20), (3, 30)]
    assert reader.decision("sales.sold").status == "up_to_date"


def test_a_contract_is_widened_and_readers_who_waited_go_on(installation: Installation) -> None:
    seller, reader = installation.team("team-a"), installation.team("team-b")
    seller.put("1.csv", (1, 10))
    seller.sells(schema="k INT, v INT")
    seller.settle()
    feeds.create(seller.ctx, "orders", "shop.orders")
    feeds.grant(seller.ctx, "orders", "team-b")
    reader.reads("team-a")
    reader.settle()
    seller.put("1.csv", (1, 10, 5), columns="k,v,w")
    seller.sells(schema="k INT, v BIGINT, w INT")
    seller.settle()
    reader.rest()
    assert "column v is BIGINT and was promised as INT" in reader.decision("sales.sold").reason

    # less, and what it has not
    for wrong in ("k INT", "k INT, v INT", "k INT, v BIGINT, w BIGINT"):
        with pytest.raises(BadFeed):
            feeds.change(seller.ctx, "orders", wrong)
    seen = reader.loop.wake.count
    found = feeds.change(seller.ctx, "orders")
    assert [one["type"] for one in found["columns"]] == ["INT", "BIGINT", "INT"]
    assert (found["breaches"], found["generation"]) == ([], 2)
    assert reader.loop.wake.count > seen
    reader.rest()
    assert reader.decision("sales.sold").status == "up_to_date"
    assert reader.rows("sales.sold") == [(1, 10, 5)]
    feeds.change(seller.ctx, "orders")
    told = [
        one
        for one in audit.changes(seller.ctx, "main", 100)["items"]
        if one["action"] == "feed.change"
    ]
    assert len(told) == 1  # nothing was changed by the second one
    seller.put("1.csv", (1, 10))
    seller.sells(schema="k INT, v BIGINT")
    seller.settle()
    with pytest.raises(BadFeed, match="column w would go"):
        feeds.change(seller.ctx, "orders")


def test_one_who_begins_to_read_during_a_breach_gets_the_last_good_state(
    teams: tuple[Team, Team],
) -> None:
    seller, reader = teams
    seller.sells(sql="SELECT k FROM orders")
    seller.settle()
    reader.reads("team-a")
    reader.settle()
    assert reader.rows("sales.twice") == [(1, 10), (2, 20), (3, 30)]
    assert "column v is gone" in reader.decision("sales.sold").reason


def test_a_revoked_grant_is_told_and_loses_nothing(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    seen = reader.loop.wake.count
    feeds.revoke(seller.ctx, "orders", "team-b")
    assert reader.loop.wake.count > seen
    seller.put("3.csv", (4, 40))
    seller.settle()
    reader.rest()
    found = reader.decision("sales.sold")
    assert found.error is not None
    assert (found.status, found.error["condition"]) == ("failed", "feed-not-granted")
    assert reader.rows("sales.twice") == [(1, 10), (2, 20), (3, 30)]

    feeds.grant(seller.ctx, "orders", "team-b", "sal*")
    reader.rest()
    assert reader.decision("sales.sold").status == "up_to_date"
    assert reader.rows("sales.twice") == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_a_grant_is_of_dataflows_and_no_grant_says_what_no_feed_says(
    teams: tuple[Team, Team],
) -> None:
    seller, reader = teams
    feeds.revoke(seller.ctx, "orders", "team-b")
    feeds.grant(seller.ctx, "orders", "team-b", "sales")
    reader.reads("team-a")
    reader.reads("team-a", "other")
    text = "dataflow: none\ncomponents: {sold: {read: {connector: feed, feed: nothing, namespace: team-a}}}"
    reader.apply(text, "none")
    reader.settle()
    assert reader.rows("sales.sold")
    assert reader.files("other.sold") == []
    refused, missing = reader.decision("other.sold").error, reader.decision("none.sold").error
    assert refused is not None
    assert missing is not None
    said = refused["message"].replace("orders", "nothing").replace("other", "none")
    assert said == missing["message"]
    problems = {
        one["dataset"]: one["problem"] for one in overview.plan(reader.ctx, "main")["sources"]
    }
    assert problems["sales.sold"] is None
    assert (problems["none.sold"] or "").startswith(
        "the feed cannot be followed: there is no feed team-a/nothing"
    )


def test_a_feed_is_read_within_its_namespace(teams: tuple[Team, Team]) -> None:
    seller, _ = teams
    feeds.grant(seller.ctx, "orders", "team-a", "sales")
    text = "dataflow: sales\ncomponents: {sold: {read: {connector: feed, feed: orders}}}"
    seller.apply(text, "sales")
    seller.rest()
    assert seller.files("sales.sold") == seller.files("shop.kept")  # nothing is linked or copied
    seller.put("3.csv", (4, 40))
    seller.settle()
    assert seller.rows("sales.sold") == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_a_circle_of_feeds_is_told_and_does_not_turn(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    feeds.create(reader.ctx, "back", "sales.twice")
    feeds.grant(reader.ctx, "back", "team-a")
    sql = "SELECT k, v FROM orders UNION ALL SELECT k, v FROM returned"
    returned = "  returned:\n    read: {connector: feed, feed: back, namespace: team-b}\n"
    text = SHOP.format(home=seller.of.home, schema="k BIGINT, v BIGINT", sql=sql) + returned
    seller.apply(text, "shop")
    seller.settle()
    found = seller.decision("shop.returned").error
    assert found is not None
    assert found["condition"] == "feed-cycle"
    assert seller.files("shop.returned") == []


def test_a_branch_reads_a_feed_by_itself(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    branches.create(reader.ctx, "dev")
    reader.apply(READS.format(flow="more", namespace="team-a"), "more", "dev")
    reader.rest()
    assert reader.rows("more.twice", "dev") == [(1, 10), (2, 20), (3, 30)]
    assert reader.files("more.sold") == []
    read_by = feeds.show(seller.ctx, "orders")["readers"]
    assert read_by == [{"namespace": "team-b", "branch": None, "dataset": None}]
    with pytest.raises(FeedInUse, match="namespace team-b"):
        feeds.delete(seller.ctx, "orders")


def test_collections_on_both_sides_take_nothing_that_is_read(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    for number in range(12):
        seller.put("1.csv", (1, number))
        seller.settle()
        reader.rest()
        for team in teams:
            collect(team.of.store, team.name, generations=1, days=0.0, grace_s=0.0)
    assert reader.rows("sales.twice") == [(1, 11), (3, 30)]
    for team in teams:
        assert fsck(team.of.store, team.name, team.of.lake) == ()


def test_files_that_the_reader_lost_are_taken_from_the_feed_again(teams: tuple[Team, Team]) -> None:
    _, reader = teams
    reader.reads("team-a")
    reader.settle()
    lost = reader.files("sales.sold")[0]
    del reader.of.lake.objects[lost]
    assert "main/sales.sold" in repair(reader.of.store, "team-b", reader.of.lake).datasets
    reader.rest()
    assert lost in reader.of.lake.objects
    assert reader.decision("sales.sold").status == "up_to_date"
    assert fsck(reader.of.store, "team-b", reader.of.lake) == ()


def test_many_partitions_come_in_pieces_and_nothing_is_seen_of_a_part(
    teams: tuple[Team, Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    seller, reader = teams
    for number in range(3, 9):
        seller.put(f"{number}.csv", (number + 1, 10 * number))
    seller.settle()
    monkeypatch.setattr(follow, "FRAGMENTS", 1)
    monkeypatch.setattr(follow, "STEP", 2)
    reader.reads("team-a")
    for _ in range(4):
        assert reader.loop.tick().changed
        assert reader.files("sales.sold") == []
    reader.settle()
    assert len(reader.rows("sales.sold")) == 9


def test_a_file_that_the_producer_lost_stops_that_reader_alone(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    (lost, *_) = seller.files("shop.kept")
    body = seller.of.lake.objects.pop(lost)
    reader.reads("team-a")
    reader.settle()
    assert reader.files("sales.sold") == []
    assert "feed of sales.sold" in reader.loop.failing_units.units
    seller.of.lake.objects[lost] = body
    reader.settle()


def test_readers_follow_a_rollback(teams: tuple[Team, Team]) -> None:
    seller, reader = teams
    reader.reads("team-a")
    reader.settle()
    seller.put("1.csv", (1, 999))
    seller.settle()
    reader.rest()
    assert reader.rows("sales.twice") == [(1, 999), (3, 30)]
    seen = reader.loop.wake.count
    rollback.rollback(seller.ctx, "main", "shop.kept", Generation(1))
    seller.rest()
    assert reader.loop.wake.count > seen
    reader.rest()
    assert reader.rows("sales.twice") == [(1, 10), (2, 20), (3, 30)]
