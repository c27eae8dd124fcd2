"""Which branch an event or an audited change belongs to.

So far there was main alone. What concerns the whole installation belongs to no branch. The default is for processes of
the version before, which leave the column out.

There is no index by branch: events are read in the order of their ids, together with those of no branch, so the primary
key serves them. Of a million events of another branch, the ten of a quiet one are found in 0.2 s on SQLite; with an
index by branch it took as long.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("events", "changes"):
        op.add_column(table, sa.Column("branch", sa.Text, nullable=False, server_default="main"))
    op.execute("UPDATE events SET branch = '' WHERE kind = 'driver.ended' OR kind LIKE 'listing.%'")
    op.execute("UPDATE changes SET branch = '' WHERE action LIKE 'token.%'")
    op.execute("UPDATE changes SET branch = '' WHERE action IN ('gc', 'gc.packs', 'fsck.repair')")
