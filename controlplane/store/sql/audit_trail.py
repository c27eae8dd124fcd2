"""The audit: changes of desired state and reads of data; and answers to requests with a key.

Does not belong here: which requests are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, delete, select

from controlplane.core.errors import IdempotencyConflict
from controlplane.core.model.access import StoredAnswer
from controlplane.core.model.reads import RecordedRead
from controlplane.core.model.revisions import AuditedChange
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, T, TableGroup
from controlplane.store.sql.row_records import Record

_CHANGES = Record(db.changes, AuditedChange)
_READS = Record(db.reads, RecordedRead)
_ANSWERS = Record(db.answers, StoredAnswer)


class SqlAuditTrail(TableGroup):
    """Changes are written when the transaction ends."""

    def __init__(self, transaction: OpenTransaction) -> None:
        super().__init__(transaction)
        self._new_changes: list[AuditedChange] = []

    # --- changes

    def put_change(self, change: AuditedChange) -> None:
        self._new_changes.append(change)

    def _write_changes(self) -> None:
        if new := self._new_changes:
            self.store_changes(self._count("changes", len(new)))

    def store_changes(self, last: int) -> None:
        """`last`: the counter of changes, which was raised for all of them."""
        self._insert(db.changes, _CHANGES.numbered(self._new_changes, last))
        self._new_changes.clear()

    def waiting(self) -> int:
        """How many changes wait for the end of the transaction."""
        return len(self._new_changes)

    def changes(
        self,
        branch: str | None,
        limit: int = 100,
        *,
        since: float = 0.0,
        until: float | None = None,
    ) -> tuple[AuditedChange, ...]:
        self._write_changes()
        ours = self._mine(db.changes) if branch is None else self._events_in(db.changes, branch)
        return self._newest(_CHANGES, select(db.changes).where(ours), limit, since, until)

    # --- reads

    def put_reads(self, reads: Sequence[RecordedRead]) -> None:
        if reads:
            self._insert(db.reads, _READS.numbered(reads, self._count("reads", len(reads))))

    def reads(
        self, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
    ) -> tuple[RecordedRead, ...]:
        named = {} if branch is None else {"branch": branch}
        return self._newest(_READS, self._select(db.reads, **named), limit, since, until)

    def _newest(
        self, record: Record[T], rows: Select[Any], limit: int, since: float, until: float | None
    ) -> tuple[T, ...]:
        column = record.table.c
        rows = rows.where(column.at >= since)
        if until is not None:
            rows = rows.where(column.at < until)
        return tuple(record.from_rows(self._rows(rows.order_by(column.id.desc()).limit(limit))))

    def drop_reads(self, before: float, limit: int) -> int:
        read = db.reads.c
        old = select(read.id).where(self._mine(db.reads), read.at < before)
        old = old.order_by(read.at, read.id).limit(limit)
        return self._change(delete(db.reads).where(self._mine(db.reads), read.id.in_(old)))

    # --- answers

    def answer(self, key: str) -> StoredAnswer | None:
        return self._value_of(_ANSWERS, key=key)

    def put_answer(self, answer: StoredAnswer) -> None:
        if not self._insert_one(db.answers, **_ANSWERS.to_row(answer), at=self._now()):
            raise IdempotencyConflict(f"the request {answer.key} has been answered already")

    def drop_answers(self, before: float, limit: int) -> int:
        return self._drop(db.answers, db.answers.c.key, db.answers.c.at < before, limit)
