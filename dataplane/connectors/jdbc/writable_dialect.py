"""What databases say in different words as they are written to: types, staging, locks, upsert."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import ClassVar, NamedTuple

from dataplane.connectors.jdbc.dialect import DatabaseDialect, DatabaseSession
from dataplane.contract.schemas import Json
from dataplane.contract.types import decimal_digits
from dataplane.task_failures import TaskFailure

SYNC = "_headgate_sync"
STAGE = "_headgate_stage"


class WritableDialect(DatabaseDialect):
    """A database that keeps copies of datasets. Abstract methods are those for which the standard
    has no words."""

    types: ClassVar[Mapping[str, str]] = {}
    nested: ClassVar[str]  # the type for nested values, as JSON
    key_text: ClassVar[str]  # the type for texts of `_partition`
    # Whether rows of a partition are found by the columns of its key: texts of keys are then values
    finds_by_columns: ClassVar[bool] = False
    # Whether columns are described by the types that statements give them
    is_described_as_declared: ClassVar[bool] = False
    has_keys_in_stage: ClassVar[bool] = True  # else keys are first compared in the table itself
    current_schema: ClassVar[str] = "SELECT current_schema()"

    # --- values ---------------------------------------------------------------------------------

    def long_literal(self, text: str) -> str:
        """A text of any length, as a value of a column."""
        return self.literal(text)

    def same(self, left: str, right: str) -> str:
        """Whether two expressions have one value, also where the server takes others for equal."""
        return f"{left} = {right}"

    def is_partition(self, expression: str, partition: str) -> str:
        return self.same(expression, self.literal(self.partition_text(partition)))

    def partition_text(self, partition: str) -> str:
        """The key of a partition as its column has it."""
        return partition

    def partition_of(self, text: str) -> str:
        """The key for a text of the column."""
        return text

    # --- writing ----------------------------------------------------------------------------------

    def type_of(self, name: str, kind: Json) -> str:
        """The database's type for one of Spark's; nested values are JSON."""
        if not isinstance(kind, str):
            return self.nested
        if digits := decimal_digits(kind):
            return self.decimal(*digits)
        if kind not in self.types:
            message = f"column {name} has type {kind}, which the table cannot hold: cast it"
            raise TaskFailure("not-supported", message)
        return self.types[kind]

    def decimal(self, precision: int, scale: int) -> str:
        return f"decimal({precision}, {scale})"

    def key_type(self, kind: str, columns: int) -> str:  # noqa: ARG002
        """The type of a column of a primary key of so many columns."""
        return kind

    @contextmanager
    def opening(self, session: DatabaseSession, name: str) -> Iterator[None]:  # noqa: ARG002
        """A transaction in which no other process makes tables of ours."""
        with session.transaction():
            yield

    @abstractmethod
    def sync_table(self, table: str) -> list[str]:
        """Statements that make the table of marks if there is none."""

    def mark(self, target: str, partition: str) -> Mapping[str, str]:
        """The columns that name a row of the table of marks. Keys of partitions are longer than
        most servers allow in an index: so a hash of both is the key."""
        name = sha256(f"{target}\0{partition}".encode()).hexdigest()
        return {"id": name, "target": target, "part": partition}

    def exists(self, schema: str, table: str) -> str:
        """A query with a row if the table is there."""
        where = f"TABLE_SCHEMA = {self.literal(schema)} AND TABLE_NAME = {self.literal(table)}"
        return f"SELECT 1 FROM INFORMATION_SCHEMA.TABLES WHERE {where}"

    def unfit(self, schema: str, table: str) -> str:  # noqa: ARG002
        """A query with a row that says why a table cannot be written to; empty for none."""
        return ""

    def hold(self, table: str, where: str) -> str:
        """A statement after which others that do the same wait for the end of the transaction."""
        return f"UPDATE {table} SET at = current_timestamp WHERE {where}"

    def stage_name(self, schema: str) -> str:
        return self.name(schema, STAGE)

    def stage(self, name: str, columns: str) -> list[str]:
        """Statements that make an empty table which this connection alone sees."""
        return [f"DROP TABLE IF EXISTS {name}", f"CREATE TEMPORARY TABLE {name} ({columns})"]

    def table(self, name: str, columns: str) -> str:
        return f"CREATE TABLE {name} ({columns})"

    def index(self, table: str, columns: Sequence[tuple[str, str]]) -> list[str]:
        """Statements by which rows of a partition are found, by columns with their types."""
        names = self.named(name for name, _ in columns)
        return [f"CREATE INDEX {self.name('_headgate_rows')} ON {table} ({names})"]

    def add_column(self, table: str, column: str) -> str:
        return f"ALTER TABLE {table} ADD {column}"

    def delete(self, table: str, where: str) -> str:
        """Rows of the table, which the condition calls `t`."""
        return f"DELETE FROM {table} AS t WHERE {where}"

    def merge(self, table: str, rows: MergedRows) -> str:
        """Insert rows, or give the new values to rows of the same key."""
        on = " AND ".join(self.same(f"t.{self.name(k)}", f"n.{self.name(k)}") for k in rows.key)
        values = ", ".join(f"n.{self.name(name)}" for name in rows.names)
        return (
            f"MERGE INTO {table} t USING ({rows.select}) n ON ({on})"
            f" WHEN MATCHED THEN UPDATE SET {self.assigned(rows, 'n.{}')}"
            f" WHEN NOT MATCHED THEN INSERT ({self.named(rows.names)}) VALUES ({values})"
        )

    def insert(self, table: str, names: Iterable[str], select: str) -> str:
        return f"INSERT INTO {table} ({self.named(names)}) {select}"

    def assigned(self, rows: MergedRows, new_value: str) -> str:
        """Each column beside the key with its new value, in which `{}` stands for the column."""
        others = [self.name(name) for name in rows.names if name not in rows.key]
        return ", ".join(f"{name} = {new_value.format(name)}" for name in others)

    # --- tests of connections ---------------------------------------------------------------------

    def may_create(self, schema: str | None) -> str:
        """A query with one row: the schema, and whether the user may make a table there; NULL where
        there is none."""
        schema_text = self.literal(schema) if schema else f"({self.current_schema})"
        return (
            f"SELECT {schema_text}, (SELECT max(1) FROM INFORMATION_SCHEMA.SCHEMATA"
            f" WHERE SCHEMA_NAME = {schema_text}){self.no_table()}"
        )


def writable(dialect: DatabaseDialect) -> WritableDialect:
    """The same dialect. TaskFailure for a database that is only read."""
    if not isinstance(dialect, WritableDialect):
        message = f"tables of {dialect.title} are read and not written: name another database"
        raise TaskFailure("not-supported", message)
    return dialect


def lock_name(name: str) -> str:
    """A name of a lock, which most servers allow few characters."""
    return f"headgate {sha256(name.encode()).hexdigest()[:40]}"


class MergedRows(NamedTuple):
    """`select` gives rows with columns of these names."""

    select: str
    names: Sequence[str]
    key: Sequence[str]
