"""What tokens are narrowed to, when they were last used, and whose key an S3 key is; reads of data."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    op.add_column("tokens", sa.Column("narrowed", sa.Text, nullable=False, server_default="{}"))
    op.add_column("tokens", sa.Column("parent", sa.Text, nullable=True))
    op.add_column("tokens", sa.Column("used", sa.Double, nullable=True))
    keys = [_text("namespace"), sa.Column("id", sa.BigInteger, nullable=False)]
    told = [
        *(_text(name) for name in ("actor", "request_id", "how", "branch", "dataset")),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=True),
        _text("what"),
    ]
    op.create_table("reads", *keys, *told, sa.PrimaryKeyConstraint("namespace", "id", name="reads_pkey"))
    op.create_index("reads_at", "reads", ["namespace", "at"])
