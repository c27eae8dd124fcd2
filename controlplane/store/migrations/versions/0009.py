"""What made the types of a pinned schema wider. Pins of versions before do not tell."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pins", sa.Column("widened", sa.Text, nullable=True))
