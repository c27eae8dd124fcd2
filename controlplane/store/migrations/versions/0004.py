"""Where packs came from, and folders that wait for deletion: two tables that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _table("pack_origins", sa.Column("pack", sa.LargeBinary(32)), *_digests("leaf", "member"), _time("at"))
    _table("leftovers", sa.Column("folder", sa.Text), sa.Column("attempt", sa.Text, nullable=False), _time("due"))


def _table(name: str, key: sa.Column[Any], *columns: sa.Column[Any]) -> None:
    key.nullable = False
    primary = sa.PrimaryKeyConstraint("namespace", key.name, name=f"{name}_pkey")
    namespace = sa.Column("namespace", sa.Text, nullable=False)
    op.create_table(name, namespace, key, *columns, primary, sqlite_with_rowid=False)


def _digests(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.LargeBinary(32), nullable=False) for name in names]


def _time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=False)
