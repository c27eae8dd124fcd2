"""Feeds and their grants: tables that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def _made() -> list[sa.Column[Any]]:
    """By whom, and when."""
    return [_text("actor"), sa.Column("at", sa.Double, nullable=False)]


def upgrade() -> None:
    columns = [_text(name) for name in ("namespace", "name", "dataset", "columns")]
    primary = sa.PrimaryKeyConstraint("namespace", "name", name="feeds_pkey")
    op.create_table("feeds", *columns, *_made(), primary)
    columns = [_text(name) for name in ("namespace", "feed", "reader", "dataflows")]
    primary = sa.PrimaryKeyConstraint("namespace", "feed", "reader", "dataflows", name="feed_grants_pkey")
    op.create_table("feed_grants", *columns, *_made(), primary)
