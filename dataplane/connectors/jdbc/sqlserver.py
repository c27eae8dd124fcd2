"""SQL Server, by pymssql. No server has run these statements yet: tests compare their texts.

Texts are compared by a binary collation and by their length, since `=` ignores spaces at the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from dataplane.connectors.jdbc.client_session import ClientSession
from dataplane.connectors.jdbc.dialect import (
    CONNECT_S,
    REACHING,
    DatabaseAddress,
    DatabaseSession,
    TableColumn,
    not_read,
)
from dataplane.connectors.jdbc.writable_dialect import STAGE, MergedRows, WritableDialect, lock_name
from dataplane.contract.schemas import Schema
from dataplane.task_failures import TaskFailure

LOCK_MS = 60_000
MOST_ROWS = 1000  # that one VALUES may have
KEY_CHARACTERS = 450  # of a primary key: 900 bytes
LOCKED = 51_222  # our own error
EXACT = "COLLATE Latin1_General_100_BIN2"
_CLIENTS = range(20_000, 21_000)  # codes of errors that the client gives
_SPARK = {
    "bit": "boolean", "tinyint": "short", "smallint": "short", "int": "integer", "bigint": "long",
    "money": "decimal(19,4)", "smallmoney": "decimal(10,4)", "real": "float", "float": "double",
    "date": "date", "datetime": "timestamp_ntz", "smalldatetime": "timestamp_ntz",
    "datetime2": "timestamp_ntz", "datetimeoffset": "timestamp", "time": "string",
    "char": "string", "varchar": "string", "nchar": "string", "nvarchar": "string",
    "text": "string", "ntext": "string", "xml": "string", "uniqueidentifier": "string",
    "binary": "binary", "varbinary": "binary", "image": "binary", "timestamp": "binary",
}  # fmt: skip
# Styles of CONVERT that keep all digits, or write ISO dates
_STYLES = {"float": 3, "double": 3, "date": 23, "timestamp": 121, "timestamp_ntz": 121}
_PARAMETERS = ("databasename", "database", "encrypt", "trustservercertificate", "user", "password")


class SqlServerSession(ClientSession):
    """A connection of pymssql. The rows of a slice come as texts and bytes."""

    def columns(self, query: str) -> list[TableColumn]:
        self.rows(query)  # raises the error of a query that cannot run
        described = self.rows(
            "SELECT name, system_type_name FROM sys.dm_exec_describe_first_result_set"
            f"({self.dialect.literal(query)}, NULL, 0) ORDER BY column_ordinal"
        )
        return [TableColumn(name, kind, _spark_type(kind)) for name, kind in described]

    def insert(self, into: str, _: Schema, values: Sequence[tuple[Any, ...]]) -> None:
        for start in range(0, len(values), MOST_ROWS):
            rows = values[start : start + MOST_ROWS]
            texts = [f"({', '.join(map(_literal, row))})" for row in rows]
            self.rows(f"{into} VALUES {', '.join(texts)}")

    def set_autocommit(self, *, on: bool) -> None:
        self.connection.autocommit(on)


def _spark_type(kind: str) -> str:
    """The type for `decimal(10,2)`, `nvarchar(20)`; empty for a type that is not read."""
    name, _, sizes = kind.partition("(")
    if name in ("decimal", "numeric"):
        return f"decimal({sizes}"
    return _SPARK.get(name, "")


def _literal(value: object) -> str:
    """A value of Python in SQL. The client itself would cut points in time to milliseconds."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(int(value))
        case bytes():
            return f"0x{value.hex()}"
        case float() if not math.isfinite(value):
            raise TaskFailure("bad-value", "SQL Server has no infinite numbers and no NaN")
        case float():  # the exponent makes it a FLOAT, not a DECIMAL
            text = repr(value)
            return text if "e" in text else f"{text}e0"
        case int():
            return str(value)
        case Decimal():  # texts with an exponent are not converted
            return SQLSERVER.literal(f"{value:f}")
        case _:
            return SQLSERVER.literal(str(value).removesuffix("+00:00"))


