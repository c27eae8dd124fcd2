"""Sizes that tasks of a dataset have since one ran out of memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = (
        sa.Column("namespace", sa.Text, primary_key=True, nullable=False),
        sa.Column("dataset", sa.Text, primary_key=True, nullable=False),
        sa.Column("size", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_table("raised_sizes", *columns, sqlite_with_rowid=False)
