"""Feeds and their grants: tables that an older version does not look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "feeds",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("columns", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", name="feeds_pkey"),
    )
    op.create_table(
        "feed_grants",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("feed", sa.Text, nullable=False),
        sa.Column("reader", sa.Text, nullable=False),
        sa.Column("dataflows", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "feed", "reader", "dataflows", name="feed_grants_pkey"),
    )