class SqlServer(WritableDialect):
    scheme = "sqlserver"
    title = "SQL Server"
    example = "jdbc:sqlserver://host:1433;databaseName=database;trustServerCertificate=true"
    extra = "sqlserver"
    package = "pymssql"
    port = 1433
    quotes = ("[", "]")
    count = "count_big"
    is_described_as_declared = True
    states = {  # noqa: RUF012
        "credentials-refused": ("18456", "18452"),
        "database-missing": ("4060",),
        "table-missing": ("208", "2760"),
        "column-missing": ("207",),
        "permission-denied": ("229", "262", "300"),
        "key-not-unique": ("2627", "2601", "8672"),
    }
    passing = ("1205", "1222", "3960", "40197", "40501", "40613", "49918", "49919", str(LOCKED))
    words = (
        *REACHING,
        ("Login failed", "credentials-refused"),
        ("unavailable or does not exist", "host-unreachable"),
    )
    types = {  # noqa: RUF012
        "string": f"nvarchar(max) {EXACT}",
        "binary": "varbinary(max)",
        "boolean": "bit",
        "byte": "smallint",
        "short": "smallint",
        "integer": "int",
        "long": "bigint",
        "float": "real",
        "double": "float",
        "date": "date",
        "timestamp": "datetime2(6)",
        "timestamp_ntz": "datetime2(6)",
    }
    nested = f"nvarchar(max) {EXACT}"
    key_text = f"nvarchar(850) {EXACT}"  # the most that an index takes: 1,700 bytes
    current_schema: ClassVar[str] = "SELECT schema_name()"
    read_isolation = (
        "COMMIT",
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT",
        "BEGIN TRANSACTION",
    )

    # --- connections ------------------------------------------------------------------------------

    def plain_url(self, url: str) -> str:
        """Parameters of the driver stand behind semicolons. TaskFailure for others than these."""
        place, *parameters = url.removeprefix("jdbc:sqlserver://").split(";")
        settings = {}
        for parameter in filter(None, parameters):
            name, _, setting = parameter.partition("=")
            if name.lower() not in _PARAMETERS:
                # Not by its name, which may be the end of a password
                message = f"only these parameters are supported: {', '.join(_PARAMETERS)}"
                hint = "write a password that has a semicolon into `options`"
                raise TaskFailure("bad-url", f"{message}; {hint}")
            settings[name.lower()] = setting
        database = settings.pop("databasename", settings.pop("database", ""))
        return f"jdbc:sqlserver://{place}/{quote(database)}?{urlencode(settings)}"

    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        import pymssql

        connection = pymssql.connect(
            server=address.host,
            port=str(address.port),
            user=address.user or None,
            password=address.password or None,
            database=address.database,
            charset="UTF-8",
            login_timeout=CONNECT_S,
            autocommit=True,
            encryption=_encryption(address),
        )
        session = SqlServerSession(connection, self)
        session.rows("SET XACT_ABORT ON")
        return session

    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        import pymssql

        if not isinstance(error, pymssql.Error):
            return None
        numbered = error.args[0] if error.args and isinstance(error.args[0], tuple) else error.args
        code, text = numbered if len(numbered) == 2 else (0, str(error))
        message = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        is_servers = isinstance(code, int) and code > 0 and code not in _CLIENTS
        return str(code) if is_servers else "", message

    # --- values -----------------------------------------------------------------------------------

    def folded(self, name: str) -> str:
        return name

    def literal(self, text: str) -> str:
        return f"N{super().literal(text)}"

    def same(self, left: str, right: str) -> str:
        return f"({left} = {right} AND datalength({left}) = datalength({right}))"

    def text(self, expression: str, column: TableColumn) -> str:
        if not column.spark:
            raise not_read(column)
        style = _STYLES.get(column.spark)
        if column.spark == "binary":
            expression, style = f"CONVERT(varbinary(max), {expression})", 2
        elif column.spark == "timestamp":
            expression = f"CONVERT(datetime2(7), SWITCHOFFSET({expression}, '+00:00'))"
        elif "money" in column.kind:
            style = 2
        elif column.kind.startswith("time("):
            style = 121
        styled = f"{expression}, {style}" if style else expression
        return f"CONVERT(nvarchar(max), {styled}) {EXACT}"

    def group_key(self, label: str) -> str:
        return f"CONVERT(varchar(max), CONVERT(varbinary(max), {label}), 2)"

    def equals(self, expression: str, text: str, column: TableColumn) -> str:
        label, literal = self.label(expression, column), self.literal(text)
        return f"{self.group_key(label)} = {self.group_key(f'CONVERT(nvarchar(max), {literal})')}"

    def joined(self, texts: Sequence[str]) -> str:
        return " + ".join(texts)

    def chars(self, text: str) -> str:
        return f"CONVERT(nvarchar(20), {self.length(text)})"

    def length(self, text: str) -> str:
        return f"datalength({text})"

    def hash(self, text: str, seed: int) -> str:
        part = f"SUBSTRING(HASHBYTES('MD5', {text}), {1 + 7 * seed}, 7)"
        return f"CONVERT(decimal(38, 0), CONVERT(bigint, {part}))"

    def read_value(self, expression: str, column: TableColumn) -> str:
        """Text, as Arrow reads it: a seventh digit of seconds goes where it is 0."""
        if column.spark == "binary":
            return expression
        text = self.text(expression, column)
        if column.spark in ("timestamp", "timestamp_ntz"):
            return f"CASE WHEN {text} LIKE '%.______0' THEN LEFT({text}, 26) ELSE {text} END"
        return text

    # --- writing ----------------------------------------------------------------------------------

    def decimal(self, precision: int, scale: int) -> str:
        return f"decimal({precision},{scale})"  # as the server writes it

    def key_type(self, kind: str, columns: int) -> str:
        sizes = {"string": KEY_CHARACTERS // columns, "binary": 2 * KEY_CHARACTERS // columns}
        size = next((size for name, size in sizes.items() if kind == self.types[name]), None)
        return re.sub(r"\(max\)", f"({size})", kind) if size else kind

    @contextmanager
    def opening(self, session: DatabaseSession, name: str) -> Iterator[None]:
        lock, message = self.literal(lock_name(name)), self.literal(f"other writers lock {name}")
        with session.transaction():
            session.rows(
                f"DECLARE @lock int; EXEC @lock = sp_getapplock @Resource = {lock},"
                f" @LockMode = 'Exclusive', @LockTimeout = {LOCK_MS};"
                f" IF @lock < 0 THROW {LOCKED}, {message}, 1"
            )
            yield

    def sync_table(self, table: str) -> list[str]:
        return [
            f"IF OBJECT_ID({self.literal(table)}, 'U') IS NULL CREATE TABLE {table}"
            " (id char(64) PRIMARY KEY, target nvarchar(max) NOT NULL, part nvarchar(max) NOT NULL,"
            " owner nvarchar(max) NOT NULL, generation bigint NOT NULL, [rows] bigint,"
            " layout nvarchar(max), at datetime2(6) NOT NULL)"
        ]

    def unfit(self, schema: str, table: str) -> str:
        reason = "CONCAT('has the collation ', COLLATION_NAME, ' in a column: make it ', {})"
        collation = self.literal(EXACT.removeprefix("COLLATE "))
        return (
            f"SELECT {reason.format(collation)} FROM INFORMATION_SCHEMA.COLUMNS"
            f" WHERE TABLE_SCHEMA = {self.literal(schema)} AND TABLE_NAME = {self.literal(table)}"
            f" AND COLLATION_NAME <> {collation}"
        )

    def stage_name(self, schema: str) -> str:  # noqa: ARG002
        return self.name(f"#{STAGE}")

    def stage(self, name: str, columns: str) -> list[str]:
        return [f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})"]

    def delete(self, table: str, where: str) -> str:
        return f"DELETE t FROM {table} AS t WHERE {where}"

    def merge(self, table: str, rows: MergedRows) -> str:
        return f"{super().merge(table, rows)};"


SQLSERVER = SqlServer()


def _encryption(address: DatabaseAddress) -> str:
    """As the URL asks for, which encrypts by default. TaskFailure where it asks for a check of the
    certificate, which the client does not make."""
    if address.parameters.get("encrypt", "true").lower() == "false":
        return "off"
    if address.parameters.get("trustservercertificate", "false").lower() != "true":
        message = "the client of SQL Server does not check certificates"
        hint = "write trustServerCertificate=true, or encrypt=false"
        raise TaskFailure("bad-url", f"{message}: {hint}")
    return "require"
