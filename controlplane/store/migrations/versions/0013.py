"""Holds: a table that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    keys = [_text(name) for name in ("namespace", "branch", "dataset")]
    told = [
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        _text("actor"),
        sa.Column("at", sa.Double, nullable=False),
        _text("reason"),
    ]
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="holds_pkey")
    op.create_table("holds", *keys, *told, primary, sqlite_with_rowid=False)
