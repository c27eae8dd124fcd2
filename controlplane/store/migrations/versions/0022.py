"""Rules of trust in issuers of identity tokens: a table that an older version does not look at."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=False)


def upgrade() -> None:
    keys = [_text("namespace"), _text("name")]
    told = [_text(name) for name in ("id", "use", "issuer", "audience", "claims", "roles", "narrowed")]
    made = [_number("ttl_s"), _text("actor"), _number("at")]
    primary = sa.PrimaryKeyConstraint("namespace", "name", name="trust_rules_pkey")
    op.create_table("trust_rules", *keys, *told, *made, primary)
    op.create_index("trust_rules_id", "trust_rules", ["namespace", "id"], unique=True)
