"""MySQL and MariaDB, by PyMySQL.

Values come as the texts of the server's protocol, and become values of the dataset where they are
read (`client_reader`). Changes of tables commit by themselves: `TargetTable` notes them before.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from dataplane.connectors.jdbc.client_session import ClientSession
from dataplane.connectors.jdbc.dialect import (
    CONNECT_S,
    DatabaseAddress,
    DatabaseSession,
    TableColumn,
    not_read,
)
from dataplane.connectors.jdbc.writable_dialect import MergedRows, WritableDialect, lock_name
from dataplane.task_failures import TaskFailure

LOCK_S = 60
# The server's default, whatever its own is: texts of values and what is refused depend on it
SQL_MODE = "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
SESSION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET time_zone = '+00:00'"
KEY_BYTES = 3072  # of an index of InnoDB
INDEXED = 191  # characters of `_partition`
MOST_DIGITS = 38
_UNSIGNED, _ENUM, _SET = 32, 256, 2048  # flags of a column
_BINARY = 63  # the character set of bytes
_CLIENTS = range(2000, 3000)  # codes of errors that the client gives
_TEXTS = {15: "varchar", 253: "varchar", 254: "char", 247: "enum", 248: "set", 249: "tinyblob",
          250: "mediumblob", 251: "longblob", 252: "blob"}  # fmt: skip
# By the code of a type: its name, what it is read as, and what it is read as unsigned
_TYPES = {
    1: ("tinyint", "byte", "short"),
    2: ("smallint", "short", "integer"),
    9: ("mediumint", "integer", "integer"),
    3: ("int", "integer", "long"),
    8: ("bigint", "long", "decimal(20,0)"),
    4: ("float", "float", "float"),
    5: ("double", "double", "double"),
    13: ("year", "short", "short"),
    10: ("date", "date", "date"),
    14: ("date", "date", "date"),
    11: ("time", "string", "string"),
    12: ("datetime", "timestamp_ntz", "timestamp_ntz"),
    7: ("timestamp", "timestamp", "timestamp"),
    16: ("bit", "binary", "binary"),
    245: ("json", "string", "string"),
}
_DECIMALS = (0, 246)
_VERIFY = {
    "trust": (False, False),
    "required": (False, False),
    "verify-ca": (True, False),
    "verify_ca": (True, False),
    "verify-full": (True, True),
    "verify_identity": (True, True),
}
_PARAMETERS = ("sslMode", "serverSslCert")


class MysqlSession(ClientSession):
    """A connection of PyMySQL, whose values are texts, bytes and None."""

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        from pymysql.cursors import SSCursor

        cursor = self.connection.cursor(SSCursor)
        cursor.execute(query)
        try:
            for row in cursor:  # noqa: UP028  # `yield from` closes the cursor, which fetches all
                yield row
        except GeneratorExit:
            self.close()
            cursor._result.unbuffered_active = False
            raise
        cursor.close()

    def columns(self, query: str) -> list[TableColumn]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return [_column(field) for field in cursor._result.fields]

    def set_autocommit(self, *, on: bool) -> None:
        if not on:
            self.connection.begin()


def _column(field: Any) -> TableColumn:
    """A column by the description that comes with rows."""
    is_unsigned = bool(field.flags & _UNSIGNED)
    sizes = f"({field.length},{field.scale})"
    if field.type_code in _DECIMALS:
        digits = field.length - (field.scale > 0) - (not is_unsigned)
        spark = f"decimal({min(digits, MOST_DIGITS)},{min(field.scale, MOST_DIGITS)})"
        return TableColumn(field.name, f"decimal{sizes}", spark)
    if field.type_code in _TEXTS:
        kind = "enum" if field.flags & _ENUM else "set" if field.flags & _SET else ""
        kind = kind or _TEXTS[field.type_code]
        is_binary = field.charsetnr == _BINARY
        marked = f"{kind}{sizes}{' binary' if is_binary else ''}"
        return TableColumn(field.name, marked, "binary" if is_binary else "string")
    if field.type_code not in _TYPES:
        return TableColumn(field.name, f"type {field.type_code}")
    name, signed, unsigned = _TYPES[field.type_code]
    marked = f"{name}{sizes}{' unsigned' if is_unsigned else ''}"
    return TableColumn(field.name, marked, unsigned if is_unsigned else signed)


class Mysql(WritableDialect):
    scheme = "mysql"
    title = "MySQL"
    example = "jdbc:mysql://host:3306/database"
    extra = "mysql"
    package = "pymysql"
    port = 3306
    quotes = ("`", "`")
    escapes_backslashes = True
    # No two texts are equal to it but those of the same characters
    collation: ClassVar[str] = "utf8mb4_0900_bin"
    states = {  # noqa: RUF012
        "credentials-refused": ("1045", "1698"),
        "database-missing": ("1049",),
        "table-missing": ("1146", "1046"),
        "column-missing": ("1054",),
        "permission-denied": ("1044", "1142", "1143", "1227"),
        "key-not-unique": ("1062",),
    }
    passing = (
        *("1037", "1040", "1053", "1079", "1152", "1158", "1159", "1160", "1161", "1203", "1205"),
        *("1213", "1226", "1290", "1317", "1836", "1927", "1969", "3024"),
    )
    types = {  # noqa: RUF012
        "string": "longtext",
        "binary": "longblob",
        "boolean": "boolean",
        "byte": "tinyint",
        "short": "smallint",
        "integer": "int",
        "long": "bigint",
        "float": "float",
        "double": "double",
        "date": "date",
        "timestamp": "datetime(6)",
        "timestamp_ntz": "datetime(6)",
    }
    nested = "longtext"
    key_text = "longtext"
    current_schema = "SELECT database()"
    # The isolation of a transaction is said before it begins
    read_isolation = (
        "ROLLBACK",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    )

    # --- connections ------------------------------------------------------------------------------

    def plain_url(self, url: str) -> str:
        """TaskFailure for a form of the drivers that names several servers or none, such as
        `jdbc:mariadb:replication:`: the server would be this machine."""
        if not urlsplit(url.removeprefix("jdbc:")).hostname:
            raise TaskFailure("bad-url", f"the URL names no host: write {self.example}")
        return url

    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        import pymysql
        from pymysql.converters import encoders

        connection = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user or None,
            password=address.password,
            database=address.database or None,
            charset="utf8mb4",
            sql_mode=SQL_MODE,
            conv=encoders,  # and no decoders
            connect_timeout=CONNECT_S,
            autocommit=True,
            **_tls(address),
        )
        session = MysqlSession(connection, self)
        for statement in SESSION:
            session.rows(statement)
        return session

    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        import pymysql

        if not isinstance(error, pymysql.MySQLError):
            return None
        code, *message = error.args or (0,)
        text = " ".join(map(str, message)) or str(code)
        if isinstance(error, pymysql.OperationalError | pymysql.InterfaceError):
            is_servers = isinstance(code, int) and code > 0 and code not in _CLIENTS
            return str(code) if is_servers else "", text
        return str(code) if isinstance(code, int) else "value", text

    # --- values -----------------------------------------------------------------------------------

    def folded(self, name: str) -> str:
        return name

    def is_exact(self, column: TableColumn) -> bool:
        return column.is_number or column.spark in ("date", "timestamp", "timestamp_ntz")

    def text(self, expression: str, column: TableColumn) -> str:
        match column.spark:
            case "":
                raise not_read(column)
            case "binary":
                return f"HEX({expression})"
            case "float" | "double":
                return f"CAST({expression} * 1e0 AS CHAR)"
            case _:
                return f"CONVERT({expression} USING utf8mb4)"

    def label(self, expression: str, column: TableColumn) -> str:
        return f"CAST({self.text(expression, column)} AS BINARY)"

    def equals(self, expression: str, text: str, column: TableColumn) -> str:
        exactly = f"{self.label(expression, column)} = CAST({self.literal(text)} AS BINARY)"
        if column.spark != "string" or column.kind.startswith(("time(", "json(")):
            return exactly  # a text is no value of these
        return f"{expression} = {self.literal(text)} AND {exactly}"  # perhaps through an index

    def joined(self, texts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(texts)})"

    def chars(self, text: str) -> str:
        return f"CHAR_LENGTH({text})"

    def length(self, text: str) -> str:
        return f"LENGTH({text})"

    def hash(self, text: str, seed: int) -> str:
        return f"CAST(CONV(SUBSTRING(MD5({text}), {1 + 15 * seed}, 15), 16, 10) AS UNSIGNED)"

    def read_value(self, expression: str, column: TableColumn) -> str:
        """All digits of a FLOAT, of which the server else gives six."""
        return f"{expression} * 1e0" if column.spark in ("float", "double") else expression

    def no_table(self) -> str:
        return " FROM DUAL"

    # --- writing ----------------------------------------------------------------------------------

    def key_type(self, kind: str, columns: int) -> str:
        sizes = {
            "longtext": f"varchar({KEY_BYTES // 4 // columns})",
            "longblob": f"varbinary({KEY_BYTES // columns})",
        }
        return sizes.get(kind, kind)

    @contextmanager
    def opening(self, session: DatabaseSession, name: str) -> Iterator[None]:
        lock = self.literal(lock_name(name))
        [(is_held,)] = session.rows(f"SELECT GET_LOCK({lock}, {LOCK_S})")
        if is_held != "1":
            message = f"other writers keep the lock of {name} for {LOCK_S} s"
            raise TaskFailure("database-error", message, "infrastructure")
        with session.transaction():
            yield
        session.rows(f"SELECT RELEASE_LOCK({lock})")  # else it ends with the connection

    @property
    def _storage(self) -> str:
        return f"ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {self.collation}"

    def sync_table(self, table: str) -> list[str]:
        return [
            f"CREATE TABLE IF NOT EXISTS {table} (id char(64) PRIMARY KEY,"
            " target longtext NOT NULL, part longtext NOT NULL, owner longtext NOT NULL,"
            " generation bigint NOT NULL, `rows` bigint, layout longtext,"
            f" at datetime(6) NOT NULL) {self._storage}"
        ]

    def unfit(self, schema: str, table: str) -> str:
        where = f"table_schema = {self.literal(schema)} AND table_name = {self.literal(table)}"
        engine = "CONCAT('has the engine ', engine, ', which has no transactions: make it InnoDB')"
        collation = "CONCAT('has the collation ', collation_name, ' in a column: make it ', {})"
        return (
            f"SELECT {engine} FROM information_schema.tables WHERE {where} AND engine <> 'InnoDB'"
            f" UNION ALL SELECT {collation.format(self.literal(self.collation))}"
            f" FROM information_schema.columns WHERE {where}"
            f" AND collation_name <> '{self.collation}'"
        )

    def stage(self, name: str, columns: str) -> list[str]:
        return [
            f"DROP TEMPORARY TABLE IF EXISTS {name}",
            f"CREATE TEMPORARY TABLE {name} ({columns}) {self._storage}",
        ]

    def table(self, name: str, columns: str) -> str:
        return f"{super().table(name, columns)} {self._storage}"

    def index(self, table: str, columns: Sequence[tuple[str, str]]) -> list[str]:
        names = ", ".join(f"{self.name(name)}({INDEXED})" for name, _ in columns)
        return [f"CREATE INDEX _headgate_rows ON {table} ({names})"]

    def delete(self, table: str, where: str) -> str:
        return f"DELETE t FROM {table} AS t WHERE {where}"

    def merge(self, table: str, rows: MergedRows) -> str:
        new = self.assigned(rows, "VALUES({})")
        return f"{self.insert(table, rows.names, rows.select)} ON DUPLICATE KEY UPDATE {new}"


class Mariadb(Mysql):
    scheme = "mariadb"
    title = "MariaDB"
    example = "jdbc:mariadb://host:3306/database"
    collation = "utf8mb4_nopad_bin"


MYSQL, MARIADB = Mysql(), Mariadb()


def _tls(address: DatabaseAddress) -> dict[str, Any]:
    """The encryption that the URL asks for; without `sslMode`, as the server offers it. TaskFailure
    for a parameter that is not known here: a connection must not be less safe than its URL says."""
    for name in address.parameters:
        if name not in _PARAMETERS:
            accepted = " and ".join(_PARAMETERS)
            raise TaskFailure("bad-url", f"the parameter {name} is not supported: {accepted} are")
    mode = address.parameters.get("sslMode", "").lower()
    if mode in ("", "disable", "disabled"):
        return {"ssl_disabled": True} if mode else {}
    if mode not in _VERIFY:
        raise TaskFailure("bad-url", f"sslMode is one of disable, {', '.join(_VERIFY)}")
    verifies, names_host = _VERIFY[mode]
    file = address.parameters.get("serverSslCert") or None
    try:
        context = ssl.create_default_context(cafile=file)
    except OSError as e:  # also of what is no certificate
        raise TaskFailure(
            "tls-failed", f"serverSslCert names {file}, which cannot be read: {e}"
        ) from e
    context.check_hostname = names_host
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    return {"ssl": context}
