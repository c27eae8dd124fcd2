"""What databases say in different words: quoting, hashes of rows, locks, staging, upsert, types.

`DatabaseDialect` speaks standard SQL. A database is a subclass with its own words, and a row of
`dialects.DIALECTS`. Statements are texts with their values in them, quoted by the dialect.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from dataplane.contract.types import decimal_digits
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

    from dataplane.contract.schemas import Schema

OURS = "_headgate_row"  # the name of a row in our queries: no column of theirs has it
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
    has_spark_reader: ClassVar[bool] = False  # slices are read by Spark's JDBC source
    escapes_backslashes: ClassVar[bool] = False  # in literals
    count: ClassVar[str] = "count"
    read_isolation: ClassVar[tuple[str, ...]] = ()  # before a transaction that reads one snapshot

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
        escaped = text.replace("\\", "\\\\") if self.escapes_backslashes else text
        return "'" + escaped.replace("'", "''") + "'"

    def comparable(self, text: str, column: TableColumn) -> str:
        """A value to compare the column with."""
        if column.is_number and _NUMBER.fullmatch(text):
            return text
        return self.literal(text)

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

    def hashed_text(self, expression: str, column: TableColumn) -> str:
        """A text that differs where values differ, though it may not be the value's own."""
        return self.text(expression, column)

    def label(self, expression: str, column: TableColumn) -> str:
        """The text of a value by which rows are grouped. Texts that a collation takes for equal
        stay apart."""
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
        parts = self.hashed_texts(columns)
        measured = [
            f"coalesce({self.joined([self.chars(part), self.literal(':'), part])}, '-')"
            for part in parts
        ]
        return self.joined(measured)

    def hashed_texts(self, columns: Sequence[TableColumn]) -> list[str]:
        return [self.hashed_text(self.name(OURS, column.name), column) for column in columns]

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


class DigestDialect(DatabaseDialect):
    """A server whose texts may be too short for all values of a row: each value is hashed first."""

    joined_digests: ClassVar[int]  # of columns, that fit into one text

    @abstractmethod
    def md5(self, text: str) -> str:
        """32 hexadecimal digits."""

    def row_hashes(self, columns: Sequence[TableColumn]) -> str:
        texts = self.hashed_texts(columns)
        size = " + ".join(f"coalesce({self.length(text)}, 0)" for text in texts)
        digest = self._digest([f"coalesce({self.md5(text)}, '-')" for text in texts])
        return f"{size} AS row_size, {self.hash(digest, 0)} AS h0, {self.hash(digest, 1)} AS h1"

    def _digest(self, digests: Sequence[str]) -> str:
        """One text of the hashes of all columns: the hashes of some columns are hashed together."""
        starts = range(0, len(digests), self.joined_digests)
        parts = [self.joined(digests[start : start + self.joined_digests]) for start in starts]
        return parts[0] if len(parts) == 1 else self.joined([self.md5(part) for part in parts])


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


Kind = Literal["user", "infrastructure"]
