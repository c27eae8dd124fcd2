"""Which process holds the lease of the loop. One table more, which an older version does not look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    keys = [sa.Column(name, sa.Text, nullable=False) for name in ("namespace", "name")]
    primary = sa.PrimaryKeyConstraint(*(k.name for k in keys), name="leases_pkey")
    holder = sa.Column("holder", sa.Text, nullable=False)
    epoch = sa.Column("epoch", sa.BigInteger, nullable=False)
    times = [sa.Column(name, sa.Double, nullable=False) for name in ("since", "until")]
    op.create_table("leases", *keys, holder, epoch, *times, primary, sqlite_with_rowid=False)
