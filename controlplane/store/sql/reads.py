"""Reads of data. Does not belong here: changes, which the same audit lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, select

from controlplane.core.model.reads import Read
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump


class SqlReads(Part):
    def put_reads(self, reads: Sequence[Read]) -> None:
        if reads:
            first = self._count("reads", len(reads)) - len(reads) + 1
            self._insert(db.reads, [_read_row(first + i, read) for i, read in enumerate(reads)])

    def reads(
        self, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
    ) -> tuple[Read, ...]:
        named = {} if branch is None else {"branch": branch}
        told = self._select(db.reads, **named).where(db.reads.c.at >= since)
        if until is not None:
            told = told.where(db.reads.c.at < until)
        return tuple(_read(row) for row in self._rows(told.order_by(db.reads.c.id.desc()).limit(limit)))

    def drop_reads(self, before: float, limit: int) -> int:
        read = db.reads.c
        old = select(read.id).where(self._mine(db.reads), read.at < before).order_by(read.at, read.id).limit(limit)
        return self._change(delete(db.reads).where(self._mine(db.reads), read.id.in_(old)))


def _read(row: Row[Any]) -> Read:
    return Read(
        row.actor,
        row.request_id,
        row.how,
        branch=row.branch,
        dataset=row.dataset,
        at=row.at,
        times=row.times,
        bytes=row.bytes,
        what=json.loads(row.what),
    )


def _read_row(number: int, read: Read) -> dict[str, Any]:
    return {
        "id": number,
        "actor": read.actor,
        "request_id": read.request_id,
        "how": read.how,
        "branch": read.branch,
        "dataset": read.dataset,
        "at": read.at,
        "times": read.times,
        "bytes": read.bytes,
        "what": dump(dict(read.what)),
    }
