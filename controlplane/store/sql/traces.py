"""Memory: traces and their fragments, build traces, memos. Does not belong here: tasks that are
still to be done."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Row, Text, literal, select, union, update
from sqlalchemy import bindparam as bind

from controlplane.core.model.memos import Memo, Memos
from controlplane.core.model.retention import Files, Stored
from controlplane.core.model.tasks import Fragment, StoredFile, Trace
from controlplane.store.rules import firsts
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup, chunks
from controlplane.store.sql.file_texts import stored_files
from controlplane.store.sql.row_records import Record, dump
from controlplane.store.sql.statements import among, equal, one_of
from dataplane.contract.identity import MASK, Content
from dataplane.contract.schemas import Schema

_STORED_FRAGMENTS = Record(db.fragments, Fragment, schema=None, content=None)
_FRAGMENT, _TRACE, _OUTPUT = db.fragments.c, db.traces.c, db.outputs.c
_CONTENT = (_FRAGMENT.rows, _FRAGMENT.sum1, _FRAGMENT.sum2)
_FRAGMENTS = among(db.fragments, "id")
_FILES = select(_FRAGMENT.id, _FRAGMENT.files).where(_FRAGMENTS)
_STORED = select(_FRAGMENT.id, _FRAGMENT.status, *_CONTENT).where(_FRAGMENTS)
_CONDEMN = (
    update(db.fragments).where(_FRAGMENTS, _FRAGMENT.status == "stored").values(status="condemned")
)
_IS_STORED = _FRAGMENT.status == "stored"
_OF_TRACE = (_OUTPUT.namespace == _TRACE.namespace) & (_OUTPUT.task == _TRACE.task)
_OF_OUTPUT = (_FRAGMENT.namespace == _OUTPUT.namespace) & (_FRAGMENT.id == _OUTPUT.fragment)
_IS_THERE = (_IS_STORED.is_(True) | _OUTPUT.task.is_(None)).label("is_there")
# One row for each output of each trace, and one for a trace that has none.
_WITH_OUTPUTS = (
    select(
        _TRACE.task,
        _TRACE.seq,
        _TRACE.by,
        _TRACE.home,
        _OUTPUT.suffix,
        _OUTPUT.fragment,
        *_CONTENT,
        _IS_THERE,
    )
    .select_from(db.traces)
    .outerjoin(db.outputs, _OF_TRACE)
    .outerjoin(db.fragments, _OF_OUTPUT)
    .where(equal(db.traces), one_of(_TRACE.task))
)
_EXECUTED = select(_TRACE.task, _TRACE.home).where(
    equal(db.traces),
    one_of(_TRACE.task),
    _TRACE.by == "executed",
    _TRACE.seq > bind("after", type_=BigInteger),
)
_NO_DIGEST, _NO_TEXT = literal(None, type_=db.Blob), literal(None, type_=Text)
_BUILD, _MEMO = db.build_traces.c, db.memos.c
_REMEMBERED = (
    select(_BUILD.key, _BUILD.root, _BUILD.schema, _NO_TEXT.label("value"))
    .where(equal(db.build_traces), one_of(_BUILD.key, "builds"))
    .union_all(
        select(_MEMO.key, _NO_DIGEST, _NO_DIGEST, _MEMO.value).where(
            equal(db.memos), one_of(_MEMO.key, "memos")
        )
    )
)
_ATTEMPT, _LEFTOVER = db.attempts.c, db.leftovers.c
_REFERENCED = union(
    select(_ATTEMPT.id).where(equal(db.attempts), one_of(_ATTEMPT.id)),
    select(_FRAGMENT.attempt).where(
        equal(db.fragments), _FRAGMENT.status != "deleted", one_of(_FRAGMENT.attempt)
    ),
    select(_LEFTOVER.attempt).where(equal(db.leftovers), one_of(_LEFTOVER.attempt)),
)


class SqlTraces(TableGroup):
    """New traces are written when the transaction ends or reads traces: their numbers then grow in
    the order in which transactions become visible, and the counter is held for a moment only."""

    def __init__(self, transaction: OpenTransaction, flush: Callable[[], None]) -> None:
        super().__init__(transaction)
        self._flush = flush
        self._new_traces: list[tuple[Sequence[Trace], Sequence[Fragment]]] = []

    def hits(self, keys: Sequence[bytes]) -> dict[bytes, Trace]:
        self._write_traces()
        return self._hits(keys)

    def executed(self, keys: Iterable[bytes], after: int) -> dict[bytes, str]:
        self._write_traces()
        return {row.task: row.home for row in self._rows_by(_EXECUTED, keys, after=after)}

    def put(self, traces: Sequence[Trace], fragments: Sequence[Fragment]) -> None:
        self._new_traces.append((traces, fragments))

    def last(self) -> int:
        self._write_traces()
        return self._counted("traces")

    def fragments(self, ids: Iterable[bytes]) -> dict[bytes, Fragment]:
        self._write_traces()
        rows = list(self._rows_among(db.fragments, "id", ids))
        schemas = self._schemas(row.schema for row in rows)
        return {row.id: _fragment(row, schemas) for row in rows}

    def stored_files(self, ids: Iterable[bytes]) -> dict[bytes, tuple[StoredFile, ...]]:
        self._write_traces()
        return {row.id: stored_files(row.files) for row in self._rows_by(_FILES, ids)}

    def put_profiles(self, bodies: Mapping[bytes, bytes]) -> None:
        self._insert(db.profiles, [{"id": id, "body": body} for id, body in bodies.items()])

    def profiles(self, ids: Iterable[bytes]) -> dict[bytes, bytes]:
        return {row.id: bytes(row.body) for row in self._rows_among(db.profiles, "id", ids)}

    def referenced_attempts(self, ids: Sequence[str]) -> frozenset[str]:
        self._flush()  # the caller has nothing else to write
        return frozenset(row.id for row in self._rows_by(_REFERENCED, ids))

    def stored(self, fragments: Iterable[bytes]) -> dict[bytes, Stored]:
        self._write_traces()
        rows = self._rows_by(_STORED, fragments)
        return {row.id: Stored(row.status, _content(row)) for row in rows}

    def condemn(self, fragments: Sequence[bytes]) -> None:
        self._write_traces()
        self._change_by(_CONDEMN, fragments)

    def files(self) -> Iterator[Files]:
        self._write_traces()
        row = db.fragments.c
        statement = select(row.id, row.attempt, row.files).where(
            self._mine(db.fragments, status="stored")
        )
        rows = self._paged(statement, row.attempt, row.id)
        return (Files(f.id, f.attempt, tuple(json.loads(f.files))) for f in rows)

    def loose_outputs(self) -> Iterator[tuple[bytes, bytes]]:
        self._write_traces()
        output, fragment = db.outputs.c, db.fragments.c
        there = (
            select(fragment.id)
            .where(self._mine(db.fragments), fragment.id == output.fragment)
            .exists()
        )
        loose = select(output.task, output.suffix, output.fragment).where(
            self._mine(db.outputs), ~there
        )
        rows = self._paged(loose, output.task, output.suffix)
        return ((row.task, row.fragment) for row in rows)

    def footers(self) -> Iterator[tuple[str, str, Memo]]:
        task, memo = db.tasks.c, db.memos.c
        statement = select(task.key, task.dataset, task.partition, memo.value)
        statement = statement.where(
            self._mine(db.tasks, kind="footers"), self._mine(db.memos), memo.key == task.key
        )
        return (
            (row.dataset, row.partition, json.loads(row.value))
            for row in self._paged(statement, task.key)
        )

    def _write_traces(self) -> None:
        """Write them before the transaction ends, since it reads traces. What else waits is written
        with them: one statement raises all counters."""
        if self._new_traces:
            self._flush()

    def waiting(self) -> int:
        """How many numbers the new traces take, unless some of them are hits."""
        return sum(len({trace.task for trace in traces}) for traces, _ in self._new_traces)

    def store_traces(self, last: int) -> None:
        """`last`: the counter of traces, which was raised for all of them; from then on no other
        transaction writes traces. Those that are no hits yet get the next numbers."""
        first = last - self.waiting() + 1
        for traces, fragments in self._new_traces:
            first += self._store_new_traces(firsts((trace.task, trace) for trace in traces), first)
            self._store_fragments(firsts((fragment.id, fragment) for fragment in fragments))
        self._new_traces.clear()
        if first <= last:
            self._count("traces", first - 1 - last)

    def _store_new_traces(self, traces: Sequence[Trace], first: int) -> int:
        """How many were no hits."""
        inserted = self._insert(db.traces, _trace_rows(traces, first))
        new = traces if inserted == len(traces) else self._replace_traces(traces, first)
        self._insert(db.outputs, [row for trace in new for row in _output_rows(trace)])
        return len(new)

    def _replace_traces(self, traces: Sequence[Trace], first: int) -> Sequence[Trace]:
        """Some are there, with numbers below `first`: those whose outputs are gone are replaced.
        Returns those that were written."""
        there = {
            task: rows
            for task, rows in self._outputs([t.task for t in traces]).items()
            if rows[0].seq < first
        }
        new = [trace for trace in traces if not _is_hit(there.get(trace.task))]
        self._delete_among(db.outputs, "task", [trace.task for trace in new if trace.task in there])
        self._upsert(db.traces, _trace_rows(new, first))
        return new

    def _store_fragments(self, fragments: Sequence[Fragment]) -> None:
        schemas = self._put_schemas([f.schema for f in fragments])
        rows = [_fragment_row(f, schema) for f, schema in zip(fragments, schemas, strict=True)]
        self._upsert(db.fragments, rows, unless=_IS_STORED)

    def _hits(self, keys: Iterable[bytes]) -> dict[bytes, Trace]:
        return {task: _trace(rows) for task, rows in self._outputs(keys).items() if _is_hit(rows)}

    def _outputs(self, keys: Iterable[bytes]) -> dict[bytes, list[Row[Any]]]:
        """The outputs of each existing trace, or one row without."""
        outputs: dict[bytes, list[Row[Any]]] = {}
        for row in self._rows_by(_WITH_OUTPUTS, keys):
            outputs.setdefault(row.task, []).append(row)
        return outputs

    # --- build traces and memos

    def remembered(
        self, builds: Iterable[bytes], memos: Iterable[bytes]
    ) -> tuple[dict[bytes, tuple[bytes, Schema]], dict[bytes, Memo]]:
        chunk_pairs = itertools.zip_longest(
            chunks(list(dict.fromkeys(builds))), chunks(list(dict.fromkeys(memos)))
        )
        rows = [
            row
            for keys, others in chunk_pairs
            for row in self._rows(_REMEMBERED, builds=keys or (), memos=others or ())
        ]
        schemas = self._schemas(row.schema for row in rows if row.schema is not None)
        traces = {
            row.key: (row.root, schemas[row.schema]) for row in rows if row.schema is not None
        }
        return traces, {row.key: json.loads(row.value) for row in rows if row.schema is None}

    def put_build(self, key: bytes, root: bytes, schema: Schema) -> None:
        self.put_builds({key: (root, schema)})

    def put_builds(self, builds: Mapping[bytes, tuple[bytes, Schema]]) -> None:
        schemas = self._put_schemas([schema for _, schema in builds.values()])
        rows = zip(builds.items(), schemas, strict=True)
        self._upsert(
            db.build_traces,
            [
                {"key": key, "root": root, "schema": id, "at": self._now()}
                for (key, (root, _)), id in rows
            ],
        )

    def memos(self, keys: Iterable[bytes]) -> dict[bytes, Memo]:
        rows = self._rows_among(db.memos, "key", keys)
        return {row.key: json.loads(row.value) for row in rows}

    def put_memo(self, key: bytes, value: Memo) -> None:
        self.put_memos({key: value})

    def put_memos(self, values: Memos) -> None:
        self._upsert(
            db.memos, [{"key": key, "value": dump(value)} for key, value in values.items()]
        )

    def forget_memos(self, keys: Iterable[bytes]) -> None:
        self._delete_among(db.memos, "key", keys)


def _is_hit(rows: Sequence[Row[Any]] | None) -> bool:
    """Whether the trace is there, and all its outputs."""
    return rows is not None and all(row.is_there for row in rows)


def _trace(rows: Sequence[Row[Any]]) -> Trace:
    outputs = {row.suffix: row.fragment for row in rows if row.suffix is not None}
    contents = {row.suffix: _content(row) for row in rows if row.suffix is not None}
    return Trace(rows[0].task, outputs, rows[0].seq, rows[0].by, rows[0].home, contents)


def _content(row: Row[Any]) -> Content:
    return Content(row.rows, row.sum1 & MASK, row.sum2 & MASK)


def _trace_rows(traces: Sequence[Trace], first: int) -> list[dict[str, Any]]:
    return [
        {"task": t.task, "seq": first + i, "by": t.by, "home": t.home} for i, t in enumerate(traces)
    ]


def _output_rows(trace: Trace) -> list[dict[str, Any]]:
    return [
        {"task": trace.task, "suffix": suffix, "fragment": f} for suffix, f in trace.outputs.items()
    ]


def _fragment(row: Row[Any], schemas: Mapping[bytes, Schema]) -> Fragment:
    return _STORED_FRAGMENTS.from_row(row, schema=schemas[row.schema], content=_content(row))


def _fragment_row(fragment: Fragment, schema: bytes) -> dict[str, Any]:
    rows, sum1, sum2 = fragment.content
    content = {"rows": rows, "sum1": _signed(sum1), "sum2": _signed(sum2)}
    return _STORED_FRAGMENTS.to_row(fragment) | content | {"schema": schema}


def _signed(number: int) -> int:
    """64 bits as databases hold them."""
    return number - (1 << 64) if number >> 63 else number
