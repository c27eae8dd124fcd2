"""PostgreSQL, by psycopg; Spark's own JDBC source reads its rows (`jdbc_reader`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from dataplane.connectors.jdbc.dialect import (
    CONNECT_S,
    OURS,
    REACHING,
    DatabaseAddress,
    DatabaseSession,
    RowQuery,
    TableColumn,
)
from dataplane.connectors.jdbc.table_rows import as_csv
from dataplane.connectors.jdbc.writable_dialect import STAGE, MergedRows, WritableDialect
from dataplane.contract.schemas import Schema, column_names

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

# Texts of values are what versions are made of: they must not depend on the server's or the user's
# own settings.
SESSION = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=1"
    " -c bytea_output=hex -c standard_conforming_strings=on"
)
# Parameters that libpq has by the same name
_SAME = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword")
# Types of which equal values have one text: a value's slice is then found by the value, perhaps
# through an index.
_EXACT = frozenset(
    {"bool", "int2", "int4", "int8", "text", "varchar", "date", "uuid", "timestamp", "timestamptz"}
)
# Two sums of hashes with different seeds, as for fragments: equal pairs of rows do not cancel each
# other. OFFSET keeps the inner query one of its own, else each row is made a text three times; one
# of type bigint leaves it parallel.
_CHECKSUMS = """SELECT {head}, count(*), coalesce(sum(octet_length(row_text)), 0),
       coalesce(sum({first}), 0), coalesce(sum({second}), 0), count(*)
FROM (SELECT {label} AS label, {row}::text COLLATE "C" AS row_text
      FROM {source} WHERE {where} OFFSET '0') AS rows{group}"""


class PostgresSession:
    """A connection of psycopg."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(query)
        return cursor.fetchall() if cursor.description else []

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        yield from self.rows(query)  # Spark reads rows of many

    def columns(self, query: str) -> list[TableColumn]:
        description = self.connection.execute(query).description or ()
        return [TableColumn(c.name, c.type_display) for c in description]

    def load(self, table: str, schema: Schema, rows: Iterable[pa.RecordBatch]) -> None:
        names = POSTGRESQL.named(column_names(schema))
        copy = f"COPY {table} ({names}) FROM STDIN (FORMAT csv)"
        with (
            self.connection.cursor() as cursor,
            cursor.copy(copy) as into,
        ):
            for batch in rows:
                into.write(as_csv(batch, schema))

    def transaction(self) -> AbstractContextManager[object]:
        return self.connection.transaction()

    def close(self) -> None:
        self.connection.close()


