"""Values of MariaDB in fragments: those that the server has, or an error."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.jdbc.databases import MariaDatabase, Servers
from tests.spark.conftest import Lake, done
from tests.spark.test_databases import job, parsed, tasks


@pytest.fixture
def database(servers: Servers) -> MariaDatabase:
    return servers.database(MariaDatabase)


# The definition of a column, a value in SQL, the type and the value in Spark
CORPUS: dict[str, tuple[str, str, str, Any]] = {
    "flag": ("boolean", "7", "byte", 7),
    "tiny": ("tinyint unsigned", "255", "short", 255),
    "medium": ("mediumint unsigned zerofill", "16777215", "integer", 16777215),
    "whole": ("int unsigned", "4294967295", "long", 4294967295),
    "least": ("bigint", "-9223372036854775808", "long", -(2**63)),
    "big": ("bigint unsigned", "18446744073709551615", "decimal(20,0)", Decimal(2**64 - 1)),
    "exact": ("decimal(12,3)", "-0.005", "decimal(12,3)", Decimal("-0.005")),
    "wide": ("decimal(65,30)",
             "12345678.000000000000000000000000000001", "decimal(38,30)",
             Decimal("12345678.000000000000000000000000000001")),
    "long": ("decimal(65,0)", "9" * 38, "decimal(38,0)", Decimal("9" * 38)),
    "single": ("float", "16777216.0", "float", 16777216.0),
    "tenth": ("float", "0.1", "float", 0.10000000149011612),
    "twice": ("double", "0.30000000000000004", "double", 0.30000000000000004),
    "huge": ("double", "1.7976931348623157e308", "double", 1.7976931348623157e308),
    "bits": ("bit(10)", "b'1100000001'", "binary", b"\x03\x01"),
    "year": ("year", "1901", "short", 1901),
    "day": ("date", "'9999-12-31'", "date", date(9999, 12, 31)),
    "local": ("datetime(6)", "'2013-01-02 03:04:05.000678'", "timestamp_ntz",
              datetime(2013, 1, 2, 3, 4, 5, 678)),  # noqa: DTZ001
    "at": ("timestamp(6) NULL", "'2013-01-02 03:04:05.000678'", "timestamp",
           datetime(2013, 1, 2, 3, 4, 5, 678)),  # noqa: DTZ001
    "span": ("time(6)", "'-838:59:59.000001'", "string", "-838:59:59.000001"),
    "choice": ("enum('b','a')", "'a'", "string", "a"),
    "some": ("set('x','y')", "'y,x'", "string", "x,y"),
    "json": ("json", """'{"a": [1, null]}'""", "string", '{"a": [1, null]}'),
    "latin": ("varchar(20) CHARACTER SET latin1", "'Ünïcödé € '", "string", "Ünïcödé € "),
    "text é`": ("text CHARACTER SET utf8mb4", "'😀\\\\\\n\\0x'", "string", "😀\\\n\0x"),
    "padded": ("char(5)", "'ab '", "string", "ab"),
    "raw": ("varbinary(9)", "X'00ff5c27'", "binary", b"\x00\xff\\'"),
    "blob": ("longblob", "X'80'", "binary", b"\x80"),
    "fixed": ("binary(3)", "'a'", "binary", b"a\0\0"),
    "uuid": ("uuid", "'00000000-0000-0000-0000-000000000001'", "string",
             "00000000-0000-0000-0000-000000000001"),
    "ip": ("inet6", "'::1'", "string", "::1"),
}  # fmt: skip


def test_a_hostile_corpus_of_types_has_the_servers_values(
    lake: Lake, database: MariaDatabase
) -> None:
    columns = ", ".join(
        f"`{name.replace('`', '``')}` {kind}" for name, (kind, *_) in CORPUS.items()
    )
    values = ", ".join(value for _, value, _, _ in CORPUS.values())
    nothing = ", ".join("NULL" for _ in CORPUS)
    database.do(
        f"CREATE TABLE t ({columns})",
        f"INSERT INTO t VALUES ({values})",
        f"INSERT INTO t VALUES ({nothing})",
    )
    work = job(database)
    [result] = parsed(lake, work, tasks(work))
    kinds = {f["name"]: f["type"] for f in done(result)["schema"]["fields"]}
    assert kinds == {name: kind for name, (_, _, kind, _) in CORPUS.items()}
    row, empty = sorted(lake.rows(result), key=lambda row: row["tiny"] is None)
    assert row == {name: value for name, (*_, value) in CORPUS.items()}
    assert set(empty.values()) == {None}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "'0000-00-00'"),
        ("date", "'2013-02-00'"),
        ("datetime", "'0000-00-00 00:00:00'"),
        ("timestamp", "0"),
        ("decimal(65,0)", "9" * 39),
        ("decimal(65,30)", "123456789.5"),
    ],
)
def test_a_value_that_spark_has_not_is_an_error(
    lake: Lake, database: MariaDatabase, kind: str, value: str
) -> None:
    database.do(f"CREATE TABLE t (c {kind})", f"INSERT INTO t VALUES ({value})")
    work = job(database)
    [result] = parsed(lake, work, tasks(work))
    assert result["state"] == "failed"
    assert (result["error"]["condition"], result["error"]["kind"]) == ("value-not-held", "user")
    assert "column c" in result["error"]["message"]
    query_job = job(database, table=None, query="SELECT CONVERT(c USING utf8mb4) AS c FROM t")
    [text] = parsed(lake, query_job, tasks(query_job))
    assert len(lake.rows(text)) == 1
