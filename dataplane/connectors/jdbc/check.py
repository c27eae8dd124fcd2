"""The `connect` kind of work: checks that a database can be reached, and that a table can be read
or written."""

from __future__ import annotations

from dataplane.connectors.jdbc.dialect import DatabaseAddress
from dataplane.connectors.jdbc.jdbc_connection import address, connected
from dataplane.connectors.jdbc.jdbc_listing import Table, require_ascending
from dataplane.connectors.jdbc.writable_dialect import WritableDialect, writable
from dataplane.contract.jobs import ConnectJob
from dataplane.task_failures import TaskFailure


def check(job: ConnectJob) -> None:
    """Check the connection; nothing is changed. TaskFailure gives the reason why it cannot be
    used."""
    place, settings = address(job), job["settings"]
    if job["writes"]:
        _check_schema(place, writable(place.dialect), settings["table"])
        return
    with connected(place) as session:
        table = Table.of(session, place.dialect, settings)
        if settings.get("column"):
            table.column(settings["column"])
        require_ascending(table)


def _check_schema(place: DatabaseAddress, dialect: WritableDialect, table: str) -> None:
    *above, _ = dialect.names_of(table)
    with connected(place) as session:
        [(schema, may_create)] = session.rows(dialect.may_create(above[0] if above else None))
    if may_create is None:
        raise TaskFailure("table-missing", f"there is no schema {schema}")
    if not may_create:
        raise TaskFailure(
            "permission-denied", f"the user may create no table in the schema {schema}"
        )
