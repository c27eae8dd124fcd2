"""Signed links: a table that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    keys = [_text(name) for name in ("namespace", "id")]
    told = [_text(name) for name in ("maker", "actor", "branch", "dataset", "asked")]
    times = [sa.Column(name, sa.Double, nullable=False) for name in ("at", "expires")]
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="links_pkey")
    op.create_table("links", *keys, *told, *times, sa.Column("revoked", sa.Boolean, nullable=False), primary)
