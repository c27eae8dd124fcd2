"""Shares, and the datasets in them: tables that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0016"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def _at() -> sa.Column[Any]:
    return sa.Column("at", sa.Double, nullable=False)


def upgrade() -> None:
    keys = [_text(name) for name in ("namespace", "name")]
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="shares_pkey")
    op.create_table("shares", *keys, _text("id"), _text("actor"), _at(), primary)
    keys = [_text(name) for name in ("namespace", "share", "schema", "name")]
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="shared_tables_pkey")
    told = [_text("branch"), _text("dataset"), sa.Column("has_history", sa.Boolean, nullable=False)]
    op.create_table("shared_tables", *keys, *told, _at(), primary)
