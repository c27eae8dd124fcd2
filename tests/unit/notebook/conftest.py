"""A service with a dataset whose cells are hostile, records as Arrow and queries by a real
process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.result_folder import ResultFolder
from controlplane.services.queries.queries import Queries
from tests.unit.records.conftest import order
from tests.unit.records.world import RecordWorld, Served, served

HOSTILE = "<script>alert(1)</script>\x1b[31m"
BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: /data/orders/*.csv
      format: csv
      schema: "k BIGINT, name STRING, price DECIMAL(12,2), day DATE, at TIMESTAMP"
  dear:
    transform: {sql: SELECT * FROM orders WHERE price > 2}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("notebook")
    world = RecordWorld(folder)
    world.commit({"a.csv": [order(1), order(2, HOSTILE, "2.50")]})
    world.commit(
        {"a.csv": [order(1), order(2, HOSTILE, "2.50")], "b.csv": [order(3, None), order(4, "ü")]}
    )
    pool = QueryPool(world.lake.uri)
    with served(world, queries=Queries(pool, ResultFolder(folder / "results"))) as found:
        with found.client() as client:
            client.apply([{"name": str(folder / "shop.yaml"), "text": BLUEPRINT}])
        yield found
    pool.close()


@pytest.fixture
def hg(place: Served) -> Iterator[headgate.Connection]:
    with headgate.connect(url=place.url, token=place.token) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
