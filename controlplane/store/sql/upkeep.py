"""Queries of the collection: which trees are referenced, which rows are old, where packs came from;
and dropping them in pieces.

Does not belong here: how long anything is kept (`operations.upkeep.collect`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, Table, delete, func, select
from sqlalchemy import bindparam as bind

from controlplane.core.model.jobs import roots_in
from controlplane.core.model.pack_origins import Origin, PendingDeletion
from controlplane.core.model.retention import HOLDERS, Expired, Pointer, PointerKind, Span
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record
from controlplane.store.sql.snapshots import is_held
from controlplane.store.sql.statements import one_of

_ORIGINS = Record(db.pack_origins, Origin)
_LEFTOVERS = Record(db.leftovers, PendingDeletion)


class SqlUpkeep(TableGroup):
    # --- collections of tree nodes

    def collections(self) -> int:
        if self._transaction.is_writing:
            self._dialect.lock_nodes(self._connection, self._namespace, alone=False)
        rows = self._rows_among(db.counters, "name", ["collections", "marks"])
        self._transaction.counters = {row.name: row.value for row in rows}
        return self._transaction.counters.get("collections", 0)

    def begin_collection(self) -> int:
        self._dialect.lock_nodes(self._connection, self._namespace, alone=True)
        self._count("collected", self.changes_since_collection())
        return self._count("collections", 1)

    def changes_since_collection(self) -> int:
        commits = (
            select(func.coalesce(func.sum(db.heads.c.seq), 0))
            .where(self._mine(db.heads))
            .scalar_subquery()
        )
        marks, collected = (self._counter(name) for name in ("marks", "collected"))
        return int(self._connection.execute(select(commits + marks - collected)).scalar_one())

    def _counter(self, name: str) -> ColumnElement[int]:
        number = select(db.counters.c.value).where(self._mine(db.counters, name=name))
        return func.coalesce(number.scalar_subquery(), 0)

    # --- references

    def pointers(self, holders: Iterable[PointerKind] = HOLDERS) -> Iterator[Pointer]:
        reading: Mapping[PointerKind, Callable[[], Iterator[Pointer]]] = {
            "state": self._state_pointers,
            "input": self._input_pointers,
            "building": lambda: self._plain("building", db.buildings, db.buildings.c.dataset),
            "build": lambda: self._plain("build", db.build_traces, db.build_traces.c.key),
            "listing": lambda: self._plain("listing", db.listings, db.listings.c.id),
            "target": lambda: self._plain("target", db.targets, db.targets.c.component),
            "task": self._task_pointers,
            "publication": lambda: self._plain(
                "publication", db.publications, db.publications.c.dataset
            ),
        }
        for holder in holders:
            yield from reading[holder]()

    def _state_pointers(self) -> Iterator[Pointer]:
        s = db.states.c
        statement = select(s.branch, s.dataset, s.seq, s.root, s.partitions, s.rows).where(
            self._mine(db.states)
        )
        for row in self._paged(statement, s.branch, s.dataset, s.seq):
            yield Pointer(
                "state",
                row.dataset,
                row.root,
                branch=row.branch,
                number=row.seq,
                partitions=row.partitions,
                rows=row.rows,
            )

    def _input_pointers(self) -> Iterator[Pointer]:
        for table in (db.states, db.buildings):
            of = table.c
            statement = select(of.branch, of.dataset, of.inputs).where(self._mine(table))
            newest = statement.join(db.heads, _is_newest()) if table is db.states else statement
            for row in self._paged(newest, of.branch, of.dataset):
                for _, root, *_ in json.loads(row.inputs).values():
                    yield Pointer("input", row.dataset, bytes.fromhex(root), row.branch)
        unfinished = db.unfinished.c
        for row in self._paged(
            select(unfinished.branch, unfinished.dataset, unfinished.cut).where(
                self._mine(db.unfinished)
            ),
            unfinished.branch,
            unfinished.dataset,
        ):
            # Of a read component; states hold on to theirs
            if listed := json.loads(row.cut).get(row.dataset):
                yield Pointer("input", row.dataset, bytes.fromhex(listed), row.branch)

    def _task_pointers(self) -> Iterator[Pointer]:
        job = db.jobs.c
        statement = select(job.digest, job.body).where(
            self._mine(db.jobs), job.body.contains('"shared"')
        )
        for row in self._paged(statement, job.digest):
            for root in roots_in(json.loads(row.body)):
                yield Pointer("task", row.digest.hex(), bytes.fromhex(root))

    def _plain(self, holder: PointerKind, table: Table, name: Column[Any]) -> Iterator[Pointer]:
        keys = [table.c.branch, name] if "branch" in table.c else [name]
        statement = select(*keys, table.c.root).where(self._mine(table), table.c.root.is_not(None))
        for row in self._paged(statement, *keys):
            named = row._mapping[name]
            text = named.hex() if isinstance(named, bytes) else named
            yield Pointer(holder, text, row.root, row.branch if len(keys) > 1 else "")

    # --- tree nodes

    def node_digests(self, after: bytes, limit: int) -> tuple[bytes, ...]:
        node = db.nodes.c
        page = (
            select(node.digest)
            .where(self._mine(db.nodes), node.digest > after)
            .order_by(node.digest)
            .limit(limit)
        )
        return tuple(row.digest for row in self._rows(page))

    def drop_nodes(self, digests: Sequence[bytes], before: float) -> int:
        """Skips locked rows, so it cannot deadlock with a transaction that puts several of these
        nodes."""
        node = db.nodes.c
        old = select(node.digest).where(self._mine(db.nodes), one_of(node.digest))
        free = old.where(node.at < before).with_for_update(skip_locked=True)
        free_digests = [row.digest for row in self._rows(free, keys=digests)]
        self._delete_among(db.profiles, "id", free_digests)
        return self._change_among(
            delete(db.nodes).where(self._mine(db.nodes)), node.digest, free_digests
        )

    # --- history

    def spans(self) -> Iterator[Span]:
        newest, oldest = db.states.alias("newest"), db.states.alias("oldest")
        loose = _of_head(db.states) & ~is_held()
        first = select(func.min(db.states.c.seq)).where(loose).correlate(db.heads).scalar_subquery()
        statement = (
            select(
                db.heads.c.branch,
                db.heads.c.dataset,
                db.heads.c.seq,
                newest.c.generation,
                oldest.c.seq.label("oldest_seq"),
                oldest.c.generation.label("oldest_generation"),
                oldest.c.at.label("oldest_at"),
            )
            .join(newest, _of_head(newest) & (newest.c.seq == db.heads.c.seq))
            .join(oldest, _of_head(oldest) & (oldest.c.seq == first))
            .where(self._mine(db.heads))
        )
        return (
            Span(*list(row))
            for row in self._paged(statement, db.heads.c.branch, db.heads.c.dataset)
        )

    def drop_states(self, expired: Sequence[Expired]) -> int:
        state, head = db.states.c, db.heads.c
        newest = select(head.seq).where(_of_head(db.states)).correlate(db.states).scalar_subquery()
        old = (
            self._mine(db.states)
            & (state.branch == bind("of_branch"))
            & (state.dataset == bind("of_dataset"))
        )
        old &= (
            (state.seq <= bind("up_to"))
            & (state.generation < bind("below"))
            & (state.at < bind("older"))
        )
        rows = [
            {
                "of_branch": e.branch,
                "of_dataset": e.dataset,
                "up_to": e.seq,
                "below": e.generation,
                "older": e.before,
            }
            for e in expired
        ]
        if not rows:
            return 0
        return self._connection.execute(
            delete(db.states).where(old, state.seq < newest, ~is_held()), rows
        ).rowcount

    def builds(self, before: float) -> Iterator[tuple[bytes, bytes]]:
        build = db.build_traces.c
        old = select(build.key, build.root).where(self._mine(db.build_traces), build.at < before)
        return ((row.key, row.root) for row in self._paged(old, build.key))

    def drop_builds(self, keys: Sequence[bytes], before: float) -> int:
        build = db.build_traces.c
        return self._change_among(
            delete(db.build_traces).where(self._mine(db.build_traces), build.at < before),
            build.key,
            keys,
        )

    # --- packs that are no longer needed

    def put_origins(self, origins: Sequence[Origin]) -> None:
        self._put(_ORIGINS, origins)

    def origins(self) -> Iterator[Origin]:
        rows = self._paged(self._select(db.pack_origins), db.pack_origins.c.pack)
        return _ORIGINS.from_rows(rows)

    def drop_packs(self, packs: Sequence[bytes]) -> None:
        for column in (db.pack_origins.c.pack, db.fragments.c.id):
            self._change_among(delete(column.table).where(self._mine(column.table)), column, packs)

    def put_leftovers(self, leftovers: Sequence[PendingDeletion]) -> None:
        self._put(_LEFTOVERS, leftovers)

    def leftovers(self, due: float, limit: int) -> tuple[PendingDeletion, ...]:
        of = db.leftovers.c
        old = (
            self._select(db.leftovers).where(of.due <= due).order_by(of.due, of.folder).limit(limit)
        )
        return tuple(_LEFTOVERS.from_rows(self._rows(old)))

    def drop_leftovers(self, folders: Sequence[str]) -> None:
        self._delete_among(db.leftovers, "folder", folders)

    # --- what piles up beside

    def drop_done(self, limit: int) -> int:
        # No new demand of one of them meanwhile
        self._dialect.lock_queue(self._connection, self._namespace)
        task, demand, attempt, job = db.tasks.c, db.demands.c, db.attempts.c, db.jobs.c
        is_demanded = (
            select(demand.task).where(self._mine(db.demands), demand.task == task.key).exists()
        )
        is_held = (
            select(attempt.id).where(self._mine(db.attempts), attempt.id == task.attempt).exists()
        )
        is_wanted = select(task.key).where(self._mine(db.tasks), task.job == job.digest).exists()
        is_tried = (
            select(attempt.id).where(self._mine(db.attempts), attempt.job == job.digest).exists()
        )
        done = self._mine(db.tasks, state="done") & ~is_demanded & ~is_held
        return self._drop(db.tasks, task.key, done, limit) + self._drop(
            db.jobs, job.digest, ~is_wanted & ~is_tried, limit
        )

    # --- checks

    def loose_heads(self) -> Iterator[tuple[str, str, int]]:
        head = db.heads.c
        there = select(db.states.c.seq).where(_is_newest()).correlate(db.heads).exists()
        loose = select(head.branch, head.dataset, head.seq).where(self._mine(db.heads), ~there)
        rows = self._paged(loose, head.branch, head.dataset)
        return ((row.branch, row.dataset, row.seq) for row in rows)


def _of_head(states: FromClause) -> ColumnElement[bool]:
    """States of the dataset that a head is of."""
    head = db.heads.c
    in_namespace: ColumnElement[bool] = states.c.namespace == head.namespace
    return in_namespace & (states.c.branch == head.branch) & (states.c.dataset == head.dataset)


def _is_newest() -> ColumnElement[bool]:
    return _of_head(db.states) & (db.states.c.seq == db.heads.c.seq)
