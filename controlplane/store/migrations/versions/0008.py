"""Attempts that are over, in a table that an older version does not look at; and since when the tasks of a running one
have waited, in columns that it leaves out."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("queued_at", sa.Double, nullable=True))
    op.add_column("attempts", sa.Column("partition", sa.Text, nullable=True))
    keys = _columns(sa.Text, "namespace", "id", "branch")
    primary = sa.PrimaryKeyConstraint(*(key.name for key in keys), name="past_attempts_pkey")
    op.create_table("past_attempts", *keys, *_facts(), primary)
    op.create_index("past_attempts_dataset", "past_attempts", ["namespace", "branch", "dataset", "ended_at"])
    op.create_index("past_attempts_ended", "past_attempts", ["namespace", "ended_at"])


def _facts() -> list[sa.Column[Any]]:
    return [
        *_columns(sa.Text, "kind", "dataset", "partition", "driver"),
        *_columns(sa.Double, "queued_at", "started_at", "ended_at"),
        sa.Column("seconds", sa.Double, nullable=True),
        *_columns(sa.Text, "outcome"),
        *_columns(sa.BigInteger, "tasks", "done", "failed", "rows", "bytes_written"),
        *_columns(sa.BigInteger, "bytes_read", "spark_jobs", "spark_stages", nullable=True),
        *_columns(sa.Text, "spark_ui", "event_log", "error", nullable=True),
    ]


def _columns(kind: Any, *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]
