"""Namespaces beside `default`: a table that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    told = [
        _text("name"),
        _text("actor"),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("ended", sa.Double, nullable=True),
    ]
    primary = sa.PrimaryKeyConstraint("namespace", "name", name="namespaces_pkey")
    op.create_table("namespaces", _text("namespace"), *told, primary)
