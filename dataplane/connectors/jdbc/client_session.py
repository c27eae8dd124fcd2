"""Sessions of clients by PEP 249."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dataplane.connectors.jdbc.dialect import DatabaseDialect, TableColumn
from dataplane.connectors.jdbc.table_rows import as_values
from dataplane.contract.schemas import Schema, column_names

if TYPE_CHECKING:
    import pyarrow as pa


def with_texts(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows of a client that gives floating-point numbers as Python's: each as its shortest text."""
    for row in rows:
        yield tuple(repr(cell) if isinstance(cell, float) else cell for cell in row)


class ClientSession(ABC):
    """`dialect.DatabaseSession` over a connection in autocommit."""

    def __init__(self, connection: Any, dialect: DatabaseDialect) -> None:
        self.connection, self.dialect = connection, dialect

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall()) if cursor.description else []

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor

    @abstractmethod
    def columns(self, query: str) -> list[TableColumn]:
        """The columns of a query, in order."""

    def described(self, query: str) -> Sequence[Any]:
        """The description of a query's columns that PEP 249 has."""
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            description: Sequence[Any] = cursor.description
            return description

    def load(self, table: str, schema: Schema, rows: Iterable[pa.RecordBatch]) -> None:
        names = self.dialect.named(column_names(schema))
        for batch in rows:
            values = list(as_values(batch, schema))
            if values:
                self.insert(f"INSERT INTO {table} ({names})", schema, values)

    def insert(self, into: str, schema: Schema, values: Sequence[tuple[Any, ...]]) -> None:
        """Rows of plain values. `into`: the statement without its values."""
        places = ", ".join(["%s"] * len(schema["fields"]))
        with self.connection.cursor() as cursor:
            cursor.executemany(f"{into.replace('%', '%%')} VALUES ({places})", values)

    @abstractmethod
    def set_autocommit(self, *, on: bool) -> None:
        """Off: a transaction begins."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.set_autocommit(on=False)
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the line may be cut: then the server ends it
                self.connection.rollback()
                self.set_autocommit(on=True)
            raise
        self.connection.commit()
        self.set_autocommit(on=True)

    def close(self) -> None:
        with suppress(Exception):
            self.connection.close()
