"""Oracle, by python-oracledb. No server has run these statements yet: tests compare their texts.

All connections read a table in one snapshot (`AS OF SCN`). An empty text is NULL in Oracle.
Changes of tables commit by themselves: `TargetTable` notes them before.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from dataplane.connectors.jdbc.client_session import ClientSession
from dataplane.connectors.jdbc.dialect import (
    CONNECT_S,
    OURS,
    REACHING,
    DatabaseAddress,
    DatabaseSession,
    DigestDialect,
    TableColumn,
    not_read,
)
from dataplane.connectors.jdbc.writable_dialect import WritableDialect
from dataplane.contract.schemas import Schema
from dataplane.task_failures import TaskFailure

LITERAL_CHARACTERS = 1000
SINGLE_PARTITION = "/"  # in place of the empty key
STAGE_NAME = "ORA$PTT_HEADGATE"  # names of private temporary tables begin so
_URL = re.compile(r"jdbc:oracle:thin:@(?:(?P<tls>tcps):)?(?://)?(?P<place>[^/@?]+/[^/@?:]+)")
_UNSCALED = -127  # the scale of a FLOAT, and of a NUMBER without digits
_KINDS = {
    "DB_TYPE_VARCHAR": ("VARCHAR2", "string"),
    "DB_TYPE_NVARCHAR": ("NVARCHAR2", "string"),
    "DB_TYPE_CHAR": ("CHAR", "string"),
    "DB_TYPE_NCHAR": ("NCHAR", "string"),
    "DB_TYPE_RAW": ("RAW", "binary"),
    "DB_TYPE_BINARY_FLOAT": ("BINARY_FLOAT", "float"),
    "DB_TYPE_BINARY_DOUBLE": ("BINARY_DOUBLE", "double"),
    "DB_TYPE_DATE": ("DATE", "timestamp_ntz"),
    "DB_TYPE_TIMESTAMP": ("TIMESTAMP", "timestamp_ntz"),
    "DB_TYPE_TIMESTAMP_TZ": ("TIMESTAMP WITH TIME ZONE", "timestamp"),
    "DB_TYPE_TIMESTAMP_LTZ": ("TIMESTAMP WITH LOCAL TIME ZONE", "timestamp"),
    "DB_TYPE_ROWID": ("ROWID", "string"),
}
_BINDS = {
    "float": "DB_TYPE_BINARY_FLOAT",
    "double": "DB_TYPE_BINARY_DOUBLE",
    "date": "DB_TYPE_DATE",
    "timestamp": "DB_TYPE_TIMESTAMP",
    "timestamp_ntz": "DB_TYPE_TIMESTAMP",
    "binary": "DB_TYPE_RAW",
    "string": "DB_TYPE_VARCHAR",
}


class OracleSession(ClientSession):
    """A connection of python-oracledb. The rows of a slice come as texts and bytes."""

    def columns(self, query: str) -> list[TableColumn]:
        return [_column(field) for field in self.described(query)]

    def insert(self, into: str, schema: Schema, values: Sequence[tuple[Any, ...]]) -> None:
        import oracledb

        kinds = [f["type"] if isinstance(f["type"], str) else "string" for f in schema["fields"]]
        places = ", ".join(f":{at}" for at in range(1, len(kinds) + 1))
        with self.connection.cursor() as cursor:
            # Else a FLOAT is sent as a NUMBER, which ends at 1e126
            cursor.setinputsizes(
                *(getattr(oracledb, _BINDS.get(kind, "DB_TYPE_NUMBER")) for kind in kinds)
            )
            rows = [[int(v) if isinstance(v, bool) else v for v in row] for row in values]
            cursor.executemany(f"{into} VALUES ({places})", rows)

    def set_autocommit(self, *, on: bool) -> None:
        self.connection.autocommit = on


def _column(field: Any) -> TableColumn:
    """A column by the description of a query."""
    code = field.type_code.name
    if code == "DB_TYPE_NUMBER":
        return _number(field)
    name, spark = _KINDS.get(code, (code.removeprefix("DB_TYPE_"), ""))
    if code in ("DB_TYPE_VARCHAR", "DB_TYPE_RAW"):
        name = f"{name}({field.internal_size})"
    if code.startswith("DB_TYPE_TIMESTAMP"):
        name = name.replace("TIMESTAMP", f"TIMESTAMP({field.scale})")
    return TableColumn(field.name, name, spark)


def _number(field: Any) -> TableColumn:
    """A NUMBER without digits is read as Spark's own JDBC source does."""
    if field.scale == _UNSCALED:
        is_float = bool(field.precision)
        return TableColumn(
            field.name,
            f"FLOAT({field.precision})" if is_float else "NUMBER",
            "double" if is_float else "decimal(38,10)",
        )
    # Digits may all lie behind the point or before it, as in a NUMBER(3,5) or a NUMBER(5,-2)
    digits = max(field.precision, field.scale) - min(field.scale, 0)
    spark = f"decimal({min(digits, 38)},{max(field.scale, 0)})"
    return TableColumn(field.name, f"NUMBER({field.precision},{field.scale})", spark)


