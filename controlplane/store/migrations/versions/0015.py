"""Cursors over events: a table that an older version does not look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cursors",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("event", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", name="cursors_pkey"),
        sqlite_with_rowid=False,
    )
