"""Roles of namespaces: a table that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    columns = [_text(name) for name in ("namespace", "name", "permissions", "narrowed", "actor")]
    at = sa.Column("at", sa.Double, nullable=False)
    op.create_table("roles", *columns, at, sa.PrimaryKeyConstraint("namespace", "name", name="roles_pkey"))
