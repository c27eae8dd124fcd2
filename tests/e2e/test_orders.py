"""The example `blueprints/orders` on its servers: Kafka, PostgreSQL and S3 in; Delta, PostgreSQL
and Kafka out.

Orders keep coming while it is served, and each is in every copy once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.client import Headgate
from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace, until
from tests.servers.shop import MONTHS, Shop
from tests.slices import in_turn

# Takes turns with TPC-H and stories of S3: of what all go through, each part has tests of its own.
pytestmark = in_turn(7, 8)


@pytest.fixture(scope="module")
def shop(module_folder: Path) -> Iterator[Shop]:
    with Shop(module_folder) as found:
        found.sell(range(200))
        yield found


@pytest.fixture(scope="module")
def place(shop: Shop) -> Iterator[Workspace]:
    with closing(Workspace(shop.folder, environment=shop.environment)) as found:
        yield found


@pytest.fixture(scope="module")
def api(shop: Shop, place: Workspace) -> Iterator[Headgate]:
    with place.serving() as service:
        tried = place.ask("validate", shop.blueprint.name, "--connect")
        assert [c["error"] for c in tried["connections"]] == [None] * 6
        place.ask("apply", shop.blueprint.name, "--wait")
        with service.client() as client:
            yield client


def test_all_copies_are_what_the_sources_say(shop: Shop, api: Headgate) -> None:
    assert shop.is_in_sync()
    assert len(shop.table()) == len(shop.revenue()) > 0


def test_orders_keep_coming(shop: Shop, api: Headgate) -> None:
    slices = api.dataset("orders.orders")["partitions"]
    for begin in range(200, 500, 100):
        for first in range(begin, begin + 100, 10):
            shop.sell(range(first, first + 10))
        until(shop.is_in_sync, lambda: str(api.status("orders")))
    assert api.dataset("orders.orders")["partitions"] >= slices + 3, (
        "a partition for each look that found some"
    )
    offsets: dict[int, list[int]] = defaultdict(list)
    with api.records("orders.orders") as parts:
        for row in json.loads(b"".join(parts)):
            offsets[row["_partition"]].append(row["_offset"])
    assert all(sorted(found) == list(range(len(found))) for found in offsets.values()), (
        "no gap, no overlap"
    )


def test_what_changes_elsewhere_goes_all_the_way(shop: Shop, api: Headgate) -> None:
    shop.do("UPDATE customers SET region = 'west' WHERE region = 'north' AND id < 30")
    shop.put_prices(MONTHS[0], 9)
    api.refresh("orders")
    until(shop.is_in_sync, lambda: str(api.status("orders")))
    assert {
        d["state"]
        for f in api.status("orders")["dataflows"]
        for d in (*f["datasets"], *f["targets"])
    } <= {
        "up_to_date",
        "stale",  # continuous: somebody may just be looking
    }