class Postgresql(WritableDialect):
    scheme = "postgresql"
    title = "PostgreSQL"
    example = "jdbc:postgresql://host:5432/database"
    extra = "postgresql"
    package = "psycopg"
    port = 5432
    words = (
        (
            r"authentication failed|no password supplied|role .* does not exist|pg_hba",
            "credentials-refused",
        ),
        (r"database .* does not exist", "database-missing"),
        *REACHING,
    )
    states = {  # noqa: RUF012
        "credentials-refused": ("28P01", "28000"),
        "database-missing": ("3D000",),
        "table-missing": ("42P01", "3F000"),
        "column-missing": ("42703",),
        "permission-denied": ("42501",),
        "key-not-unique": ("23505", "21000"),
    }
    passing = ("08", "53", "57", "40", "55P03")
    types = {  # noqa: RUF012
        "string": "text",
        "binary": "bytea",
        "boolean": "boolean",
        "byte": "smallint",
        "short": "smallint",
        "integer": "integer",
        "long": "bigint",
        "float": "real",
        "double": "double precision",
        "date": "date",
        "timestamp": "timestamptz",
        "timestamp_ntz": "timestamp",
    }
    nested = "jsonb"
    key_text = "text"
    finds_by_columns = True
    has_spark_reader = True
    read_isolation = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",)

    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        import psycopg

        return PostgresSession(psycopg.connect(**libpq_options(address), autocommit=True))

    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        import psycopg

        return (error.sqlstate or "", str(error)) if isinstance(error, psycopg.Error) else None

    def literal(self, text: str) -> str:
        """The same text for each `standard_conforming_strings`: Spark's connections have the
        server's."""
        quoted = super().literal(text)
        return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted

    def comparable(self, text: str, column: TableColumn) -> str:  # noqa: ARG002
        return self.literal(text)  # it takes the column's type

    def is_exact(self, column: TableColumn) -> bool:
        return column.kind.partition("(")[0] in _EXACT

    def text(self, expression: str, column: TableColumn) -> str:  # noqa: ARG002
        return f"{expression}::text"

    def checksums(self, rows: RowQuery) -> str:
        return _CHECKSUMS.format(
            head="label" if rows.is_grouped else "min(label)",
            label=rows.label if rows.is_grouped else "NULL::text",
            row=self.name(OURS),
            first=self.hash("row_text", 0),
            second=self.hash("row_text", 1),
            source=rows.source,
            where=rows.where,
            group=" GROUP BY label" if rows.is_grouped else "",
        )

    def hash(self, text: str, seed: int) -> str:
        return f"hashtextextended({text}, {seed})"

    def decimal(self, precision: int, scale: int) -> str:
        return f"numeric({precision}, {scale})"

    @contextmanager
    def opening(self, session: DatabaseSession, name: str) -> Iterator[None]:
        with session.transaction():
            session.rows(f"SELECT pg_advisory_xact_lock(hashtextextended({self.literal(name)}, 0))")
            yield

    def sync_table(self, table: str) -> list[str]:
        return [
            f"CREATE TABLE IF NOT EXISTS {table} (target text, partition text, owner text NOT NULL,"
            " generation bigint NOT NULL, rows bigint, layout text,"
            " at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, partition))"
        ]

    def mark(self, target: str, partition: str) -> Mapping[str, str]:
        return {"target": target, "partition": partition}

    def exists(self, schema: str, table: str) -> str:
        return f"SELECT 1 WHERE to_regclass({self.literal(self.name(schema, table))}) IS NOT NULL"

    def hold(self, table: str, where: str) -> str:
        return f"SELECT 1 FROM {table} WHERE {where} FOR UPDATE"

    def stage_name(self, schema: str) -> str:  # noqa: ARG002
        return self.name("pg_temp", STAGE)

    def index(self, table: str, columns: Sequence[tuple[str, str]]) -> list[str]:
        return [f"CREATE INDEX ON {table} ({self.named(name for name, _ in columns)})"]

    def add_column(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column}"

    def merge(self, table: str, rows: MergedRows) -> str:
        new, key = self.assigned(rows, "excluded.{}"), self.named(rows.key)
        insert = self.insert(table, rows.names, rows.select)
        return f"{insert} ON CONFLICT ({key}) DO UPDATE SET {new}"

    def may_create(self, schema: str | None) -> str:
        schema_text = self.literal(schema) if schema else "NULL"
        return (
            "SELECT s, has_schema_privilege(to_regnamespace(quote_ident(s)), 'CREATE')"
            f" FROM (SELECT coalesce({schema_text}, current_schema())) AS schemas (s)"
        )


POSTGRESQL = Postgresql()


def libpq_place(address: DatabaseAddress) -> dict[str, Any]:
    """Host, database, login and TLS."""
    parts = urlsplit(address.url.removeprefix("jdbc:"))
    place = {
        "host": address.host,
        "port": address.port,
        "dbname": unquote(parts.path.lstrip("/")) or address.user or "postgres",
    }
    same = {k: v for k, v in address.parameters.items() if k in _SAME}
    if address.parameters.get("ssl", "").lower() == "true":
        same.setdefault("sslmode", "verify-full")
    login = {"user": address.user, "password": address.password}
    return place | {k: v for k, v in login.items() if v} | same


def libpq_options(address: DatabaseAddress) -> dict[str, Any]:
    search = address.parameters.get("currentSchema")
    options = f"{SESSION} -c search_path={search}" if search else SESSION
    return libpq_place(address) | {"options": options, "connect_timeout": CONNECT_S}
