"""Clients of databases without a server here: addresses, errors of connections, and values."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pytest

from dataplane.connectors.jdbc.client_session import ClientSession
from dataplane.connectors.jdbc.dialect import TableColumn
from dataplane.connectors.jdbc.jdbc_connection import address
from dataplane.connectors.jdbc.jdbc_listing import partitions
from dataplane.connectors.jdbc.oracle import ORACLE, OracleSession
from dataplane.connectors.jdbc.sqlserver import SQLSERVER, SqlServerSession
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure
from tests.jdbc.databases import AT
from tests.jdbc.world import struct

TRUSTING = ";trustServerCertificate=true"


def job(url: str) -> Json:
    settings = {"url": url, "table": "t", "query": None, "by": "full"}
    options = {"user": "app", "password": "p"}
    return {"connector": "jdbc", "settings": settings, "options": options}


@pytest.mark.parametrize(
    ("url", "host", "port", "database"),
    [
        ("jdbc:sqlserver://db.example:1500;databaseName=My shop", "db.example", 1500, "My shop"),
        ("jdbc:sqlserver://db.example;encrypt=false", "db.example", 1433, ""),
        ("jdbc:oracle:thin:@//db.example:1600/shop", "db.example", 1600, "shop"),
        ("jdbc:oracle:thin:@db.example/shop.example", "db.example", 1521, "shop.example"),
        ("jdbc:oracle:thin:@tcps://db.example:2484/shop", "db.example", 2484, "shop"),
    ],
)
def test_an_address_has_the_form_of_its_driver(
    url: str, host: str, port: int, database: str
) -> None:
    place = address(job(url))
    assert (place.host, place.port, place.database) == (host, port, database)
    assert (place.user, place.password) == ("app", "p")


@pytest.mark.parametrize(
    ("url", "condition"),
    [
        (f"jdbc:sqlserver://127.0.0.1:1{TRUSTING}", "connection-refused"),
        (f"jdbc:sqlserver://no-such-host.invalid{TRUSTING}", "host-unreachable"),
        ("jdbc:sqlserver://127.0.0.1:1", "bad-url"),
        (f"jdbc:sqlserver://127.0.0.1:1;applicationIntent=ReadOnly{TRUSTING}", "bad-url"),
        ("jdbc:oracle:thin:@//127.0.0.1:1/shop", "connection-refused"),
        ("jdbc:oracle:thin:@//no-such-host.invalid/shop", "host-unknown"),
        ("jdbc:oracle:thin:@127.0.0.1:1521:SID", "bad-url"),
        ("jdbc:oracle:thin:scott/tiger@//127.0.0.1/shop", "bad-url"),
    ],
)
def test_a_listing_that_fails_names_the_cause(url: str, condition: str) -> None:
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job(url)))
    assert caught.value.condition == condition
    is_of_the_user = condition == "bad-url"
    assert caught.value.kind == ("user" if is_of_the_user else "infrastructure")


def test_the_end_of_a_password_is_not_shown() -> None:
    with pytest.raises(TaskFailure) as caught:
        address(job(f"jdbc:sqlserver://db.example;password=a;Xyzzy{TRUSTING}"))
    assert caught.value.condition == "bad-url"
    assert "xyzzy" not in caught.value.message.lower()


@pytest.mark.parametrize(
    ("name", "quoted"), [("a]b", "[a]]b]"), ('a"b', '[a"b]'), ("a'; --", "[a'; --]")]
)
def test_names_in_sql_server_end_where_they_should(name: str, quoted: str) -> None:
    assert SQLSERVER.name("s", name) == f"[s].{quoted}"


def test_a_name_that_oracle_cannot_have_is_refused() -> None:
    assert ORACLE.name("s", "a'b]") == '"s"."a\'b]"'
    with pytest.raises(TaskFailure) as caught:
        ORACLE.name("s", 'a"b')
    assert caught.value.condition == "not-supported"


class Statements(SqlServerSession):
    def __init__(self) -> None:
        self.dialect, self.texts = SQLSERVER, list[str]()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        self.texts.append(query)
        return []


def test_values_for_sql_server_keep_all_digits() -> None:
    session = Statements()
    values = [True, 2**60, 0.1, 1e308, Decimal("1.50"), AT, date(2013, 1, 2), b"\xff", "it's %s"]
    session.insert("INSERT INTO t (c)", struct(), [(*values, None)] * 1001)
    texts = (
        "(1, 1152921504606846976, 0.1e0, 1e+308, N'1.50', N'2013-01-02 03:04:05.000678',"
        " N'2013-01-02', 0xff, N'it''s %s', NULL)"
    )
    first, second = session.texts
    assert first == f"INSERT INTO t (c) VALUES {', '.join([texts] * 1000)}"
    assert second == f"INSERT INTO t (c) VALUES {texts}", "one VALUES has at most 1,000 rows"
    session.insert("INSERT INTO t (c)", struct(), [(Decimal("0E-10"),)])
    assert session.texts[-1].endswith("VALUES (N'0.0000000000')"), "no exponent"
    with pytest.raises(TaskFailure, match="no infinite numbers"):
        session.insert("INSERT INTO t (c)", struct(), [(float("inf"),)])


class Descriptions:
    """A cursor of python-oracledb with the description of a query."""

    def __init__(self, fields: list[SimpleNamespace]) -> None:
        self.description = fields

    def __enter__(self) -> Descriptions:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, query: str) -> None: ...


@pytest.mark.parametrize(
    ("code", "precision", "scale", "kind", "spark"),
    [
        ("NUMBER", 10, 0, "NUMBER(10,0)", "decimal(10,0)"),
        ("NUMBER", 3, 5, "NUMBER(3,5)", "decimal(5,5)"),
        ("NUMBER", 5, -2, "NUMBER(5,-2)", "decimal(7,0)"),
        ("NUMBER", 0, -127, "NUMBER", "decimal(38,10)"),
        ("NUMBER", 126, -127, "FLOAT(126)", "double"),
        ("VARCHAR", 0, 0, "VARCHAR2(20)", "string"),
        ("DATE", 0, 0, "DATE", "timestamp_ntz"),
        ("TIMESTAMP_TZ", 0, 6, "TIMESTAMP(6) WITH TIME ZONE", "timestamp"),
        ("CLOB", 0, 0, "CLOB", ""),
    ],
)
def test_columns_of_oracle(code: str, precision: int, scale: int, kind: str, spark: str) -> None:
    field = SimpleNamespace(
        name="C",
        type_code=SimpleNamespace(name=f"DB_TYPE_{code}"),
        precision=precision,
        scale=scale,
        internal_size=20,
    )
    connection = SimpleNamespace(cursor=lambda: Descriptions([field]))
    session: ClientSession = OracleSession(connection, ORACLE)
    assert session.columns("SELECT c FROM t") == [TableColumn("C", kind, spark)]
