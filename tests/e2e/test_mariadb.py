"""The blueprint of docs/connectors.md on a real MariaDB, in and out by one service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.e2e.conftest import closing
from tests.e2e.workspace import Service, Workspace
from tests.jdbc.databases import MariaDatabase
from tests.servers.mariadb import Mariadb
from tests.slices import in_turn

# Beside the story of PostgreSQL: listing, reading and writing have suites of their own
# (tests/jdbc, spark/test_mariadb).
pytestmark = in_turn(6, 8)

PASSWORD = "hunter2 & unsafe/%"
DOCS = Path(__file__).parents[2] / "docs" / "connectors.md"
SET_UP = (
    f"CREATE USER app@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
    "GRANT ALL ON shop.* TO app@'127.0.0.1'",
    "CREATE TABLE sales (month int, shop varchar(20) CHARACTER SET latin1, amount decimal(10,2))",
    "INSERT INTO sales SELECT 1 + seq % 3, 'shöp', seq FROM seq_1_to_30",
)


def blueprint() -> str:
    page = DOCS.read_text(encoding="utf-8")
    [text] = re.findall(r"^## MariaDB and MySQL\n.*?^```yaml\n(.*?)^```", page, re.M | re.S)
    assert isinstance(text, str)
    return text


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    server = Mariadb().start()
    server.create("shop")
    yield server
    server.remove()


@pytest.fixture(scope="module")
def database(server: Mariadb) -> MariaDatabase:
    return MariaDatabase(server.port, "shop")


@pytest.fixture(scope="module")
def place(module_folder: Path) -> Iterator[Workspace]:
    place = Workspace(module_folder)
    with closing(place):
        yield place


@pytest.fixture(scope="module")
def service(place: Workspace, database: MariaDatabase) -> Iterator[Service]:
    database.do(*SET_UP)
    given = {
        "HEADGATE_SECRET_WAREHOUSE_URL": f"jdbc:mariadb://127.0.0.1:{database.port}/shop",
        "HEADGATE_SECRET_WAREHOUSE_PASSWORD": PASSWORD,
    }
    with place.serving(0, **given) as service:
        place.write("warehouse.yaml", blueprint())
        yield service


def sums(database: MariaDatabase) -> list[tuple[int, str, Decimal]]:
    amounts: dict[tuple[int, str], Decimal] = {}
    for month, shop, amount in database.do("SELECT month, shop, amount FROM sales"):
        amounts[month, shop] = amounts.get((month, shop), Decimal(0)) + amount
    return sorted((month, shop, amount) for (month, shop), amount in amounts.items())


def test_the_copy_is_what_the_table_says(
    place: Workspace, service: Service, database: MariaDatabase
) -> None:
    assert service.url
    tried = place.ask("validate", "warehouse.yaml", "--connect")
    assert [c["error"] for c in tried["connections"]] == [None, None]
    place.ask("apply", "warehouse.yaml", "--wait")
    copy = "SELECT month, shop, amount FROM totals"
    assert sorted(database.do(copy)) == sums(database)
