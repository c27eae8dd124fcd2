"""Alerts, and messages about them: tables that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=nullable)


def upgrade() -> None:
    keys = [_text(name) for name in ("namespace", "branch", "dataset", "condition")]
    told = [_time("since"), _text("text"), _text("told"), _time("ended", nullable=True)]
    op.create_table("alerts", *keys, *told, sa.PrimaryKeyConstraint(*(k.name for k in keys), name="alerts_pkey"))
    names = [_text(name) for name in ("namespace", "id", "branch", "dataflow", "channel", "items")]
    sending = [
        _time("due"),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.Column("task", sa.LargeBinary(32), nullable=True),
        _text("error", nullable=True),
    ]
    op.create_table("messages", *names, *sending, sa.PrimaryKeyConstraint("namespace", "id", name="messages_pkey"))
