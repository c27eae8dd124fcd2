"""Snowflake as a source, by its connector for Python. No server has run these statements yet:
tests compare their texts.

All connections read a table as of one time (`AT (TIMESTAMP => ...)`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from dataplane.connectors.jdbc.client_session import ClientSession, with_texts
from dataplane.connectors.jdbc.dialect import (
    CONNECT_S,
    REACHING,
    DatabaseAddress,
    DatabaseDialect,
    DatabaseSession,
    TableColumn,
    not_read,
)
from dataplane.task_failures import TaskFailure

_HOST = re.compile(r"[a-z0-9][a-z0-9_.-]*\.snowflakecomputing\.(?:com|cn)")
NANOSECONDS = "YYYY-MM-DD HH24:MI:SS.FF9"
_CLIENTS = "25"  # begins codes of errors that the client gives
# Parameters of a URL, and their names in the connector
_PARAMETERS = {"db": "database", "schema": "schema", "warehouse": "warehouse", "role": "role"}
# By the code of a type: its name, and what it is read as
_TYPES = {
    1: ("float", "double"),
    2: ("varchar", "string"),
    3: ("date", "date"),
    5: ("variant", "string"),
    6: ("timestamp_ltz", "timestamp"),
    7: ("timestamp_tz", "timestamp"),
    8: ("timestamp_ntz", "timestamp_ntz"),
    9: ("object", "string"),
    10: ("array", "string"),
    11: ("binary", "binary"),
    12: ("time", "string"),
    13: ("boolean", "boolean"),
}
_NUMBER = 0
_NESTED = ("variant", "object", "array")


class SnowflakeSession(ClientSession):
    """A connection of the connector. The rows of a slice come as texts and bytes."""

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        yield from with_texts(super().stream(query))

    def columns(self, query: str) -> list[TableColumn]:
        return [_column(field) for field in self.described(query)]

    def set_autocommit(self, *, on: bool) -> None:
        self.connection.autocommit(on)


def _column(field: Any) -> TableColumn:
    """A column by the description of a query."""
    if field.type_code == _NUMBER:
        digits = f"{field.precision},{field.scale}"
        return TableColumn(field.name, f"number({digits})", f"decimal({digits})")
    name, spark = _TYPES.get(field.type_code, (f"type {field.type_code}", ""))
    return TableColumn(field.name, name, spark)


class Snowflake(DatabaseDialect):
    scheme = "snowflake"
    title = "Snowflake"
    example = "jdbc:snowflake://account.snowflakecomputing.com/?db=database&warehouse=warehouse"
    extra = "snowflake"
    package = "snowflake.connector"
    port = 443
    escapes_backslashes = True
    states = {  # noqa: RUF012
        "credentials-refused": ("390100", "390101", "390144"),
        "database-missing": ("90105",),
        "table-missing": ("2003", "2043"),
        "column-missing": ("904",),
        "permission-denied": ("3001",),
    }
    passing = ("604", "625", "630", "390111", "390114")
    words = (
        ("[Ii]ncorrect username or password|[Tt]oken is invalid", "credentials-refused"),
        *REACHING,
    )

    # --- connections ------------------------------------------------------------------------------

    def plain_url(self, url: str) -> str:
        """TaskFailure for a host that is no account of Snowflake."""
        host = urlsplit(url.removeprefix("jdbc:")).hostname or ""
        if not _HOST.fullmatch(host):
            message = f"the URL names no account of Snowflake: write {self.example}"
            raise TaskFailure("bad-url", message)
        return url

    def connect(self, address: DatabaseAddress) -> DatabaseSession:
        from snowflake import connector

        connection = connector.connect(
            account=address.host.rpartition(".snowflakecomputing.")[0],
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            login_timeout=CONNECT_S,
            autocommit=True,
            session_parameters={"TIMEZONE": "UTC", "ROWS_PER_RESULTSET": 0},
            enable_server_session_keep_alive_auto_detection=False,
            **_place(address.parameters),
        )
        return SnowflakeSession(connection, self)

    def failure_of(self, error: BaseException) -> tuple[str, str] | None:
        from snowflake.connector import errors

        if not isinstance(error, errors.Error):
            return None
        code = str(error.errno or "")
        is_clients = len(code) == 6 and code.startswith(_CLIENTS)
        return "" if is_clients else code, str(error)

    # --- values -----------------------------------------------------------------------------------

    def folded(self, name: str) -> str:
        return name.upper()

    def text(self, expression: str, column: TableColumn) -> str:
        match column.spark:
            case "":
                raise not_read(column)
            case "binary":
                return f"HEX_ENCODE({expression})"
            case "timestamp":
                return _point_in_time(f"CONVERT_TIMEZONE('UTC', {expression})")
            case "timestamp_ntz":
                return _point_in_time(expression)
            case "date":
                return f"TO_VARCHAR({expression}, 'YYYY-MM-DD')"
            case "string" if column.kind in _NESTED:
                return f"TO_JSON({expression})"
            case "string" if column.kind == "time":
                return f"TO_VARCHAR({expression}, 'HH24:MI:SS.FF9')"
            case "string":  # of the same characters alone, for each collation of a column
                return f"COLLATE({expression}, 'utf8')"
            case _:
                return f"TO_VARCHAR({expression})"

    def hashed_text(self, expression: str, column: TableColumn) -> str:
        """Texts of floating-point numbers may lack digits."""
        text = f"HASH({expression})" if column.spark == "double" else None
        return f"TO_VARCHAR({text})" if text else self.text(expression, column)

    def read_value(self, expression: str, column: TableColumn) -> str:
        is_exact = column.spark in ("double", "binary")
        return expression if is_exact else self.text(expression, column)

    def hash(self, text: str, seed: int) -> str:
        return f"MD5_NUMBER_{('UPPER', 'LOWER')[seed]}64({text})"

    def snapshot(self, session: DatabaseSession) -> str:
        now = f"TO_VARCHAR(CONVERT_TIMEZONE('UTC', CURRENT_TIMESTAMP()), '{NANOSECONDS}')"
        [(time,)] = session.rows(f"SELECT {now}")
        return f" AT (TIMESTAMP => {self.literal(time)}::timestamp_ntz)"


SNOWFLAKE = Snowflake()


def _place(parameters: Mapping[str, str]) -> dict[str, str]:
    """Arguments of the connector. TaskFailure for a parameter that is not known here."""
    unknown = sorted(parameters.keys() - _PARAMETERS)
    if unknown:
        message = f"only these parameters are supported: {', '.join(_PARAMETERS)}"
        raise TaskFailure("bad-url", f"{message}; {unknown[0]} is not")
    return {_PARAMETERS[name]: text for name, text in parameters.items()}


def _point_in_time(expression: str) -> str:
    """Nine digits of a second, or six where the others are 0."""
    return f"REGEXP_REPLACE(TO_VARCHAR({expression}, '{NANOSECONDS}'), '000$', '')"
