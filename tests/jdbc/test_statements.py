"""The statements for databases without a server here: they are compared with texts that were
checked by hand, and read by the parser of sqlglot. A statement stands once, where it is first run.

`pytest tests/jdbc/test_statements.py --record-examples` writes the texts anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import sqlglot

from dataplane.connectors.jdbc.dialect import DatabaseDialect, DatabaseSession, TableColumn
from dataplane.connectors.jdbc.jdbc_listing import Slice, Table, objects, require_ascending
from dataplane.connectors.jdbc.jdbc_writer import opened
from dataplane.connectors.jdbc.oracle import ORACLE
from dataplane.connectors.jdbc.redshift import REDSHIFT
from dataplane.connectors.jdbc.snowflake import SNOWFLAKE
from dataplane.connectors.jdbc.sqlserver import SQLSERVER
from dataplane.connectors.jdbc.table_layout import Layout
from dataplane.connectors.jdbc.writable_dialect import WritableDialect, writable
from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Json, Schema
from dataplane.storage.lake import LocalLake
from tests.jdbc.world import TYPES, WIDER, struct

STATEMENTS = Path(__file__).parent / "statements"
# Of each database: the kinds of columns, and what they are read as
COLUMNS = {
    SQLSERVER: [
        TableColumn("Month", "int", "integer"),
        TableColumn("price", "decimal(10,2)", "decimal(10,2)"),
        TableColumn("cash", "money", "decimal(19,4)"),
        TableColumn("size", "float", "double"),
        TableColumn("name", "varchar(20)", "string"),
        TableColumn("raw", "varbinary(max)", "binary"),
        TableColumn("day", "date", "date"),
        TableColumn("span", "time(7)", "string"),
        TableColumn("local", "datetime2(7)", "timestamp_ntz"),
        TableColumn("at", "datetimeoffset(7)", "timestamp"),
    ],
    ORACLE: [
        TableColumn("MONTH", "NUMBER(10,0)", "decimal(10,0)"),
        TableColumn("SIZE", "BINARY_DOUBLE", "double"),
        TableColumn("SHARE", "FLOAT(126)", "double"),
        TableColumn("NAME", "VARCHAR2(20)", "string"),
        TableColumn("RAW", "RAW(20)", "binary"),
        TableColumn("DAY", "DATE", "timestamp_ntz"),
        TableColumn("LOCAL", "TIMESTAMP(9)", "timestamp_ntz"),
        TableColumn("AT", "TIMESTAMP(9) WITH TIME ZONE", "timestamp"),
        TableColumn("PLACE", "ROWID", "string"),
    ],
    REDSHIFT: [
        TableColumn("month", "int4", "integer"),
        TableColumn("price", "numeric(10,2)", "decimal(10,2)"),
        TableColumn("size", "float8", "double"),
        TableColumn("is_paid", "bool", "boolean"),
        TableColumn("name", "varchar(20)", "string"),
        TableColumn("day", "date", "date"),
        TableColumn("local", "timestamp", "timestamp_ntz"),
        TableColumn("at", "timestamptz", "timestamp"),
    ],
    SNOWFLAKE: [
        TableColumn("MONTH", "number(10,0)", "decimal(10,0)"),
        TableColumn("SIZE", "float", "double"),
        TableColumn("IS_PAID", "boolean", "boolean"),
        TableColumn("NAME", "varchar", "string"),
        TableColumn("RAW", "binary", "binary"),
        TableColumn("DAY", "date", "date"),
        TableColumn("SPAN", "time", "string"),
        TableColumn("LOCAL", "timestamp_ntz", "timestamp_ntz"),
        TableColumn("AT", "timestamp_tz", "timestamp"),
        TableColumn("TAGS", "variant", "string"),
    ],
}
PARSERS = {SQLSERVER: "tsql", ORACLE: "oracle", REDSHIFT: "redshift", SNOWFLAKE: "snowflake"}
PARSED = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE INDEX", "ALTER TABLE")
OWNER = "f.o 1"


class RecordedSession:
    """Keeps the statements, and answers as a database would in which only our own table is."""

    def __init__(self, dialect: DatabaseDialect) -> None:
        self.dialect, self.statements = dialect, list[str]()
        self.mark = "no mark"
        if isinstance(dialect, WritableDialect):
            self.mark = dialect.mark("s.copy", "")["id"]
        # As the mark has it, as the table has it, and as the writer is about to make it
        self.noted = self.layout = self.wanted = ""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        self.statements.append(query)
        is_of_table = self.mark in query
        if query.startswith("SELECT owner, generation, layout"):
            return [(OWNER, 0, self.noted)] if is_of_table and self.noted else []
        if is_of_table and "SET owner" in query:
            self.noted = self.wanted
        if query.startswith("ALTER TABLE"):
            self.layout = self.wanted
        if "_tables WHERE" in query or "SCHEMA.TABLES WHERE" in query:
            return [(1,)] if self.layout else []
        if query.startswith("SELECT count(*)"):
            return [(2,)]
        if "min(label)" in query:
            return [("1", 1, 1, 1, 1, 1)]
        if "get_system_change_number" in query:
            return [(42,)]
        if "CURRENT_TIMESTAMP()" in query:
            return [("2026-11-28 12:00:00.000000000",)]
        return [(0,)] if "CASE WHEN" in query else []

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        yield from self.rows(query)

    def columns(self, query: str) -> list[TableColumn]:
        self.statements.append(f"-- columns of: {query}")
        kinds = Layout.from_text(self.layout).columns if self.layout else ()
        kinds = tuple((name, kind.partition(" COLLATE ")[0]) for name, kind in kinds)
        return [TableColumn(name, kind, "string") for name, kind in kinds]

    def load(self, table: str, schema: Schema, rows: Iterable[object]) -> None:
        self.statements.append(f"-- load into {table}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.statements.append("-- transaction")
        yield
        self.statements.append("-- commit")

    def close(self) -> None: ...


def reading(session: RecordedSession) -> None:
    dialect, columns = session.dialect, COLUMNS[session.dialect]
    month, name = columns[0].name, dialect.folded("name")

    def table(**by: Json) -> Table:
        settings = {"url": "", "table": "s.t", "query": None, "by": "full"} | by
        return Table(cast("DatabaseSession", session), dialect, settings, columns)

    session.statements.append("-- LISTING")
    objects(table())
    by_name = table(by="partitioned", column=name, bounds=[])
    for slices in (by_name, table(by="partitioned", column=month, bounds=["1", "9"])):
        objects(slices)
    with pytest.raises(ValueError, match="argument 2"):  # the session answers one bound
        require_ascending(table(by="partitioned", column=month, bounds=["1", "2", "3"]))
    session.statements.append("-- SLICES")
    snapshot = dialect.snapshot(cast("DatabaseSession", session))
    for part in (
        Slice(),
        Slice(name, "it's", is_exact=False),
        Slice(name, is_null=True),
        Slice(month, low="1", high="9"),
    ):
        condition = by_name.select(part, snapshot).partition(" FROM ")[2]
        session.statements.append(f"SELECT 1 FROM {condition}")
    session.statements.append(by_name.select(Slice(), snapshot))
    query = table(table=None, query="SELECT 1 AS c FROM x")
    session.statements.append(query.select(Slice(), snapshot).partition(" FROM ")[2])


def job(schema: Schema, **settings: Json) -> WriteJob:
    place = {"table": '"s"."copy"', "mode": "replace", "key": [], "schema_change": "alter"}
    job = {"settings": place | settings, "owner": OWNER, "schema": schema, "keyed": []}
    return cast("WriteJob", job)


def write(session: RecordedSession, write_job: WriteJob, partition: str = "month=1") -> None:
    dialect = writable(session.dialect)
    target = opened(cast("DatabaseSession", session), dialect, write_job)
    session.wanted = target.layout.text
    session.noted = session.noted or session.wanted
    session.layout = session.layout or session.wanted
    task = {"task": "", "epoch": 1, "partition": partition, "generation": 7, "files": []}
    target.write(cast("WriteTask", task), LocalLake(Path()))


def writing(session: RecordedSession) -> None:
    for title, settings in (
        ("REPLACE", {}),
        ("UPSERT", {"mode": "upsert", "key": ["month", "name"]}),
        ("APPEND", {"mode": "append"}),
    ):
        session.noted = session.layout = ""
        session.statements.append(f"-- {title}")
        write(session, job(struct(month="integer", name="string"), **settings))
    session.statements.append("-- ANOTHER COLUMN")
    write(session, job(WIDER, mode="append"), "")
    session.statements.append("-- TYPES")
    dialect = writable(session.dialect)
    session.statements += Layout.of(job(TYPES), dialect).create(dialect, "t")


@pytest.mark.parametrize("dialect", COLUMNS, ids=lambda dialect: dialect.scheme)
def test_statements_are_those_that_were_checked(
    dialect: DatabaseDialect, pytestconfig: pytest.Config
) -> None:
    session = RecordedSession(dialect)
    reading(session)
    if isinstance(dialect, WritableDialect):
        writing(session)
    lines = dict.fromkeys(statement.replace("\n", " ") for statement in session.statements)
    text = "\n".join([*lines, ""])
    checked = STATEMENTS / f"{dialect.scheme}.sql"
    if pytestconfig.getoption("--record-examples"):
        checked.write_text(text, encoding="utf-8")
    assert text == checked.read_text(encoding="utf-8")


@pytest.mark.parametrize(("dialect", "parser"), PARSERS.items(), ids=PARSERS.values())
def test_statements_can_be_parsed(dialect: DatabaseDialect, parser: str) -> None:
    text = (STATEMENTS / f"{dialect.scheme}.sql").read_text(encoding="utf-8")
    statements = [line for line in text.splitlines() if line.startswith(PARSED)]
    assert len(statements) > (30 if isinstance(dialect, WritableDialect) else 8)
    for statement in statements:
        sqlglot.parse_one(statement, read=parser)
