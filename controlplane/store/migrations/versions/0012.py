"""Branches: where their write components write to, and what pinned ones see of main.

The defaults are for processes of the version before, which leave the columns out, and note nothing for pinned
branches: none is to be made before all processes are of this version.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def _column(name: str, kind: type[TypeEngine[Any]]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    op.add_column("branches", sa.Column("redirects", sa.Text, nullable=False, server_default="{}"))
    op.add_column("branches", sa.Column("base", sa.BigInteger, nullable=True))
    op.create_table(
        "replaced",
        *(_column(name, sa.Text) for name in ("namespace", "kind", "name")),
        _column("until", sa.BigInteger),
        _column("value", sa.Text),
        sa.Column("seq", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("namespace", "kind", "name", "until", name="replaced_pkey"),
        sqlite_with_rowid=False,
    )
