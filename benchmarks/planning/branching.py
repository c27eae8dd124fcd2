"""A branch as pointers in the store, until the product makes them itself: rows are copied inside the database.

Does not belong here: merging, deleting.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, insert, literal, select

from benchmarks.planning import ours
from controlplane.ports import Store
from controlplane.store import tables as db


def copy_branch(store: Store, source: str, target: str) -> None:
    """`target` gets the newest revisions and states of `source`: no tree, no fragment, no history."""
    with store.begin(ours.NAMESPACE) as tx:
        connection: Any = tx._connection  # type: ignore[attr-defined]
        for table in (db.dataflows, db.uids, db.heads, db.pins, db.pauses):
            connection.execute(_copied(table, source, target))
        connection.execute(
            _copied(db.revisions, source, target, db.dataflows, dataflow="dataflow", number="last_number")
        )
        connection.execute(_copied(db.states, source, target, db.heads, dataset="dataset", seq="seq"))


def _copied(table: Table, source: str, target: str, newest: Table | None = None, **same: str) -> Any:
    """INSERT of the branch's rows; with `newest`, of those that it points to."""
    columns = [literal(target).label("branch") if c.name == "branch" else c for c in table.c]
    rows = select(*columns).where(table.c.namespace == ours.NAMESPACE, table.c.branch == source)
    if newest is not None:
        rows = rows.where(newest.c.namespace == table.c.namespace, newest.c.branch == table.c.branch)
        for own, other in same.items():
            rows = rows.where(table.c[own] == newest.c[other])
    return insert(table).from_select([c.name for c in table.c], rows)
