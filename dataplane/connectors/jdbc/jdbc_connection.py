"""Connections to the database behind a JDBC URL, without a JVM; and what its errors mean in
words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg
from psycopg import sql

from dataplane.contract.jdbc_options import refused_parameters
from dataplane.contract.jobs import ConnectorJob
from dataplane.secrets import resolved
from dataplane.task_failures import TaskFailure

CONNECT_S = 10
# Texts of values are what versions are made of: they must not depend on the server's or the user's
# own settings.
SESSION = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
# Parameters that libpq has by the same name
_SAME = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword")
_PASSING_STATES = ("08", "53", "57", "40", "55P03")
_WORDS: tuple[tuple[str, str], ...] = (
    (
        r"could not translate host name|[Nn]ame or service not known|failed to resolve host|getaddrinfo",
        "host-unknown",
    ),
    (
        r"password authentication failed|no password supplied|authentication failed|role .* does not exist|pg_hba",
        "credentials-refused",
    ),
    (r"database .* does not exist", "database-missing"),
    (r"SSL|certificate|TLS", "tls-failed"),
    (r"[Cc]onnection refused", "connection-refused"),
    (r"timeout expired|timed out|No route to host|[Nn]etwork is unreachable", "host-unreachable"),
)
_STATES = {
    "28P01": "credentials-refused",
    "28000": "credentials-refused",
    "3D000": "database-missing",
    "42P01": "table-missing",
    "3F000": "table-missing",
    "42703": "column-missing",
    "42501": "permission-denied",
    "23505": "key-not-unique",
    "21000": "key-not-unique",
}
NO_ROWS = sql.SQL("SELECT * FROM {} LIMIT 0")  # for the columns of a table or query
PASSING = ("host-unknown", "connection-refused", "host-unreachable")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The place and the login of a database. Secrets are resolved: it must not be logged or
    stored."""

    url: str  # without user and password
    user: str
    password: str
    parameters: Mapping[str, str]

    @property
    def of_jdbc(self) -> dict[str, str]:
        """Options of Spark's JDBC source."""
        login = {"user": self.user, "password": self.password}
        return {"url": self.url, "driver": "org.postgresql.Driver"} | {
            k: v for k, v in login.items() if v
        }

    @property
    def of_libpq(self) -> dict[str, Any]:
        parts = urlsplit(self.url.removeprefix("jdbc:"))
        host, port = parts.hostname or "localhost", parts.port or 5432
        place = {
            "host": host,
            "port": port,
            "dbname": unquote(parts.path.lstrip("/")) or self.user or "postgres",
        }
        same = {k: v for k, v in self.parameters.items() if k in _SAME}
        if self.parameters.get("ssl", "").lower() == "true":
            same.setdefault("sslmode", "verify-full")
        search = self.parameters.get("currentSchema")
        options = f"{SESSION} -c search_path={search}" if search else SESSION
        who = {"user": self.user, "password": self.password}
        return (
            place
            | {k: v for k, v in who.items() if v}
            | same
            | {"options": options, "connect_timeout": CONNECT_S}
        )


def address(job: ConnectorJob) -> DatabaseAddress:
    """The address of a job's database. TaskFailure for a URL that is not JDBC, or not of a
    supported database; the message does not contain its value, which may be a secret."""
    url = resolved(job["settings"]["url"])
    if not url.startswith("jdbc:postgresql:"):
        raise TaskFailure(
            "bad-url",
            f"{job['settings']['url']} is no URL of the form jdbc:postgresql://host:5432/database",
        )
    # Of a URL that is a secret: blueprints are checked before
    if refused := next(refused_parameters(url), None):
        message = f"{job['settings']['url']} sets {refused}, which names a class or a file of this machine"
        raise TaskFailure("bad-url", message)
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        _ = parts.port
    except ValueError:
        raise TaskFailure(
            "bad-url", f"{job['settings']['url']} is no URL: its host or port cannot be read"
        ) from None
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    options = {k.lower(): v for k, v in job["options"].items()}
    user = resolved(options.get("user", parameters.pop("user", unquote(parts.username or ""))))
    password = resolved(
        options.get("password", parameters.pop("password", unquote(parts.password or "")))
    )
    query = "&".join(
        p for p in parts.query.split("&") if p and not re.match(r"(user|password)=", p)
    )
    place = parts.netloc.rpartition("@")[2]
    plain = f"jdbc:postgresql://{place}{parts.path}" + (f"?{query}" if query else "")
    return DatabaseAddress(plain, user, password, parameters)


@contextmanager
def connected(job: ConnectorJob) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit; the server's errors become TaskFailures."""
    with in_words():
        connection = psycopg.connect(**address(job).of_libpq, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def in_words() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as e:
        raise task_failure(e) from None


def task_failure(error: psycopg.Error) -> TaskFailure:
    """The failure for an error of the server, or of the connection. One that may pass by itself is
    tried again."""
    state, message = error.sqlstate or "", " ".join(str(error).split())
    condition = _STATES.get(state) or (None if state else _condition(message)) or "database-error"
    passing = (
        condition in PASSING
        or state.startswith(_PASSING_STATES)
        or (not state and condition == "database-error")
    )
    kind: Literal["user", "infrastructure"] = "infrastructure" if passing else "user"
    return TaskFailure(condition, message, kind)


def _condition(message: str) -> str | None:
    return next((condition for words, condition in _WORDS if re.search(words, message)), None)


# --- names --------------------------------------------------------------------------------------

_NAME = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')


def names_of(table: str) -> tuple[str, ...]:
    """The parts of a table's name: `public.orders`, `"My Orders"`. Without quotes, case means
    nothing to the server."""
    names = [
        quoted.replace('""', '"') if quoted else plain.strip().lower()
        for quoted, plain in _NAME.findall(table)
    ]
    if not 1 <= len(names) <= 2 or not all(names):
        raise TaskFailure(
            "bad-table", f"{table} is no name of a table: write table or schema.table"
        )
    return tuple(names)


def identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*names_of(table))
