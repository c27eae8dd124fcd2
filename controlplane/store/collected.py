"""What collecting and checking ask: who holds on to which tree, what is old, what is loose; and dropping it in pieces.

Does not belong here: how long anything is kept (`operations.collect`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, Row, Select, Table, delete, func, select, tuple_
from sqlalchemy import bindparam as bind

from controlplane.core.kept import HOLDERS, Expired, Files, Holder, Pointer, Span, Stored
from controlplane.store import tables as db
from controlplane.store.part import Part
from dataplane.contract import MASK, Content

PAGE = 5_000  # rows fetched at a time
DRIVER_ONLY = '["driver"]'  # scopes of a token that a pool made


class Collected(Part):
    _is_writing: bool

    def _stream(self, statement: Select[Any], *keys: Column[Any]) -> Iterator[Row[Any]]:
        """The rows by page, in the order of these columns, which tell rows apart and are among those that are selected.

        No cursor is left open on the server, however far somebody reads.
        """
        page = statement.order_by(*keys).limit(PAGE)
        rows = self._rows(page)
        yield from rows
        while len(rows) == PAGE:
            last = (bind(None, rows[-1]._mapping[key], type_=key.type, unique=True) for key in keys)
            rows = self._rows(page.where(tuple_(*keys) > tuple_(*last)))
            yield from rows

    # --- collections of tree nodes

    def collections(self) -> int:
        if self._is_writing:
            self._dialect.lock_nodes(self._connection, self._namespace, alone=False)
        return self._counted("collections")

    def begin_collection(self) -> int:
        self._dialect.lock_nodes(self._connection, self._namespace, alone=True)
        self._count("collected", self.changes_since_collection())
        return self._count("collections", 1)

    def changes_since_collection(self) -> int:
        commits = select(func.coalesce(func.sum(db.heads.c.seq), 0)).where(self._mine(db.heads)).scalar_subquery()
        marks, collected = (self._counter(name) for name in ("marks", "collected"))
        return int(self._connection.execute(select(commits + marks - collected)).scalar_one())

    def _counter(self, name: str) -> ColumnElement[int]:
        found = select(db.counters.c.value).where(self._mine(db.counters, name=name))
        return func.coalesce(found.scalar_subquery(), 0)

    # --- what is in use

    def pointers(self, holders: Iterable[Holder] = HOLDERS) -> Iterator[Pointer]:
        reading: Mapping[Holder, Callable[[], Iterator[Pointer]]] = {
            "state": self._state_pointers,
            "input": self._input_pointers,
            "building": lambda: self._plain("building", db.buildings, db.buildings.c.dataset),
            "build": lambda: self._plain("build", db.build_traces, db.build_traces.c.key),
            "listing": lambda: self._plain("listing", db.listings, db.listings.c.id),
            "target": lambda: self._plain("target", db.targets, db.targets.c.component),
            "task": self._task_pointers,
            "publication": lambda: self._plain("publication", db.publications, db.publications.c.dataset),
        }
        for holder in holders:
            yield from reading[holder]()

    def _state_pointers(self) -> Iterator[Pointer]:
        s = db.states.c
        wanted = select(s.branch, s.dataset, s.seq, s.root, s.partitions, s.rows).where(self._mine(db.states))
        for row in self._stream(wanted, s.branch, s.dataset, s.seq):
            yield Pointer("state", row.dataset, row.root, row.branch, row.seq, row.partitions, row.rows)

    def _input_pointers(self) -> Iterator[Pointer]:
        for table in (db.states, db.buildings):
            of = table.c
            wanted = select(of.branch, of.dataset, of.inputs).where(self._mine(table))
            newest = wanted.join(db.heads, _is_newest()) if table is db.states else wanted
            for row in self._stream(newest, of.branch, of.dataset):
                for _, root, _ in json.loads(row.inputs).values():
                    yield Pointer("input", row.dataset, bytes.fromhex(root), row.branch)

    def _task_pointers(self) -> Iterator[Pointer]:
        job = db.jobs.c
        wanted = select(job.digest, job.body).where(self._mine(db.jobs), job.body.contains('"shared"'))
        for row in self._stream(wanted, job.digest):
            for root in json.loads(row.body).get("shared", {}).values():
                yield Pointer("task", row.digest.hex(), bytes.fromhex(root))

    def _plain(self, holder: Holder, table: Table, name: Column[Any]) -> Iterator[Pointer]:
        keys = [table.c.branch, name] if "branch" in table.c else [name]
        wanted = select(*keys, table.c.root).where(self._mine(table), table.c.root.is_not(None))
        for row in self._stream(wanted, *keys):
            named = row._mapping[name]
            text = named.hex() if isinstance(named, bytes) else named
            yield Pointer(holder, text, row.root, row.branch if len(keys) > 1 else "")

    # --- tree nodes

    def node_digests(self, after: bytes, limit: int) -> tuple[bytes, ...]:
        node = db.nodes.c
        page = select(node.digest).where(self._mine(db.nodes), node.digest > after).order_by(node.digest).limit(limit)
        return tuple(row.digest for row in self._rows(page))

    def drop_nodes(self, digests: Sequence[bytes], before: float) -> int:
        """Waits for nobody, so it cannot be in a deadlock with a transaction that puts several of these nodes."""
        node = db.nodes.c
        old = select(node.digest).where(self._mine(db.nodes), self._dialect.among(node.digest, digests))
        free = old.where(node.at < before).with_for_update(skip_locked=True)
        return self._change(delete(db.nodes).where(self._mine(db.nodes), node.digest.in_(free)))

    # --- history

    def spans(self) -> Iterator[Span]:
        newest, oldest = db.states.alias("newest"), db.states.alias("oldest")
        first = select(func.min(db.states.c.seq)).where(_of_head(db.states)).correlate(db.heads).scalar_subquery()
        wanted = (
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
        return (Span(*list(row)) for row in self._stream(wanted, db.heads.c.branch, db.heads.c.dataset))

    def drop_states(self, expired: Sequence[Expired]) -> int:
        state, head = db.states.c, db.heads.c
        newest = select(head.seq).where(_of_head(db.states)).correlate(db.states).scalar_subquery()
        old = self._mine(db.states) & (state.branch == bind("of_branch")) & (state.dataset == bind("of_dataset"))
        old &= (state.seq <= bind("up_to")) & (state.generation < bind("below")) & (state.at < bind("older"))
        rows = [
            {"of_branch": e.branch, "of_dataset": e.dataset, "up_to": e.seq, "below": e.generation, "older": e.before}
            for e in expired
        ]
        if not rows:
            return 0
        return self._connection.execute(delete(db.states).where(old, state.seq < newest), rows).rowcount

    def builds(self, before: float) -> Iterator[tuple[bytes, bytes]]:
        build = db.build_traces.c
        old = select(build.key, build.root).where(self._mine(db.build_traces), build.at < before)
        return ((row.key, row.root) for row in self._stream(old, build.key))

    def drop_builds(self, keys: Sequence[bytes], before: float) -> int:
        build = db.build_traces.c
        return self._change_among(
            delete(db.build_traces).where(self._mine(db.build_traces), build.at < before), build.key, keys
        )

    # --- what piles up beside

    def drop_done(self, limit: int) -> int:
        self._dialect.lock_queue(self._connection, self._namespace)  # nobody begins to want one of them meanwhile
        task, demand, attempt, job = db.tasks.c, db.demands.c, db.attempts.c, db.jobs.c
        is_demanded = select(demand.task).where(self._mine(db.demands), demand.task == task.key).exists()
        is_held = select(attempt.id).where(self._mine(db.attempts), attempt.id == task.attempt).exists()
        is_wanted = select(task.key).where(self._mine(db.tasks), task.job == job.digest).exists()
        is_tried = select(attempt.id).where(self._mine(db.attempts), attempt.job == job.digest).exists()
        done = self._mine(db.tasks, state="done") & ~is_demanded & ~is_held
        return self._drop(db.tasks, task.key, done, limit) + self._drop(
            db.jobs, job.digest, ~is_wanted & ~is_tried, limit
        )

    def _drop(self, table: Table, key: Column[Any], which: ColumnElement[bool], limit: int) -> int:
        some = select(key).where(self._mine(table), which).limit(limit)
        return self._change(delete(table).where(self._mine(table), key.in_(some)))

    def drop_events(self, before: float, limit: int) -> int:
        event = db.events.c
        oldest = select(event.id, event.at).where(self._mine(db.events)).order_by(event.id).limit(limit + 1)
        rows = self._rows(oldest)
        stays = next((i for i, row in enumerate(rows) if row.at >= before), len(rows))
        if stays == 0:
            return 0
        return self._change(delete(db.events).where(self._mine(db.events), event.id <= rows[min(stays, limit) - 1].id))

    def drop_answers(self, before: float, limit: int) -> int:
        return self._drop(db.answers, db.answers.c.key, db.answers.c.at < before, limit)

    def drop_drivers(self, before: float, limit: int) -> int:
        driver, token = db.drivers.c, db.tokens.c
        ended = self._mine(db.drivers, ended=True) & (driver.seen < before)
        gone = [row.id for row in self._rows(select(driver.id).where(ended).limit(limit))]
        over = (token.expires < before) | self._dialect.among(token.subject, gone)
        tokens = self._drop(db.tokens, token.id, (token.scopes == DRIVER_ONLY) & over, 2 * limit)
        return tokens + self._change_among(delete(db.drivers).where(ended), driver.id, gone)

    # --- what is checked

    def stored(self, fragments: Iterable[bytes]) -> dict[bytes, Stored]:
        row = db.fragments.c
        wanted = select(row.id, row.status, row.rows, row.sum1, row.sum2).where(self._mine(db.fragments))
        found = self._among(wanted, row.id, fragments)
        return {f.id: Stored(f.status, Content(f.rows, f.sum1 & MASK, f.sum2 & MASK)) for f in found}

    def files(self) -> Iterator[Files]:
        row = db.fragments.c
        wanted = select(row.id, row.attempt, row.files).where(self._mine(db.fragments, status="stored"))
        rows = self._stream(wanted, row.attempt, row.id)
        return (Files(f.id, f.attempt, tuple(json.loads(f.files))) for f in rows)

    def loose_heads(self) -> Iterator[tuple[str, str, int]]:
        head = db.heads.c
        there = select(db.states.c.seq).where(_is_newest()).correlate(db.heads).exists()
        loose = select(head.branch, head.dataset, head.seq).where(self._mine(db.heads), ~there)
        rows = self._stream(loose, head.branch, head.dataset)
        return ((row.branch, row.dataset, row.seq) for row in rows)

    def loose_outputs(self) -> Iterator[tuple[bytes, bytes]]:
        output, fragment = db.outputs.c, db.fragments.c
        there = select(fragment.id).where(self._mine(db.fragments), fragment.id == output.fragment).exists()
        loose = select(output.task, output.suffix, output.fragment).where(self._mine(db.outputs), ~there)
        rows = self._stream(loose, output.task, output.suffix)
        return ((row.task, row.fragment) for row in rows)


def _of_head(states: FromClause) -> ColumnElement[bool]:
    """States of the dataset that a head is of."""
    head = db.heads.c
    found: ColumnElement[bool] = states.c.namespace == head.namespace
    return found & (states.c.branch == head.branch) & (states.c.dataset == head.dataset)


def _is_newest() -> ColumnElement[bool]:
    return _of_head(db.states) & (db.states.c.seq == db.heads.c.seq)
