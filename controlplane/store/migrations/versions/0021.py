"""Sessions of browsers: a table that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0019"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def _time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=False)


def upgrade() -> None:
    hashed = sa.Column("hash", sa.LargeBinary(32), nullable=False)
    told = [_text("token"), _text("kind"), _time("at"), _time("seen"), _time("ends")]
    primary = sa.PrimaryKeyConstraint("namespace", "hash", name="browser_sessions_pkey")
    op.create_table("browser_sessions", _text("namespace"), hashed, *told, primary, sqlite_with_rowid=False)
