"""How Alembic runs our migrations: inside the transaction and on the connection that it is
given."""

from __future__ import annotations

from alembic import context

from controlplane.store.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
