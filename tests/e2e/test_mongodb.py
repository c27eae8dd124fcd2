"""The blueprint of docs/spark-sources.md, with MongoDB's connector from its package, by the command
as a user runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace
from tests.servers.mongodb import MongoServer
from tests.slices import in_turn
from tests.spark.test_source_packages import CONNECTOR, PARTITIONER

# In each run, e2e/test_calendar has the connector, and spark/test_source_packages has the packages
pytestmark = in_turn(3, 4)

DOCS = Path(__file__).parents[2] / "docs" / "spark-sources.md"


def blueprint() -> str:
    page = DOCS.read_text(encoding="utf-8")
    [text] = re.findall(r"^## Packages\n.*?^```yaml\n(.*?)^```", page, re.M | re.S)
    assert isinstance(text, str)
    # The server of the tests cannot split a collection
    return text.replace("database: shop", f"database: shop, partitioner: {PARTITIONER}")


@pytest.fixture
def server() -> Iterator[MongoServer]:
    server = MongoServer()
    yield server
    server.remove()


@pytest.fixture
def place(tmp_path: Path, server: MongoServer) -> Iterator[Workspace]:
    settings = {
        "HEADGATE_SPARK_FORMATS": "mongodb",
        "HEADGATE_SPARK_PACKAGES": CONNECTOR,
        "HEADGATE_SECRET_SHOP_URI": server.uri,
    }
    with closing(Workspace(tmp_path, environment=settings, lasts=True)) as place:
        place.write("shop.yaml", blueprint())
        yield place


def days(place: Workspace) -> dict[str, int]:
    text = place.call("records", "shop.days", "--format", "json", "--home", place.home)
    return {row["day"]: row["amount"] for row in json.loads(text)}


def test_a_late_document_is_read_by_the_next_run(place: Workspace, server: MongoServer) -> None:
    server.insert("orders_east", {"day": "mon", "amount": 1}, {"day": "tue", "amount": 2})
    server.insert("orders_west", {"day": "mon", "amount": 4})
    assert place.run("shop.yaml").executed == 2 + 1
    assert days(place) == {"mon": 5, "tue": 2}
    server.insert("orders_west", {"day": "tue", "amount": 8})
    assert place.run("shop.yaml").executed == 2 + 1
    assert days(place) == {"mon": 5, "tue": 10}
    assert server.uri not in "".join(p.read_text() for p in place.home.glob("logs/*"))
