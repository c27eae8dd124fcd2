"""The session of Redshift, on a PostgreSQL that has Redshift's functions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from dataplane.connectors.jdbc.client_reader import RowReader
from dataplane.connectors.jdbc.jdbc_connection import address, connected
from dataplane.connectors.jdbc.jdbc_listing import Slice, Table, partitions
from tests.jdbc.databases import PostgresDatabase

FUNCTIONS = (
    "CREATE FUNCTION strtol(text, int) RETURNS bigint LANGUAGE sql"
    " AS 'SELECT (''x'' || lpad($1, 16, ''0''))::bit(64)::bigint'",
    "CREATE FUNCTION fnv_hash(float8) RETURNS bigint LANGUAGE sql"
    " AS 'SELECT hashfloat8extended($1, 0)'",
)
TABLE = (
    "CREATE TABLE t (name varchar(20), n int, price numeric(10,2), size float8, is_paid bool,"
    " day date, local timestamp, at timestamptz)"
)
VALUES = (
    "INSERT INTO t VALUES"
    " ('it''s', 1, 1.5, 0.1, true, '2013-01-02', '2013-01-02 03:04:05.000678',"
    "  '2013-01-02 05:04:05.000678+02'),"
    " (NULL, NULL, NULL, 'Infinity', false, NULL, NULL, NULL)"
)


def test_rows_are_those_of_their_listing(postgres: PostgresDatabase) -> None:
    postgres.do(*FUNCTIONS, TABLE, VALUES)
    job = postgres.reading(by="partitioned", column="name")
    job["settings"]["url"] = postgres.url.replace("postgresql", "redshift", 1)
    listed = [source for part in partitions(job) for source in part["objects"]]
    place, rows = address(job), []
    with connected(place) as session:
        table = Table.of(session, place.dialect, job["settings"])
        for source in listed:
            reader = RowReader(table.columns, "a label")
            query = table.select(Slice.of(source["uri"]), place.dialect.snapshot(session))
            for batch in reader.batches(session.stream(query)):
                rows += batch.drop_columns(batch.schema.names[-1]).to_pylist()
            assert reader.version == source["version"]
    local = datetime(2013, 1, 2, 3, 4, 5, 678)  # noqa: DTZ001
    first = ("it's", 1, Decimal("1.50"), 0.1, True, date(2013, 1, 2), local)
    assert [tuple(row.values()) for row in rows] == [
        (None, None, None, float("inf"), False, None, None, None),
        (*first, local.replace(tzinfo=UTC)),
    ]
