"""What runs under way read: a table that an older version does not look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    keys = [sa.Column(name, sa.Text, nullable=False) for name in ("namespace", "branch", "dataset")]
    lineage = sa.Column("lineage", sa.LargeBinary(32), nullable=False)
    texts = [sa.Column(name, sa.Text, nullable=False) for name in ("states", "cut")]
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="begun_pkey")
    op.create_table("begun", *keys, lineage, *texts, primary)
