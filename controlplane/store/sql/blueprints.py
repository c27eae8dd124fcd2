"""Blueprint revisions and requests of operators. Does not belong here: computed results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, func, literal, select, update

from controlplane.core.errors import NotFound, StaleRevision
from controlplane.core.model import change_marks, forces
from controlplane.core.model.branches import MAIN
from controlplane.core.model.forces import ForcedRange
from controlplane.core.model.revisions import Revision
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup
from controlplane.store.sql.queue import SqlQueue
from controlplane.store.sql.row_records import Record
from controlplane.store.sql.snapshots import SqlSnapshots

_REVISIONS = Record(db.revisions, Revision)


class SqlBlueprints(TableGroup):
    """Deleting a dataflow ends its demands, hence the queue."""

    def __init__(
        self, transaction: OpenTransaction, snapshots: SqlSnapshots, queue: SqlQueue
    ) -> None:
        super().__init__(transaction)
        self._snapshots = snapshots
        self._queue = queue

    def revisions(self, branch: str, dataflows: Iterable[str] | None = None) -> dict[str, Revision]:
        if branch == MAIN:
            return self._own_revisions(MAIN, dataflows)
        own = self._dataflows(branch)
        names = None if dataflows is None else list(dataflows)
        if self._snapshots.base(branch) is None:
            rows = self._some(
                _newest().where(self._over_main(db.revisions, branch)),
                db.revisions.c.dataflow,
                names,
            )
            return {
                row.dataflow: _REVISIONS.from_row(row)
                for row in rows
                if row.branch == branch or row.dataflow not in own
            }
        shared = self.mains_revisions(branch, names)
        of_main = {flow: revision for flow, revision in shared.items() if flow not in own}
        return {**of_main, **self._own_revisions(branch, names)} if own else of_main

    def mains_revisions(
        self, branch: str, dataflows: Iterable[str] | None = None
    ) -> dict[str, Revision]:
        moved = {
            flow: _head(stored)
            for flow, stored in self._snapshots.moved("dataflow", branch, dataflows).items()
        }
        revisions = {
            f: r for f, r in self._own_revisions(MAIN, dataflows).items() if f not in moved
        }
        for flow, head in moved.items():
            revision = self.revision(MAIN, flow, head.last_number) if head.is_live else None
            if revision is not None:
                revisions[flow] = revision
        return revisions

    def _own_revisions(self, branch: str, dataflows: Iterable[str] | None) -> dict[str, Revision]:
        newest = _newest().where(self._mine(db.revisions, branch=branch))
        rows = self._some(newest, db.revisions.c.dataflow, dataflows)
        return {row.dataflow: _REVISIONS.from_row(row) for row in rows}

    def _dataflows(self, branch: str) -> dict[str, Row[Any]]:
        """The branch's own, by name. Its base comes along, so that it is not looked up by
        itself."""
        own, single = db.dataflows, select(literal(1).label("one")).subquery()
        base = (
            select(db.branches.c.base).where(self._mine(db.branches, name=branch)).scalar_subquery()
        )
        rows = self._rows(
            select(base.label("base"), own).select_from(
                single.outerjoin(own, self._mine(own, branch=branch))
            )
        )
        self._snapshots.note_base(branch, rows[0].base)
        return {row.dataflow: row for row in rows if row.dataflow is not None}

    def revision(self, branch: str, dataflow: str, number: int) -> Revision | None:
        return self._value_of(_REVISIONS, branch=branch, dataflow=dataflow, number=number)

    def put(self, revision: Revision, expected: int | None) -> None:
        row = self._dataflow(revision.branch, revision.dataflow)
        last, live = (row.last_number, row.is_live) if row else (0, False)
        newest = last if live else 0
        if expected not in (None, newest):
            raise StaleRevision(revision.dataflow, expected or 0, newest)
        if revision.number != last + 1 or not self._move(revision, last, live):
            raise StaleRevision(revision.dataflow, revision.number - 1, last)
        self._insert(db.revisions, [_REVISIONS.to_row(revision)])
        self._mark(revision.branch, change_marks.flow(revision.dataflow))
        self._snapshots.note_move("dataflow", revision.branch, revision.dataflow, [last, live])
        of = {"branch": revision.branch, "dataflow": revision.dataflow}
        self._upsert(db.uids, [{**of, "component": c, "uid": u} for c, u in revision.uids.items()])

    def _move(self, revision: Revision, last: int, live: bool) -> bool:
        """Make this revision the newest, unless another transaction has moved it since it was
        read."""
        of = {"branch": revision.branch, "dataflow": revision.dataflow}
        there = self._mine(db.dataflows, **of, last_number=last, is_live=live)
        if (
            self._change(
                update(db.dataflows).where(there).values(last_number=revision.number, is_live=True)
            )
            == 1
        ):
            return True
        is_first = last == 0 or revision.branch != MAIN
        return is_first and self._insert_one(
            db.dataflows, **of, last_number=revision.number, is_live=True, fork=revision.number - 1
        )

    def last_number(self, branch: str, dataflow: str) -> int:
        row = self._dataflow(branch, dataflow)
        return row.last_number if row else 0

    def _dataflow(self, branch: str, dataflow: str) -> _Head | None:
        row = self._row_of(db.dataflows, branch=branch, dataflow=dataflow)
        if row is not None:
            return _Head(row.last_number, row.is_live)
        if branch == MAIN:
            return None
        moved = self._snapshots.moved("dataflow", branch, [dataflow])
        return _head(moved[dataflow]) if moved else self._dataflow(MAIN, dataflow)

    def delete_dataflow(self, branch: str, dataflow: str) -> None:
        row = self._dataflow(branch, dataflow)
        if row is None or not row.is_live:
            raise NotFound(f"there is no dataflow {dataflow}")
        of = {"branch": branch, "dataflow": dataflow}
        if not self._change(
            update(db.dataflows).where(self._mine(db.dataflows, **of)).values(is_live=False)
        ):
            self._insert(
                db.dataflows,
                [{**of, "last_number": row.last_number, "is_live": False, "fork": row.last_number}],
            )
        self._mark(branch, change_marks.flow(dataflow), change_marks.PAUSES, change_marks.HOLDS)
        self._snapshots.note_move("dataflow", branch, dataflow, [row.last_number, True])
        prefix = f"{dataflow}."
        self._queue.drop_demands_below(branch, prefix)
        named = [(table, table.c.dataset) for table in (db.problems, db.unfinished, db.holds)] + [
            (db.pauses, db.pauses.c.target)
        ]
        for table, column in named:
            of_it = (func.substr(column, 1, len(prefix)) == prefix) | (column == dataflow)
            if table is db.pauses and branch == MAIN:
                self._note_pauses(of_it)
            self._change(delete(table).where(self._mine(table, branch=branch) & of_it))

    def _note_pauses(self, which: ColumnElement[bool]) -> None:
        """Those of main that are about to go."""
        for row in self._rows(self._select(db.pauses, branch=MAIN).where(which)):
            self._snapshots.note_move("pause", MAIN, row.target, True)

    def uids(self, branch: str, dataflow: str) -> dict[str, str]:
        rows = self._rows(
            select(db.uids).where(self._over_main(db.uids, branch), db.uids.c.dataflow == dataflow)
        )
        return {row.component: row.uid for row in sorted(rows, key=_own_last)}

    def paused(self, branch: str) -> frozenset[str]:
        rows = self._rows(select(db.pauses).where(self._over_main(db.pauses, branch)))
        of_main = {row.target: True for row in rows if row.branch == MAIN}
        of_main |= {
            target: bool(was) for target, was in self._snapshots.moved("pause", branch).items()
        }
        own = {row.target: not row.lifted for row in rows if row.branch != MAIN}
        return frozenset(target for target, is_paused in {**of_main, **own}.items() if is_paused)

    def set_paused(self, branch: str, target: str, paused: bool) -> None:
        self._mark(branch, change_marks.PAUSES)
        if branch == MAIN:
            was = self._row_of(db.pauses, branch=MAIN, target=target) is not None
            self._snapshots.note_move("pause", MAIN, target, was)
        if paused or branch != MAIN:
            self._upsert(db.pauses, [{"branch": branch, "target": target, "lifted": not paused}])
        else:
            self._delete(db.pauses, branch=branch, target=target)

    def forces(self, branch: str) -> dict[str, int]:
        own = {} if branch == MAIN else self._forces(branch)
        return {**self.mains_forces(branch), **own}

    def mains_forces(self, branch: str) -> dict[str, int]:
        numbers = {**self._forces(MAIN), **self._snapshots.moved("force", branch)}
        return {
            dataset: int(str(number)) for dataset, number in numbers.items() if number is not None
        }

    def _forces(self, branch: str) -> dict[str, int]:
        return {row.dataset: row.number for row in self._rows_of(db.forces, branch=branch)}

    def force(self, branch: str, datasets: Iterable[str]) -> int:
        number, names = self._count("forces", 1), list(dict.fromkeys(datasets))
        if branch == MAIN:
            before = self._forces(MAIN)
            for name in names:
                self._snapshots.note_move("force", MAIN, name, before.get(name))
        self._upsert(
            db.forces, [{"branch": branch, "dataset": name, "number": number} for name in names]
        )
        self._mark(branch, change_marks.FORCED, *names)
        return number

    def force_range(self, branch: str, dataset: str, first: str, last: str) -> int:
        before = self.forces(branch).get(dataset, 0)
        number = self.force(branch, [dataset])
        self._put_range(number, ForcedRange(first, last, number, before))
        return number

    def forced_ranges(self) -> dict[int, ForcedRange]:
        return {
            row.id: ForcedRange(row.first, row.last, row.number, row.before)
            for row in self._rows_of(db.forced_ranges)
        }

    def drop_ranges(self) -> int:
        numbers = [row.number for row in self._rows_of(db.forces)]
        for row in self._rows_of(db.replaced, kind="force"):
            before: int | None = json.loads(row.value)
            numbers.append(before or 0)
        return self._delete_among(
            db.forced_ranges, "id", forces.unused(self.forced_ranges(), numbers)
        )

    def _put_range(self, id: int, forced: ForcedRange) -> None:
        self._insert(db.forced_ranges, [{"id": id, **asdict(forced)}])

    def _joined(self, own: int, number: int, ranges: Mapping[int, ForcedRange]) -> int:
        """A number that stands for all that both stand for."""
        joined = forces.joined(ranges, own, number)
        last = joined.number
        for forced in joined.ranges:
            id = self._count("forces", 1)
            self._put_range(id, replace(forced, before=last))
            last = id
        return last

    def bring_forces(self, branch: str, numbers: Mapping[str, int]) -> None:
        before = self.forces(branch)
        newer = {name: number for name, number in numbers.items() if number > before.get(name, 0)}
        if not newer:
            return
        ranges = self.forced_ranges()
        newer = {name: self._joined(before.get(name, 0), n, ranges) for name, n in newer.items()}
        for name in newer:
            self._snapshots.note_move("force", branch, name, before.get(name))
        self._upsert(
            db.forces, [{"branch": branch, "dataset": d, "number": n} for d, n in newer.items()]
        )
        self._mark(branch, change_marks.FORCED, *newer)


@dataclass(frozen=True, slots=True)
class _Head:
    """The newest number that was ever given, and whether the dataflow is there."""

    last_number: int
    is_live: bool


def _head(stored: Any) -> _Head:
    """As it is kept for pinned branches."""
    return _Head(int(stored[0]), bool(stored[1]))


def _own_last(row: Row[tuple[object, ...]]) -> bool:
    """A branch's own rows come after those of main, and win."""
    return bool(row.branch != MAIN)


def _newest() -> Select[tuple[object, ...]]:
    head = db.dataflows.c
    same = (
        (head.namespace == db.revisions.c.namespace)
        & (head.branch == db.revisions.c.branch)
        & (head.dataflow == db.revisions.c.dataflow)
        & (head.last_number == db.revisions.c.number)
    )
    return select(db.revisions).join(db.dataflows, same).where(head.is_live)
