"""A feed between two namespaces: what is offered is taken over as it is, and nothing is computed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.operations.desired import feeds
from tests.unit.feeds.world import Installation, Team


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


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


def test_a_reader_has_the_rows_of_the_producer_and_computes_its_own_alone(teams: tuple[Team, Team]) -> None:
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
