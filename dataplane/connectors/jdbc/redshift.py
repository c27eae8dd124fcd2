"""Amazon Redshift as a source, by psycopg. No server has run these statements yet: tests compare
their texts.

Redshift takes texts for equal that differ in spaces at their end, so labels are grouped by their
hashes. A text has at most 65,535 bytes, so values are hashed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dataplane.connectors.jdbc.client_session import ClientSession, with_texts
from dataplane.connectors.jdbc.dialect import (
    CONNECT_S,
    DatabaseAddress,
    DatabaseSession,
    DigestDialect,
    TableColumn,
    not_read,
)
from dataplane.connectors.jdbc.postgresql import POSTGRESQL, libpq_place

# Texts of values do not depend on the settings of the cluster or the user
SESSION = ("SET timezone TO 'UTC'", "SET datestyle TO 'ISO'", "SET extra_float_digits TO 2")
_SPARK = {
    "bool": "boolean", "int2": "short", "int4": "integer", "int8": "long", "float4": "float",
    "float8": "double", "date": "date", "timestamp": "timestamp_ntz", "timestamptz": "timestamp",
    "text": "string", "varchar": "string", "bpchar": "string", "name": "string", "time": "string",
}  # fmt: skip


class RedshiftSession(ClientSession):
    """A connection of psycopg. The rows of a slice come as texts."""

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            yield from with_texts(cursor.stream(query))

    def columns(self, query: str) -> list[TableColumn]:
        return [_column(field) for field in self.described(query)]

    def set_autocommit(self, *, on: bool) -> None:
        self.connection.autocommit = on


def _column(field: Any) -> TableColumn:
    """A column by the description of a query."""
    kind = field.type_display
    name = kind.partition("(")[0]
    if name == "numeric":
        return TableColumn(field.name, kind, f"decimal({field.precision},{field.scale})")
    return TableColumn(field.name, kind, _SPARK.get(name, ""))


class Redshift(DigestDialect):
    scheme = "redshift"
    title = "Redshift"
    example = "jdbc:redshift://host:5439/database"
    extra = "postgresql"
    package = "psycopg"
    port = 5439
    escapes_backslashes = True
    joined_digests = 1600  # the most columns of a table
    words = POSTGRESQL.words
    states = POSTGRESQL.states
    passing = POSTGRESQL.passing

    # --- connections ------------------------------------------------------------------------------

    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        import psycopg

        connection = psycopg.connect(
            **libpq_place(address),
            client_encoding="utf8",  # a server may call it UNICODE
            connect_timeout=CONNECT_S,
            autocommit=True,
            prepare_threshold=None,
        )
        session = RedshiftSession(connection, self)
        for statement in SESSION:
            session.rows(statement)
        return session

    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        return POSTGRESQL.failure_of(error)

    # --- values -----------------------------------------------------------------------------------

    def text(self, expression: str, column: TableColumn) -> str:
        match column.spark:
            case "":
                raise not_read(column)
            case "boolean":
                return f"CASE WHEN {expression} THEN 'true' WHEN NOT {expression} THEN 'false' END"
            case "timestamp":
                return f"({expression} AT TIME ZONE 'UTC')::varchar"
            case _:
                return f"{expression}::varchar"

    def hashed_text(self, expression: str, column: TableColumn) -> str:
        """Texts of floating-point numbers may lack digits."""
        if column.spark in ("float", "double"):
            return f"FNV_HASH({expression})::varchar"
        return self.text(expression, column)

    def read_value(self, expression: str, column: TableColumn) -> str:
        is_float = column.spark in ("float", "double")
        return expression if is_float else self.text(expression, column)

    def group_key(self, label: str) -> str:
        return self.md5(label)

    def equals(self, expression: str, text: str, column: TableColumn) -> str:
        return f"{self.md5(self.label(expression, column))} = {self.md5(self.literal(text))}"

    def md5(self, text: str) -> str:
        return f"MD5({text})"

    def hash(self, text: str, seed: int) -> str:
        return f"STRTOL(SUBSTRING({self.md5(text)}, {1 + 15 * seed}, 15), 16)"


REDSHIFT = Redshift()
