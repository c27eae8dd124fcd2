"""Connections to the database behind a JDBC URL, without a JVM; and what its errors mean in
words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, unquote, urlsplit

from dataplane.connectors.jdbc.dialect import (
    DatabaseAddress,
    DatabaseDialect,
    DatabaseSession,
    Kind,
)
from dataplane.connectors.jdbc.dialects import DIALECTS
from dataplane.contract.jdbc_options import refused_parameters
from dataplane.contract.jobs import ConnectorJob
from dataplane.secrets import resolved
from dataplane.task_failures import TaskFailure

PASSING = ("host-unknown", "connection-refused", "host-unreachable")


def address(job: ConnectorJob) -> DatabaseAddress:
    """The address of a job's database. TaskFailure for a URL that is not JDBC, or not of a
    supported database; the message does not contain its value, which may be a secret."""
    written_url = job["settings"]["url"]
    url = resolved(written_url)
    dialect = DIALECTS.get(url.removeprefix("jdbc:").partition(":")[0])
    if dialect is None or not url.startswith("jdbc:"):
        examples = ", ".join(sorted({d.example for d in DIALECTS.values()}))
        raise TaskFailure("bad-url", f"{written_url} is no URL of one of these forms: {examples}")
    # Of a URL that is a secret: blueprints are checked before
    if refused := next(refused_parameters(url), None):
        message = f"{written_url} sets {refused}, which names a class or a file of this machine"
        raise TaskFailure("bad-url", message)
    try:
        parts = urlsplit(dialect.plain_url(url).removeprefix("jdbc:"))
        _ = parts.port
    except ValueError:
        raise TaskFailure(
            "bad-url", f"{written_url} is no URL: its host or port cannot be read"
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
    plain = f"jdbc:{parts.scheme}://{place}{parts.path}" + (f"?{query}" if query else "")
    return DatabaseAddress(dialect, plain, user, password, parameters)


@contextmanager
def connected(place: DatabaseAddress) -> Iterator[DatabaseSession]:
    """A connection in autocommit; the server's errors become TaskFailures."""
    with in_words(place.dialect):
        try:
            session = place.dialect.connect(place)
        except ModuleNotFoundError as e:
            raise _missing(place.dialect, e) from e
        try:
            yield session
        finally:
            session.close()


def _missing(dialect: DatabaseDialect, error: ModuleNotFoundError) -> TaskFailure:
    requirement = f"'headgate[{dialect.extra}]'" if dialect.extra else f"'{dialect.package}'"
    message = f"{dialect.title} needs the package {error.name}: pip install {requirement}"
    return TaskFailure("missing-package", message, "infrastructure")


@contextmanager
def in_words(dialect: DatabaseDialect) -> Iterator[None]:
    """Errors of the client and of the server as TaskFailures."""
    try:
        yield
    except TaskFailure:
        raise
    except Exception as e:
        failure = task_failure(dialect, e)
        if failure is None:
            raise
        raise failure from None


def task_failure(dialect: DatabaseDialect, error: BaseException) -> TaskFailure | None:
    """The failure for an error of the server, or of the connection; None for other errors. One
    that may pass by itself is tried again."""
    server_error = dialect.failure_of(error)
    if server_error is None:
        return None
    state, message = server_error[0], " ".join(server_error[1].split())
    condition = _by_code(dialect, state) if state else _by_words(dialect, message)
    condition = condition or "database-error"
    passing = (
        condition in PASSING
        or state.startswith(dialect.passing)
        or (not state and condition == "database-error")
    )
    kind: Kind = "infrastructure" if passing else "user"
    return TaskFailure(condition, message, kind)


def _by_code(dialect: DatabaseDialect, state: str) -> str | None:
    return next((condition for condition, codes in dialect.states.items() if state in codes), None)


def _by_words(dialect: DatabaseDialect, message: str) -> str | None:
    return next(
        (condition for words, condition in dialect.words if re.search(words, message)), None
    )