class Oracle(DigestDialect, WritableDialect):
    scheme = "oracle"
    title = "Oracle"
    example = "jdbc:oracle:thin:@//host:1521/service"
    extra = "oracle"
    package = "oracledb"
    port = 1521
    is_described_as_declared = True
    has_keys_in_stage = False
    joined_digests = 100  # a text has at most 4,000 bytes
    states = {  # noqa: RUF012
        "credentials-refused": ("01017", "28000"),
        "database-missing": ("12514",),
        "table-missing": ("00942", "01918"),
        "column-missing": ("00904",),
        "permission-denied": ("01031", "01045", "01950", "41900"),
        "key-not-unique": ("00001", "30926"),
        "row-too-large": ("01489",),
    }
    passing = (
        *("00018", "00020", "00054", "00060", "00955", "01033", "01034", "01089", "01466", "01555"),
        *("03113", "03114", "03135", "08177", "12541", "25408"),
    )
    words = ((r"ORA-12514|ORA-12505|is not registered", "database-missing"), *REACHING)
    types = {  # noqa: RUF012
        "string": "VARCHAR2(4000)",
        "binary": "RAW(2000)",
        "boolean": "NUMBER(1,0)",
        "byte": "NUMBER(3,0)",
        "short": "NUMBER(5,0)",
        "integer": "NUMBER(10,0)",
        "long": "NUMBER(19,0)",
        "float": "BINARY_FLOAT",
        "double": "BINARY_DOUBLE",
        "date": "DATE",
        "timestamp": "TIMESTAMP(6)",
        "timestamp_ntz": "TIMESTAMP(6)",
    }
    nested = "VARCHAR2(4000)"
    key_text = "VARCHAR2(4000)"
    current_schema = "SELECT sys_context('userenv', 'current_schema') FROM dual"
    read_isolation = ("SET TRANSACTION READ ONLY",)

    # --- connections ------------------------------------------------------------------------------

    def plain_url(self, url: str) -> str:
        """TaskFailure for an address by SID, by TNS name, or with a login in it."""
        match = _URL.fullmatch(url)
        if match is None:
            raise TaskFailure("bad-url", f"the URL names no service: write {self.example}")
        tls = "?protocol=tcps" if match["tls"] else ""
        return f"jdbc:oracle://{quote(match['place'], safe='/:[].')}{tls}"

    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        import oracledb

        oracledb.defaults.fetch_lobs = False  # layouts are texts
        connection = oracledb.connect(
            user=address.user,
            password=address.password,
            host=address.host,
            port=address.port,
            service_name=address.database,
            protocol=address.parameters.get("protocol", "tcp"),
            tcp_connect_timeout=CONNECT_S,
        )
        session = OracleSession(connection, self)
        session.set_autocommit(on=True)
        for setting in ("NLS_COMP", "NLS_SORT"):  # texts are equal by their bytes alone
            session.rows(f"ALTER SESSION SET {setting} = BINARY")
        return session

    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        import oracledb

        if isinstance(error, socket.gaierror):  # the client hands it on
            return "", str(error)
        if not isinstance(error, oracledb.Error):
            return None
        code = getattr(error.args[0], "full_code", "") or ""
        return code.removeprefix("ORA-") if code.startswith("ORA-") else "", str(error)

    # --- values -----------------------------------------------------------------------------------

    def folded(self, name: str) -> str:
        return name.upper()

    def name(self, *parts: str) -> str:
        """TaskFailure for a name that no quotes can hold: Oracle reads `"a""b"` as two names."""
        if wrong := next((part for part in parts if '"' in part or "\0" in part), None):
            message = f"Oracle takes no name with a quotation mark or NUL: {wrong!r}"
            raise TaskFailure("not-supported", message)
        return super().name(*parts)

    def long_literal(self, text: str) -> str:
        """A CLOB: a literal has at most 4,000 bytes."""
        starts = range(0, len(text), LITERAL_CHARACTERS)
        parts = [text[start : start + LITERAL_CHARACTERS] for start in starts] or [""]
        return " || ".join(f"TO_CLOB({self.literal(part)})" for part in parts)

    def partition_text(self, partition: str) -> str:
        return partition or SINGLE_PARTITION

    def partition_of(self, text: str) -> str:
        return "" if text == SINGLE_PARTITION else text

    def rows_of(self, source: str) -> str:
        return f"{source} {self.name(OURS)}"

    def text(self, expression: str, column: TableColumn) -> str:
        match column.spark:
            case "":
                raise not_read(column)
            case "binary":
                return f"RAWTOHEX({expression})"
            case "timestamp":
                return _point_in_time(f"SYS_EXTRACT_UTC({expression})")
            case "timestamp_ntz" if column.kind == "DATE":
                return f"TRIM(TO_CHAR({expression}, 'SYYYY-MM-DD HH24:MI:SS'))"
            case "timestamp_ntz":
                return _point_in_time(expression)
            case "string" if column.kind == "ROWID":
                return f"ROWIDTOCHAR({expression})"
            case "string":
                return expression
            case "float" | "double" if column.kind.startswith("BINARY"):
                return f"TO_CHAR({expression})"
            case _:
                return f"TO_CHAR({expression}, 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,''')"

    def md5(self, text: str) -> str:
        return f"RAWTOHEX(STANDARD_HASH({text}, 'MD5'))"

    def length(self, text: str) -> str:
        return f"lengthb({text})"

    def hash(self, text: str, seed: int) -> str:
        part = f"SUBSTR({self.md5(text)}, {1 + 15 * seed}, 15)"
        return f"TO_NUMBER({part}, '{'X' * 15}')"

    def read_value(self, expression: str, column: TableColumn) -> str:
        return expression if column.spark == "binary" else self.text(expression, column)

    def snapshot(self, session: DatabaseSession) -> str:
        [(scn,)] = session.rows("SELECT dbms_flashback.get_system_change_number FROM dual")
        return f" AS OF SCN {int(scn)}"

    def no_table(self) -> str:
        return " FROM dual"

    # --- writing ----------------------------------------------------------------------------------

    def decimal(self, precision: int, scale: int) -> str:
        return f"NUMBER({precision},{scale})"

    def sync_table(self, table: str) -> list[str]:
        create = (
            f'CREATE TABLE {table} ("id" CHAR(64) PRIMARY KEY, "target" VARCHAR2(4000) NOT NULL,'
            ' "part" VARCHAR2(4000), owner VARCHAR2(4000) NOT NULL, generation NUMBER(19,0) NOT'
            ' NULL, "rows" NUMBER(19,0), layout CLOB, at TIMESTAMP(6) NOT NULL)'
        )
        return [_unless(955, create)]  # the name is used

    def exists(self, schema: str, table: str) -> str:
        where = f"owner = {self.literal(schema)} AND table_name = {self.literal(table)}"
        return f"SELECT 1 FROM all_tables WHERE {where}"

    def stage_name(self, schema: str) -> str:  # noqa: ARG002
        return STAGE_NAME

    def stage(self, name: str, columns: str) -> list[str]:
        return [
            _unless(942, f"DROP TABLE {name}"),
            f"CREATE PRIVATE TEMPORARY TABLE {name} ({columns}) ON COMMIT PRESERVE DEFINITION",
        ]

    def index(self, table: str, columns: Sequence[tuple[str, str]]) -> list[str]:
        """Names of indexes are those of the schema."""
        index = self.name(f"_headgate_{sha256(table.encode()).hexdigest()[:16]}")
        return [f"CREATE INDEX {index} ON {table} ({self.named(name for name, _ in columns)})"]

    def delete(self, table: str, where: str) -> str:
        return f"DELETE FROM {table} t WHERE {where}"

    def may_create(self, schema: str | None) -> str:
        name = self.literal(schema) if schema else "sys_context('userenv', 'current_schema')"
        return f"SELECT {name}, (SELECT max(1) FROM all_users WHERE username = {name}) FROM dual"


ORACLE = Oracle()


def _point_in_time(expression: str) -> str:
    """Nine digits of a second, or six where the others are 0."""
    text = f"TRIM(TO_CHAR({expression}, 'SYYYY-MM-DD HH24:MI:SS.FF9'))"
    return f"REGEXP_REPLACE({text}, '000$', '')"


def _unless(code: int, statement: str) -> str:
    """The statement, in which this error counts as done."""
    quoted = statement.replace("'", "''")
    return (
        f"BEGIN EXECUTE IMMEDIATE '{quoted}';"
        f" EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -{code} THEN RAISE; END IF; END;"
    )
