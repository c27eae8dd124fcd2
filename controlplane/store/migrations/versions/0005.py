"""What was last wished for in external copies: a table that an older version does not look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    keys = [sa.Column(name, sa.Text, nullable=False) for name in ("namespace", "branch", "component")]
    order = sa.Column("order", sa.BigInteger, nullable=False)
    wish = sa.Column("wish", sa.LargeBinary(32), nullable=False)
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="wishes_pkey")
    op.create_table("wishes", *keys, order, wish, primary, sqlite_with_rowid=False)
