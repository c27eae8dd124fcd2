"""Branches whose own datasets are published. Those of a version before publish nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("branches", sa.Column("publish", sa.Boolean, nullable=False, server_default=sa.false()))
