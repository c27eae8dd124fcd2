"""What databases say in different words: quoting, hashes of rows, locks, staging, upsert, types.

`DatabaseDialect` speaks standard SQL. A database is a subclass with its own words, and a row of
`dialects.DIALECTS`. Statements are texts with their values in them, quoted by the dialect.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from dataplane.contract.schemas import Json
from dataplane.contract.types import decimal_digits
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

    from dataplane.contract.schemas import Schema

OURS = "_headgate_row"  # the name of a row in our queries: no column of theirs has it
SYNC = "_headgate_sync"
STAGE = "_headgate_stage"
CONNECT_S = 10
NUMBERS = ("byte", "short", "integer", "long")
# Words of connections that cannot be made, of all clients
REACHING = (
    (
        r"[Nn]ame or service not known|getaddrinfo|nodename|name resolution"
        r"|could not translate host name|failed to resolve host",
        "host-unknown",
    ),
    (r"[Cc]onnection refused", "connection-refused"),
    (r"[Ss][Ss][Ll]|TLS|certificate", "tls-failed"),
    (
        r"timeout expired|timed out|timeout|No route to host|[Nn]etwork is unreachable",
        "host-unreachable",
    ),
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_NAME = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|\[((?:[^\]]|\]\])+)\]|([^."`\[\]]+)')
_ENDS = ('"', "`", "]")


class TableColumn(NamedTuple):
    """`kind`: the database's type with its sizes. `spark`: the type that its values are read as;
    empty where Spark itself says, or where there is none."""

    name: str
    kind: str
    spark: str = ""

    @property
    def is_number(self) -> bool:
        return self.spark in NUMBERS or decimal_digits(self.spark) is not None


class DatabaseSession(Protocol):
    """One connection in autocommit. Errors are the client's own."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query; none for a statement."""

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query as texts, bytes and None, without holding all of them."""

    def columns(self, query: str) -> list[TableColumn]:
        """The columns of a query, in order."""

    def load(self, table: str, schema: Schema, rows: Iterable[pa.RecordBatch]) -> None:
        """Add rows to a table with these columns."""

    def transaction(self) -> AbstractContextManager[object]:
        """Commits at the end, or nothing where an error leaves it."""

    def close(self) -> None: ...


class DatabaseDialect(ABC):
    """Standard SQL. Abstract methods are those for which the standard has no words. Names of the
    catalog are in upper case, as servers have them that tell cases apart."""

    scheme: ClassVar[str]  # of JDBC URLs
    title: ClassVar[str]
    example: ClassVar[str]
    extra: ClassVar[str] = ""  # of pip, for the client
    package: ClassVar[str]  # the client
    port: ClassVar[int]
    quotes: ClassVar[tuple[str, str]] = ('"', '"')
    # Codes of the server's errors, by what they mean; codes begin so that may pass by themselves
    states: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    passing: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[tuple[tuple[str, str], ...]] = REACHING  # of errors without a code
    types: ClassVar[Mapping[str, str]] = {}
    nested: ClassVar[str]  # the type for nested values, as JSON
    key_text: ClassVar[str]  # the type for texts of `_partition`
    has_spark_reader: ClassVar[bool] = False  # slices are read by Spark's JDBC source
    # Whether rows of a partition are found by the columns of its key: texts of keys are then values
    finds_by_columns: ClassVar[bool] = False
    # Whether columns are described by the types that statements give them
    is_described_as_declared: ClassVar[bool] = False
    has_keys_in_stage: ClassVar[bool] = True  # else keys are first compared in the table itself
    count: ClassVar[str] = "count"
    read_isolation: ClassVar[tuple[str, ...]] = ()  # before a transaction that reads one snapshot
    current_schema: ClassVar[str] = "SELECT current_schema()"

    # --- connections ------------------------------------------------------------------------------

    def plain_url(self, url: str) -> str:
        """The URL in the form `jdbc:scheme://host:port/database?parameters`."""
        return url

    @abstractmethod
    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        """A connection in autocommit. ModuleNotFoundError without the client."""

    @abstractmethod
    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        """The code, or nothing, and the message of an error of the client; None for others."""

    # --- names and values -------------------------------------------------------------------------

    def folded(self, name: str) -> str:
        """A name without quotes as the server understands it."""
        return name.lower()

    def names_of(self, table: str) -> tuple[str, ...]:
        """The parts of a table's name: `public.orders`, `"My Orders"`."""
        names = []
        for match in _NAME.finditer(table):
            *quoted, plain = match.groups()
            ends = zip(quoted, _ENDS, strict=True)
            names += [text.replace(end * 2, end) for text, end in ends if text]
            names += [self.folded(plain.strip())] if plain else []
        if not 1 <= len(names) <= 2 or not all(names):
            raise TaskFailure(
                "bad-table", f"{table} is no name of a table: write table or schema.table"
            )
        return tuple(names)

    def name(self, *parts: str) -> str:
        begin, end = self.quotes
        return ".".join(f"{begin}{part.replace(end, end * 2)}{end}" for part in parts)

    def named(self, names: Iterable[str]) -> str:
        return ", ".join(map(self.name, names))

    def literal(self, text: str) -> str:
        if "\0" in text:
            raise TaskFailure("bad-value", "a key or a bound has a character NUL")
        return "'" + text.replace("'", "''") + "'"

    def long_literal(self, text: str) -> str:
        """A text of any length, as a value of a column."""
        return self.literal(text)

    def comparable(self, text: str, column: TableColumn) -> str:
        """A value to compare the column with."""
        if column.is_number and _NUMBER.fullmatch(text):
            return text
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

    # --- rows -------------------------------------------------------------------------------------

    def rows_of(self, source: str) -> str:
        """A table or query with a name for its rows."""
        return f"{source} AS {self.name(OURS)}"

    def no_rows(self, source: str) -> str:
        """For the columns of a table or query."""
        return f"SELECT * FROM {source} WHERE 1 = 0"

    def is_exact(self, column: TableColumn) -> bool:
        """Whether equal values have one text, by which they can be found."""
        return column.spark in (*NUMBERS, "date")

    @abstractmethod
    def text(self, expression: str, column: TableColumn) -> str:
        """The text of a value, the same for equal values alone."""

    def label(self, expression: str, column: TableColumn) -> str:
        """The text of a value as rows are grouped by it, whatever a collation takes for equal."""
        return self.text(expression, column)

    def equals(self, expression: str, text: str, column: TableColumn) -> str:
        """Whether a value has the text of a label."""
        return f"{self.label(expression, column)} = {self.literal(text)}"

    def checksums(self, rows: RowQuery) -> str:
        """Label, number of rows, their bytes, and two sums of hashes, for each label."""
        hashes = self.row_hashes(rows.columns)
        inner = f"SELECT {rows.label} AS label, {hashes} FROM {rows.source} WHERE {rows.where}"
        sums = "coalesce(sum(row_size), 0), coalesce(sum(h0), 0), coalesce(sum(h1), 0)"
        counts = f"{self.count}(*), {sums}, {self.count}(h0)"
        group = f" GROUP BY {self.group_key('label')}" if rows.is_grouped else ""
        return f"SELECT min(label), {counts} FROM ({inner}) {self.name('r')}{group}"

    def group_key(self, label: str) -> str:
        """A value that is the same for the same labels alone."""
        return label

    def row_hashes(self, columns: Sequence[TableColumn]) -> str:
        """Bytes of a row's text, and two hashes of it: whole numbers below 2^64, as
        `row_size`, `h0` and `h1`."""
        text = self.row_text(columns)
        hashes = f"{self.hash(text, 0)} AS h0, {self.hash(text, 1)} AS h1"
        return f"{self.length(text)} AS row_size, {hashes}"

    def row_text(self, columns: Sequence[TableColumn]) -> str:
        """All values of a row as one text: each with its length before it, NULL as `-`."""
        parts = [self.text(self.name(OURS, column.name), column) for column in columns]
        measured = [
            f"coalesce({self.joined([self.chars(part), self.literal(':'), part])}, '-')"
            for part in parts
        ]
        return self.joined(measured)

    def joined(self, texts: Sequence[str]) -> str:
        """One text of several; NULL where one of them is."""
        return " || ".join(texts) if len(texts) > 1 else texts[0]

    def chars(self, text: str) -> str:
        return f"length({text})"

    def length(self, text: str) -> str:
        return f"octet_length({text})"

    @abstractmethod
    def hash(self, text: str, seed: int) -> str:
        """A hash of a text, whose sums over all rows of a slice do not overflow."""

    def read_values(self, columns: Sequence[TableColumn]) -> str:
        """The values of a row, as the client gives them exactly."""
        return ", ".join(
            f"{self.read_value(self.name(OURS, c.name), c)} AS {self.name(c.name)}" for c in columns
        )

    def read_value(self, expression: str, column: TableColumn) -> str:  # noqa: ARG002
        return expression

    def empty_column(self, column: str, source: str) -> str:
        """NULL with the type of a column."""
        return f"(SELECT {column} FROM {source} WHERE 1 = 0)"

    def snapshot(self, session: DatabaseSession) -> str:  # noqa: ARG002
        """Behind the name of a table that is read: the state of now, for all connections."""
        return ""

    def no_table(self) -> str:
        """Behind a SELECT that reads no table."""
        return ""

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


def lock_name(name: str) -> str:
    """A name of a lock, which most servers allow few characters."""
    return f"headgate {sha256(name.encode()).hexdigest()[:40]}"


def not_read(column: TableColumn) -> TaskFailure:
    message = f"column {column.name} has {column.kind}, which is not read: convert it in a `query`"
    return TaskFailure("not-supported", message)


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The place and the login of a database. Secrets are resolved: it must not be logged or
    stored."""

    dialect: DatabaseDialect
    url: str  # without user and password
    user: str
    password: str
    parameters: Mapping[str, str]

    @property
    def host(self) -> str:
        return self._parts.hostname or "localhost"

    @property
    def port(self) -> int:
        return self._parts.port or self.dialect.port

    @property
    def database(self) -> str:
        return unquote(self._parts.path.lstrip("/"))

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url.removeprefix("jdbc:"))


class RowQuery(NamedTuple):
    """Rows whose hashes are summed. `label`: the expression by which they are grouped."""

    source: str
    columns: Sequence[TableColumn]
    where: str
    label: str
    is_grouped: bool


class MergedRows(NamedTuple):
    """`select` gives rows with columns of these names."""

    select: str
    names: Sequence[str]
    key: Sequence[str]


Kind = Literal["user", "infrastructure"]
