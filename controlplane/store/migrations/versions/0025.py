"""Profiles of fragments and of tree nodes: a table that an older version does not look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("id", sa.LargeBinary(32), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "id", name="profiles_pkey"),
    )
