"""Tables of a real PostgreSQL in and out, by one service with one warm Spark. After each change of
the source the dataset and the copy equal it, and just the tasks that this takes were executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from controlplane.core.model.answers import PartitionEntry, StatusAnswer
from tests.e2e.conftest import closing
from tests.e2e.workspace import Service, Workspace, until
from tests.servers.postgres import Postgres
from tests.servers.wire import Wire
from tests.slices import in_turn
from tests.there import there

# At the commits of orders, which has the same server: listing, reading and writing have suites of
# their own on a real PostgreSQL (tests/jdbc, spark/test_jdbc), and stories of connectors share the
# way of a service.
pytestmark = in_turn(7, 8)

PASSWORD = "hunter2 & unsafe/%"
SHOP = """\
dataflow: shop
components:
  orders:
    read:
      connector: jdbc
      url: secret://shop/url
      options: &
      table: orders
      partitioned: {column: month}
      refresh: manual
  paid:
    transform: {sql: SELECT * FROM orders WHERE amount > 0}
  copy:
    write: {connector: jdbc, from: paid, url: secret://shop/url, options: &, table: out.paid, schema_change: alter}
""".replace("&", "{user: app, password: secret://shop/password}")
EVENTS = """\
dataflow: events
components:
  events:
    read:
      connector: jdbc
      url: secret://shop/url
      options: {user: app, password: secret://shop/password}
      query: SELECT id, kind FROM events
      incremental: {column: id}
      refresh: manual
  kinds:
    transform: {sql: "SELECT kind, count(*) AS n FROM events GROUP BY kind", partition_by: [kind]}
  copy:
    write:
      connector: jdbc
      from: kinds
      url: secret://shop/url
      options: {user: app, password: secret://shop/password}
      table: out.kinds
"""
SET_UP = (
    f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'",
    "CREATE SCHEMA out AUTHORIZATION app",
    "CREATE TABLE orders (month int, id int, amount numeric(10,2), at timestamptz DEFAULT '2013-01-01 12:00Z')",
    "INSERT INTO orders SELECT 1 + i % 3, i, i - 2 FROM generate_series(1, 30) AS i",
    "CREATE TABLE events (id int, kind text)",
    "INSERT INTO events SELECT i, 'k' || i % 2 FROM generate_series(1, 10) AS i",
    "GRANT SELECT ON orders, events TO app",
)


class Shop:
    """The database, the service, and how they compare."""

    def __init__(self, place: Workspace, service: Service, server: Postgres) -> None:
        self.place, self.client, self.server = place, service.client(), server

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(
            f"host=127.0.0.1 port={self.server.port} user=test dbname=shop", autocommit=True
        ) as c:
            for statement in statements:
                cursor = c.execute(statement)
            return cursor.fetchall() if statements and cursor.description else []

    def executed(self) -> int:
        counted = self.place.counted()
        return counted.get("task.executed", 0) + counted.get("task.recovered", 0)

    def follow(self, flow: str, *statements: str, state: str = "up_to_date") -> int:
        """Change the source, list it, wait; how many tasks were executed."""
        before = self.executed()
        if statements:
            self.do(*statements)
        self.client.refresh(flow)
        assert self.settled(flow) == state
        return self.executed() - before

    def settled(self, flow: str) -> str:
        """The state once nothing moves any more."""
        found = until(lambda: self._still(flow), lambda: str(self.client.status(flow)))
        return there(found)["state"]

    def _still(self, flow: str) -> StatusAnswer | None:
        if self.is_listing():
            return None
        value = self.client.status(flow)
        things = [t for f in value["dataflows"] for t in (*f["datasets"], *f["targets"])]
        return None if any(t["state"] in ("stale", "building") for t in things) else value

    def is_listing(self) -> bool:
        [(n,)] = self.place.query("SELECT count(*) FROM listings WHERE requested > served")
        return bool(n)

    def rows(self, dataset: str) -> list[tuple[Any, ...]]:
        with self.client.records(dataset) as parts:
            found = json.loads(b"".join(parts))
        return sorted((tuple(row.values()) for row in found), key=repr)

    def check(self, columns: str = "month, id, amount") -> None:
        """The dataset and the copy are what the source is."""
        source = self.do(f"SELECT {columns} FROM orders ORDER BY month, id, amount")
        names = [name.strip() for name in columns.split(",")]
        with self.client.records("shop.orders") as parts:
            found = [tuple(row.get(n) for n in names) for row in json.loads(b"".join(parts))]
        assert sorted(map(repr, found)) == sorted(repr(tuple(map(_plain, row))) for row in source)
        paid = self.do(f"SELECT {columns} FROM orders WHERE amount > 0 ORDER BY month, id, amount")
        assert self.do(f"SELECT {columns} FROM out.paid ORDER BY month, id, amount") == paid

    def errors(self, flow: str) -> list[str | None]:
        status = self.client.status(flow)
        errors = [d["error"] for f in status["dataflows"] for d in (*f["datasets"], *f["targets"])]
        return [error["condition"] for error in errors if error]


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str | None) else str(value)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    server = Postgres()
    access = Path(server.home / "data" / "pg_hba.conf")
    access.write_text(f"host all app 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
    server.start().create("shop")
    yield server
    server.remove()


@pytest.fixture(scope="module")
def wire(server: Postgres) -> Iterator[Wire]:
    wire = Wire(server.port)
    yield wire
    wire.close()


@pytest.fixture(scope="module")
def shop(module_folder: Path, server: Postgres, wire: Wire) -> Iterator[Shop]:
    place = Workspace(module_folder)
    (module_folder / "secrets" / "shop").mkdir(parents=True)
    (module_folder / "secrets" / "shop" / "password").write_text(PASSWORD)
    logged = module_folder / "logged"
    logged.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logged.as_uri(),
    }
    given = {
        "HEADGATE_SPARK_CONF": json.dumps(conf),
        "HEADGATE_SECRETS": str(module_folder / "secrets"),
        "HEADGATE_SECRET_SHOP_URL": f"jdbc:postgresql://127.0.0.1:{wire.port}/shop",
    }
    with closing(place), place.serving(0, **given) as service:
        found = Shop(place, service, server)
        found.do(*SET_UP)
        place.write("shop.yaml", SHOP)
        place.write("events.yaml", EVENTS)
        yield found
        found.client.close()


def test_connections_are_tried_by_a_worker(shop: Shop) -> None:
    found = shop.place.ask("validate", "shop.yaml", "--connect")
    assert [(c["component"], c["connector"], c["error"]) for c in found["connections"]] == [
        ("shop.orders", "jdbc", None),
        ("shop.copy", "jdbc", None),
    ]
    wrong = SHOP.replace("table: orders", "table: nothing").replace("out.paid", "nowhere.paid")
    shop.place.write(
        "wrong.yaml",
        wrong.replace("app, password: secret://shop/password", "app, password: secret://a/b"),
    )
    found = shop.place.ask("validate", "wrong.yaml", "--connect", code=1)
    assert [c["error"]["condition"] for c in found["connections"]] == ["secret-missing"] * 2
    shop.place.write("wrong.yaml", wrong)
    text = shop.place.call("validate", "wrong.yaml", "--connect", "--home", shop.place.home, code=1)
    assert "shop.orders: no connection to secret://shop/url nothing; error: table-missing" in text
    assert "there is no schema nowhere" in text


def test_a_table_by_slices_and_its_copy(shop: Shop) -> None:
    shop.place.ask("apply", "shop.yaml", "--wait")
    shop.check()
    assert shop.executed() == 6, "three slices, and what is row-wise above them"
    assert shop.follow("shop") == 0, "nothing changed"
    assert shop.follow("shop", "INSERT INTO orders VALUES (2, 100, 5)") == 2, (
        "late rows of one slice"
    )
    shop.check()
    assert shop.follow("shop", "UPDATE orders SET amount = 9 WHERE month = 1") == 2, (
        "a modified slice"
    )
    shop.check()
    assert shop.follow("shop", "UPDATE orders SET amount = -1 WHERE month = 1 AND id = 3") == 2
    shop.check()
    assert shop.follow("shop", "DELETE FROM orders WHERE month = 3") == 0, (
        "what is gone is dropped without a task"
    )
    shop.check()
    assert shop.follow("shop", "INSERT INTO orders VALUES (NULL, 7, 7), (4, 7, 7)") == 4, (
        "new slices, one without value"
    )
    shop.check()
    assert [p["partition"] for p in _partitions(shop)] == ["month", "month=1", "month=2", "month=4"]


def _partitions(shop: Shop) -> list[PartitionEntry]:
    return shop.client.partitions("shop.orders")["items"]


def test_a_copy_that_was_given_up_is_made_again_as_a_whole(shop: Shop) -> None:
    shop.do("DROP TABLE out.paid", "DELETE FROM out._headgate_sync WHERE target = 'out.paid'")
    assert shop.follow("shop", "UPDATE orders SET amount = 8 WHERE month = 4") == 2
    shop.check()


def test_a_renamed_table_is_read_again_and_nothing_follows(shop: Shop) -> None:
    shop.do("ALTER TABLE orders RENAME TO orders2")
    shop.follow("shop", state="failed")
    assert shop.errors("shop")[:1] == ["table-missing"]
    before = shop.executed()
    old = shop.place.edit("shop.yaml", ("table: orders", "table: orders2"))
    shop.place.ask("apply", "shop.yaml", "--wait")
    assert shop.executed() - before == 4, "four slices, known elsewhere only; above them nothing"
    shop.do("ALTER TABLE orders2 RENAME TO orders")
    shop.place.write("shop.yaml", old)
    shop.place.ask("apply", "shop.yaml")
    assert shop.follow("shop") == 0, "all of it is remembered"
    shop.check()


def test_columns_come_and_go(shop: Shop) -> None:
    assert shop.follow("shop", "ALTER TABLE orders ADD note text DEFAULT 'new'") == 8, (
        "every row has another value"
    )
    shop.check("month, id, amount, note")
    assert shop.follow("shop", "ALTER TABLE orders DROP COLUMN note") == 4, (
        "the slices are remembered as they were"
    )
    shop.check()


def test_what_fails_deletes_nothing(shop: Shop, wire: Wire) -> None:
    rows = shop.rows("shop.orders")
    shop.do("ALTER ROLE app PASSWORD 'another'", "DELETE FROM orders WHERE month = 4")
    assert shop.follow("shop", state="failed") == 0
    assert "credentials-refused" in shop.errors("shop")
    assert shop.rows("shop.orders") == rows
    assert shop.follow("shop", f"ALTER ROLE app PASSWORD '{PASSWORD}'") == 0
    shop.check()
    rows = shop.rows("shop.orders")
    shop.server.stop()
    shop.follow("shop", state="failed")
    assert shop.rows("shop.orders") == rows
    shop.server.start()
    assert shop.follow("shop") == 0
    shop.check()
    for message in (4, 22):  # in the listing, and while rows are read
        shop.do(f"UPDATE orders SET amount = amount + {message} WHERE month = 1")
        wire.cut_at(message)
        shop.place.ask("refresh", "shop")
        until(lambda: wire.is_cut, lambda: "the line was never cut")
        wire.cut_at(None)
        assert shop.follow("shop") <= 2
        shop.check()


def test_a_source_that_is_empty(shop: Shop) -> None:
    assert shop.follow("shop", "DELETE FROM orders") == 0
    shop.check()
    assert shop.follow("shop", "INSERT INTO orders VALUES (1, 1, 1)") == 2
    shop.check()


def test_each_refresh_is_one_more_slice(shop: Shop) -> None:
    shop.place.ask("apply", "events.yaml", "--wait")
    before = shop.executed()
    assert shop.follow("events") == 0
    assert shop.follow("events", "INSERT INTO events VALUES (11, 'k2'), (12, 'k2')") == 3, (
        "a slice, its index, its key"
    )
    assert shop.executed() - before == 3
    assert shop.rows("events.kinds") == [("k0", 5), ("k1", 5), ("k2", 2)]
    assert shop.do("SELECT * FROM out.kinds ORDER BY kind") == [("k0", 5), ("k1", 5), ("k2", 2)]
    assert len(shop.rows("events.events")) == 12


def test_no_secret_is_anywhere(shop: Shop, wire: Wire) -> None:
    """Not in the database, lake, logs, event logs of Spark, or answers; the files of secrets are
    not ours."""
    secrets = {PASSWORD, "hunter2", "unsafe", f"127.0.0.1:{wire.port}/shop"}
    client = shop.client
    told = (client.status(), client.plan(), client.dataflow("shop"), client.why("shop.orders"))
    answers = [json.dumps(a) for a in (*told, *client.events(0, follow=False))]
    files = [p for p in shop.place.folder.rglob("*") if p.is_file() and "secrets" not in p.parts]
    assert any(p.suffix == ".db" for p in files)
    assert any("logged" in p.parts for p in files)
    texts = {str(p): p.read_bytes() for p in files} | {
        f"answer {i}": a.encode() for i, a in enumerate(answers)
    }
    for secret in secrets:
        assert [name for name, text in texts.items() if secret.encode() in text] == []
