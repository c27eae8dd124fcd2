"""The databases that the tests of the connector run on: each declares itself, and passes the tests
of `test_slices`, `test_writing` and `spark/test_databases` by that."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, ClassVar, Protocol, TypeVar

import psycopg
import pymysql

from dataplane.connectors.jdbc.mysql import MARIADB
from dataplane.connectors.jdbc.postgresql import POSTGRESQL
from dataplane.connectors.jdbc.writable_dialect import WritableDialect
from dataplane.contract.schemas import Json
from tests.servers.mariadb import Mariadb
from tests.servers.postgres import Postgres

NUMBERS = count()
AT = datetime(2013, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
TAGS = ['a,"b"', None]


class Server(Protocol):
    port: int

    def create(self, database: str) -> object: ...

    def stop(self) -> None: ...

    def start(self) -> object: ...

    def remove(self) -> None: ...


@dataclass(frozen=True)
class AnyDatabase(ABC):
    """An empty database of its own for each test."""

    port: int
    name: str
    dialect: ClassVar[WritableDialect]
    text: ClassVar[str] = "text"  # a type of texts
    double: ClassVar[float] = 1e308  # the largest that it holds
    arrived: ClassVar[Mapping[str, object]]  # values of `test_writing.VALUES` that it gives back

    @classmethod
    @abstractmethod
    def begin(cls) -> Server:
        """A server that was started."""

    @property
    def url(self) -> str:
        return f"jdbc:{self.dialect.scheme}://127.0.0.1:{self.port}/{self.name}?user=test"

    @property
    @abstractmethod
    def schema(self) -> str:
        """The one that tables without a schema are in."""

    @abstractmethod
    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        """Rows of the last statement, if it has any."""

    @abstractmethod
    def retype(self, column: str, kind: str) -> str:
        """The statement that gives a column of `t` another type."""

    @abstractmethod
    def numbers(self, last: int) -> str:
        """A table of the numbers `i` from 1 on."""

    def reading(self, table: str | None = "t", query: str | None = None, **by: Json) -> Json:
        settings = {
            "url": self.url,
            "table": table,
            "query": query,
            "by": "full",
            "column": "",
            "bounds": [],
            **by,
        }
        return {
            "connector": "jdbc",
            "settings": settings,
            "options": {},
            "metadata": [],
            "timezone": "UTC",
        }


class PostgresDatabase(AnyDatabase):
    dialect = POSTGRESQL
    double = float("inf")
    arrived: ClassVar[Mapping[str, object]] = {"at": AT, "tags": TAGS}
    schema = "public"

    @classmethod
    def begin(cls) -> Server:
        return Postgres().start()

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=test dbname={self.name}", autocommit=True
        ) as c:
            for statement in statements:
                cursor = c.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def retype(self, column: str, kind: str) -> str:
        return f"ALTER TABLE t ALTER {column} TYPE {kind}"

    def numbers(self, last: int) -> str:
        return f"generate_series(1, {last}) AS i"

    def calls(self) -> list[int]:
        """How often each function was called, as sessions that have ended report: a server ends
        them when it gets to it."""
        others = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        while self.do(others):
            self.do("SELECT pg_sleep(0.02)")
        return [calls for (calls,) in self.do("SELECT calls FROM pg_stat_user_functions")]


class MariaDatabase(AnyDatabase):
    dialect = MARIADB
    text = "text CHARACTER SET utf8mb4"
    arrived: ClassVar[Mapping[str, object]] = {
        "at": AT.replace(tzinfo=None),
        "tags": json.dumps(TAGS, separators=(",", ":")),
    }

    @classmethod
    def begin(cls) -> Server:
        return Mariadb().start()

    @property
    def schema(self) -> str:
        return self.name

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user="test",
                database=self.name,
                autocommit=True,
                charset="utf8mb4",
                sql_mode="",
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def retype(self, column: str, kind: str) -> str:
        return f"ALTER TABLE t MODIFY {column} {kind}"

    def numbers(self, last: int) -> str:
        return f"(SELECT seq AS i FROM seq_1_to_{last}) AS numbers"


DATABASES: tuple[type[AnyDatabase], ...] = (PostgresDatabase, MariaDatabase)
D = TypeVar("D", bound=AnyDatabase)


class Servers:
    """Each server starts when a test first needs it."""

    def __init__(self) -> None:
        self._started: dict[type[AnyDatabase], Server] = {}

    def server(self, kind: type[AnyDatabase]) -> Server:
        if kind not in self._started:
            self._started[kind] = kind.begin()
        return self._started[kind]

    def database(self, kind: type[D]) -> D:
        """An empty database."""
        server, name = self.server(kind), f"d{next(NUMBERS)}"
        server.create(name)
        return kind(server.port, name)

    def remove(self) -> None:
        for server in self._started.values():
            server.remove()
