"""Clients of databases without a server here: addresses, errors of connections, and values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from snowflake.connector.cursor import ResultMetadata
from snowflake.connector.errors import DatabaseError

from dataplane.connectors.jdbc.check import check
from dataplane.connectors.jdbc.dialect import DatabaseDialect, TableColumn
from dataplane.connectors.jdbc.dialects import DIALECTS
from dataplane.connectors.jdbc.jdbc_connection import address, task_failure
from dataplane.connectors.jdbc.jdbc_listing import partitions
from dataplane.connectors.jdbc.jdbc_writer import writing
from dataplane.connectors.jdbc.mysql import MYSQL
from dataplane.connectors.jdbc.oracle import ORACLE, OracleSession
from dataplane.connectors.jdbc.redshift import REDSHIFT
from dataplane.connectors.jdbc.snowflake import SNOWFLAKE, SnowflakeSession
from dataplane.connectors.jdbc.sqlserver import SQLSERVER, SqlServerSession
from dataplane.connectors.jdbc.writable_dialect import WritableDialect
from dataplane.contract.jdbc_options import SCHEMES, WRITABLE
from dataplane.contract.schemas import Json
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure
from tests.jdbc.databases import AT
from tests.jdbc.world import struct

SNOWFLAKE_URL = "jdbc:snowflake://a.eu.snowflakecomputing.com/"
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
        ("jdbc:redshift://db.example/shop", "db.example", 5439, "shop"),
        (f"{SNOWFLAKE_URL}?db=SHOP&warehouse=W", "a.eu.snowflakecomputing.com", 443, ""),
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
        ("jdbc:redshift://127.0.0.1:1/shop", "connection-refused"),
        ("jdbc:redshift://no-such-host.invalid/shop", "host-unknown"),
        ("jdbc:snowflake://127.0.0.1:1/?db=SHOP", "bad-url"),
        ("jdbc:snowflake://other.example%2f.snowflakecomputing.com/", "bad-url"),
        (f"{SNOWFLAKE_URL}?privatekey=Xyzzy", "bad-url"),
    ],
)
def test_a_listing_that_fails_names_the_cause(url: str, condition: str) -> None:
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job(url)))
    assert caught.value.condition == condition
    is_of_the_user = condition == "bad-url"
    assert caught.value.kind == ("user" if is_of_the_user else "infrastructure")


@pytest.mark.parametrize("url", ["jdbc:redshift://127.0.0.1:1/shop", SNOWFLAKE_URL])
def test_a_source_alone_is_never_written_to(url: str) -> None:
    """It is refused before any connection, also where a secret has the URL."""
    with pytest.raises(TaskFailure, match="are read and not written") as caught:
        writing(job(url), LocalLake(Path())).__enter__()
    assert caught.value.condition == "not-supported"
    with pytest.raises(TaskFailure, match="are read and not written"):
        check(job(url) | {"writes": True})


def test_the_blueprint_and_the_connector_have_the_same_databases() -> None:
    assert set(SCHEMES) == DIALECTS.keys()
    written = {name for name, d in DIALECTS.items() if isinstance(d, WritableDialect)}
    assert written == set(WRITABLE)


@pytest.mark.parametrize("dialect", [REDSHIFT, SNOWFLAKE, MYSQL], ids=lambda d: d.scheme)
def test_a_backslash_ends_no_literal(dialect: DatabaseDialect) -> None:
    assert dialect.literal("\\' OR 1 = 1 --") == "'\\\\'' OR 1 = 1 --'"


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
    """A cursor of a client with the description of a query."""

    def __init__(self, fields: Sequence[object]) -> None:
        self.description = fields

    def __enter__(self) -> Descriptions:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, query: str) -> None: ...


def described(fields: Sequence[object]) -> SimpleNamespace:
    """A connection whose cursors have this description."""
    return SimpleNamespace(cursor=lambda: Descriptions(fields))


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
    session = OracleSession(described([field]), ORACLE)
    assert session.columns("SELECT c FROM t") == [TableColumn("C", kind, spark)]


@pytest.mark.parametrize(
    ("code", "kind", "spark"),
    [
        (0, "number(10,2)", "decimal(10,2)"),
        (1, "float", "double"),
        (6, "timestamp_ltz", "timestamp"),
        (8, "timestamp_ntz", "timestamp_ntz"),
        (5, "variant", "string"),
        (14, "type 14", ""),
    ],
)
def test_columns_of_snowflake(code: int, kind: str, spark: str) -> None:
    field = ResultMetadata("C", code, None, None, precision=10, scale=2, is_nullable=True)
    session = SnowflakeSession(described([field]), SNOWFLAKE)
    assert session.columns("SELECT c FROM t") == [TableColumn("C", kind, spark)]


@pytest.mark.parametrize(
    ("code", "message", "condition", "kind"),
    [
        (2003, "SQL compilation error", "table-missing", "user"),
        (390100, "Incorrect username or password", "credentials-refused", "user"),
        (250001, "Failed to login: Connection refused (os error 111)", "connection-refused", ""),
        (604, "SQL execution canceled", "database-error", ""),
    ],
)
def test_errors_of_snowflake(code: int, message: str, condition: str, kind: str) -> None:
    failure = task_failure(SNOWFLAKE, DatabaseError(message, errno=code))
    assert failure is not None
    assert (failure.condition, failure.kind) == (condition, kind or "infrastructure")
