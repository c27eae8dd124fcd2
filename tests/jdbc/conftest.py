"""One PostgreSQL and one MariaDB for all tests of the connector, and an empty database for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
import pymysql
import pytest

from dataplane.contract.schemas import Json
from tests.servers.mariadb import Mariadb
from tests.servers.postgres import Postgres

NUMBERS = count()


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    server = Postgres().start()
    yield server
    server.remove()


@dataclass(frozen=True)
class AnyDatabase:
    port: int
    name: str

    @property
    def url(self) -> str:
        raise NotImplementedError

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        """Rows of the last statement, if it has any."""
        raise NotImplementedError

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


class Database(AnyDatabase):
    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.name}?user=test"

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=test dbname={self.name}", autocommit=True
        ) as c:
            for statement in statements:
                cursor = c.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def calls(self) -> list[int]:
        """How often each function was called, as those told who have gone: a server ends them when
        it gets to it."""
        others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        others += " AND backend_type = 'client backend'"
        while self.do(others):
            self.do("SELECT pg_sleep(0.02)")
        return [calls for (calls,) in self.do("SELECT calls FROM pg_stat_user_functions")]


@pytest.fixture
def database(server: Postgres) -> Database:
    name = f"d{next(NUMBERS)}"
    server.create(name)
    return Database(server.port, name)


class MariaDatabase(AnyDatabase):
    @property
    def url(self) -> str:
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{self.name}?user=test"

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user="test",
                database=self.name,
                autocommit=True,
                sql_mode="",
            ) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture(scope="session")
def maria_server() -> Iterator[Mariadb]:
    server = Mariadb().start()
    yield server
    server.remove()


@pytest.fixture
def maria(maria_server: Mariadb) -> MariaDatabase:
    return MariaDatabase(maria_server.port, maria_server.create(f"d{next(NUMBERS)}"))
