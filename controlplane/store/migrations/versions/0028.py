"""Ranges of partitions that were forced to be computed again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = (
        sa.Column("namespace", sa.Text, primary_key=True, nullable=False),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("first", sa.Text, nullable=False),
        sa.Column("last", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("before", sa.BigInteger, nullable=False),
    )
    op.create_table("forced_ranges", *columns, sqlite_with_rowid=False)
