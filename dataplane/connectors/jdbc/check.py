"""The `connect` kind of work: checks that a database can be reached, and that a table can be read
or written."""

from __future__ import annotations

from dataplane.connectors.jdbc.jdbc_connection import connected, names_of
from dataplane.connectors.jdbc.jdbc_listing import columns_of, require_ascending
from dataplane.contract.jobs import ConnectJob
from dataplane.task_failures import TaskFailure

# Without a schema in the name, the first of the search path that is there.
_TARGET = """SELECT s, has_schema_privilege(to_regnamespace(quote_ident(s)), 'CREATE')
FROM (SELECT coalesce(%s, current_schema())) AS given (s)"""


def check(job: ConnectJob) -> None:
    """Check the connection; nothing is changed. TaskFailure gives the reason why it cannot be
    used."""
    settings = job["settings"]
    with connected(job) as connection:
        if not job["writes"]:
            names = [name for name, _ in columns_of(connection, settings)]
            if settings.get("column") and settings["column"] not in names:
                raise TaskFailure(
                    "column-missing", f"there is no column {settings['column']}: {', '.join(names)}"
                )
            require_ascending(connection, settings)
            return
        *above, _ = names_of(settings["table"])
        [(schema, may_create)] = connection.execute(
            _TARGET, (above[0] if above else None,)
        ).fetchall()
        if may_create is None:
            raise TaskFailure("table-missing", f"there is no schema {schema}")
        if not may_create:
            raise TaskFailure(
                "permission-denied", f"the user may create no table in the schema {schema}"
            )
