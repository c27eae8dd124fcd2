"""Branches: their rows, and the rows that belong to a branch in the other tables.

Does not belong here: who may branch, comparing and merging; how rows shared with main are read (the
other parts).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Table,
    Update,
    bindparam,
    exists,
    literal,
    or_,
    select,
    update,
)

from controlplane.core.errors import BranchExists, NotFound
from controlplane.core.model import change_marks
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.projections import unknown_table
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup
from controlplane.store.sql.queue import SqlQueue
from controlplane.store.sql.row_records import Record
from controlplane.store.sql.snapshots import NOW, SqlSnapshots
from controlplane.store.sql.states import PUBLICATIONS

_BRANCHES = Record(db.branches, Branch, pinned=None)
BY_DATAFLOW = (db.dataflows, db.revisions, db.uids)
BY_DATASET = (
    db.heads,
    db.states,
    db.buildings,
    db.unfinished,
    db.pins,
    db.problems,
    db.forces,
    db.holds,
)
OTHERS = (
    db.pauses,
    db.targets,
    db.wishes,
    db.marks,
    db.alerts,
    db.messages,
    db.links,
    db.shared_tables,
)
# To a branch of a branch
COPIED = (*BY_DATAFLOW, db.heads, db.states, db.pins, db.forces, db.holds, db.pauses)


def _has_rows(table: Table) -> ColumnElement[bool]:
    return exists().where(
        table.c.namespace == bindparam("of_namespace"), table.c.branch == bindparam("of_branch")
    )


IS_KNOWN = select(or_(*map(_has_rows, COPIED)))  # written once: it is long


class SqlBranches(TableGroup):
    """Dropping a branch ends its demands, hence the queue."""

    def __init__(
        self, transaction: OpenTransaction, snapshots: SqlSnapshots, queue: SqlQueue
    ) -> None:
        super().__init__(transaction)
        self._snapshots = snapshots
        self._queue = queue

    def all(self) -> dict[str, Branch]:
        return {row.name: _branch(row) for row in self._rows_of(db.branches) if row.name != MAIN}

    def create(self, branch: Branch) -> None:
        if branch.name in (MAIN, branch.source) or self._is_known(branch.name):
            raise BranchExists(branch.name)
        if branch.source != MAIN:
            if branch.name in self.all():
                raise BranchExists(branch.name)
            self._require(branch.source)
        base = self._first_base(branch)
        if not self._insert_one(db.branches, **_BRANCHES.to_row(branch), base=base):
            raise BranchExists(branch.name)
        self._snapshots.note_base(branch.name, base)
        if branch.source != MAIN:
            for table in COPIED:
                self._copy(table, branch.source, branch.name)
        self._mark(MAIN, change_marks.BRANCHES)

    def _first_base(self, branch: Branch) -> int | None:
        """A branch of a pinned one sees what that sees."""
        base = self._snapshots.base(branch.source)
        return NOW if base is None and branch.pinned else base

    def pin(self, branch: str) -> None:
        self._require(branch)
        self._change(
            update(db.branches).where(self._mine(db.branches, name=branch)).values(base=NOW)
        )
        self._snapshots.rebase(branch)
        self._mark(branch, change_marks.BASE)

    def _require(self, name: str) -> None:
        if self._row_of(db.branches, name=name) is None:
            raise NotFound(f"there is no branch {name}")

    def _is_known(self, name: str) -> bool:
        """Something is left of a branch of that name."""
        of = {"of_namespace": self._namespace, "of_branch": name}
        return bool(self._connection.execute(IS_KNOWN, of).scalar_one())

    def _copy(self, table: Table, source: str, target: str) -> None:
        columns = [literal(target).label("branch") if c.name == "branch" else c for c in table.c]
        rows = select(*columns).where(self._mine(table, branch=source))
        insert: Any = self._dialect.insert(table)
        self._connection.execute(insert.from_select([c.name for c in table.c], rows))

    def put(self, branch: Branch) -> None:
        there = self._mine(db.branches, name=branch.name)
        if branch.name == MAIN:
            self._upsert(db.branches, [_BRANCHES.to_row(branch)])
        else:
            self._change(update(db.branches).where(there).values(**_BRANCHES.to_row(branch)))
        self._mark(MAIN, change_marks.BRANCHES)

    def is_protected(self, name: str) -> bool:
        row = self._row_of(db.branches, name=name)
        return row is not None and row.protected

    def hold(self, name: str) -> None:
        held = update(db.branches).where(self._mine(db.branches, name=name)).values(name=name)
        if not self._change(held):
            raise NotFound(f"there is no branch {name}")

    def drop(self, name: str) -> None:
        if not self._delete(db.branches, name=name):
            raise NotFound(f"there is no branch {name}")
        self._queue.drop_demands_below(name, "")
        self._snapshots.drop_base(name)
        for table in (*BY_DATAFLOW, *BY_DATASET, *OTHERS):
            self._delete(table, branch=name)
        self._change(self._forgotten_tables(name))
        self._mark(name, change_marks.ENDED)
        self._mark(MAIN, change_marks.BRANCHES)

    def own_dataflows(self, branch: str) -> dict[str, int]:
        return {row.dataflow: row.fork for row in self._rows_of(db.dataflows, branch=branch)}

    def own_datasets(self, branch: str) -> frozenset[str]:
        return frozenset(row.dataset for row in self._rows_of(db.heads, branch=branch))

    def share(self, branch: str, datasets: Iterable[str]) -> None:
        names = list(datasets)
        for name in names:
            self._queue.drop_demands(branch, name)
        for table in BY_DATASET:
            self._delete_among(table, "dataset", names, branch=branch)
        self._change_among(self._forgotten_tables(branch), db.publications.c.dataset, names)
        self._mark(branch, *names)

    def _forgotten_tables(self, branch: str) -> Update:
        """Files of them may be there."""
        row = PUBLICATIONS.to_row(unknown_table(branch, ""))
        del row["dataset"]
        return (
            update(db.publications).where(self._mine(db.publications, branch=branch)).values(**row)
        )

    def share_dataflows(self, branch: str, dataflows: Iterable[str]) -> None:
        names = list(dataflows)
        for table in BY_DATAFLOW:
            self._delete_among(table, "dataflow", names, branch=branch)
        self._mark(branch, *map(change_marks.flow, names))


def _branch(row: Row[Any]) -> Branch:
    return _BRANCHES.from_row(row, pinned=row.base is not None)
