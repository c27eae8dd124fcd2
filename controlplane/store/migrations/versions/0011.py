"""Branches: a row for each, and from which number on a branch's dataflows and datasets are its own.

The defaults are for processes of the version before, which leave the columns out: all that main has is its own.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "branches",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("expires", sa.Double, nullable=True),
        sa.Column("protected", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", name="branches_pkey"),
        sqlite_with_rowid=False,
    )
    op.add_column("dataflows", sa.Column("fork", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("heads", sa.Column("fork", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("pauses", sa.Column("lifted", sa.Boolean, nullable=False, server_default=sa.false()))
