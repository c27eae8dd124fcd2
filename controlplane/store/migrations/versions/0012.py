"""Branches: where their write components write to.

The defaults are for processes of the version before, which leave the columns out.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("branches", sa.Column("redirects", sa.Text, nullable=False, server_default="{}"))
