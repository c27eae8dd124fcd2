"""What operators wanted to be made anew: one number for each dataset that was ever forced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    keys = [sa.Column(name, sa.Text, nullable=False) for name in ("namespace", "branch", "dataset")]
    primary = sa.PrimaryKeyConstraint(*(k.name for k in keys), name="forces_pkey")
    number = sa.Column("number", sa.BigInteger, nullable=False)
    op.create_table("forces", *keys, number, primary, sqlite_with_rowid=False)
