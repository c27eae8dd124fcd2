"""Memory: traces and their fragments, build traces, memos. Does not belong here: tasks that are still to be done."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, Select, Text, delete, literal, select, update

from controlplane.core.model.memos import Memo, Memos
from controlplane.core.model.retention import Files, Stored
from controlplane.core.model.tasks import Fragment, StoredFile, Trace
from controlplane.store.rules import firsts
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, built_once, chunks, dump
from controlplane.store.sql.file_texts import stored_files
from dataplane.contract.identity import MASK, Content
from dataplane.contract.schemas import Schema

_FILES_OF_ONE = built_once(db.fragments, "id").with_only_columns(db.fragments.c.id, db.fragments.c.files)


class SqlTraces(Part):
    """New traces are written when the transaction ends, or somebody asks for them: their numbers then grow in the order
    in which transactions become visible, and the counter is held for a moment only."""

    _new_traces: list[tuple[Sequence[Trace], Sequence[Fragment]]]

    def traces(self, keys: Sequence[bytes]) -> dict[bytes, Trace]:
        self._write_traces()
        return self._hits(keys)

    def put_traces(self, traces: Sequence[Trace], fragments: Sequence[Fragment]) -> None:
        self._new_traces.append((traces, fragments))

    def last_trace(self) -> int:
        self._write_traces()
        return self._counted("traces")

    def fragments(self, ids: Iterable[bytes]) -> dict[bytes, Fragment]:
        self._write_traces()
        rows = list(self._among(self._select(db.fragments), db.fragments.c.id, ids))
        schemas = self._schemas(row.schema for row in rows)
        return {row.id: _fragment(row, schemas) for row in rows}

    def stored_files(self, ids: Iterable[bytes]) -> dict[bytes, tuple[StoredFile, ...]]:
        self._write_traces()
        column, ids = db.fragments.c, list(ids)
        if len(ids) == 1:
            one = self._row_of(_FILES_OF_ONE, id=ids[0])
            return {} if one is None else {one.id: stored_files(one.files)}
        found = self._among(select(column.id, column.files).where(self._mine(db.fragments)), column.id, ids)
        return {row.id: stored_files(row.files) for row in found}

    def put_profiles(self, bodies: Mapping[bytes, bytes]) -> None:
        self._insert(db.profiles, [{"id": id, "body": body} for id, body in bodies.items()])

    def profiles(self, ids: Iterable[bytes]) -> dict[bytes, bytes]:
        return {row.id: bytes(row.body) for row in self._among(self._select(db.profiles), db.profiles.c.id, ids)}

    def referenced_attempts(self, ids: Sequence[str]) -> frozenset[str]:
        self._write_traces()
        live = select(db.attempts.c.id).where(self._mine(db.attempts))
        kept = select(db.fragments.c.attempt).where(self._mine(db.fragments), db.fragments.c.status != "deleted")
        left = select(db.leftovers.c.attempt).where(self._mine(db.leftovers))
        by_column = {db.attempts.c.id: live, db.fragments.c.attempt: kept, db.leftovers.c.attempt: left}
        return frozenset(row[0] for column, of in by_column.items() for row in self._among(of.distinct(), column, ids))

    def stored(self, fragments: Iterable[bytes]) -> dict[bytes, Stored]:
        self._write_traces()
        row = db.fragments.c
        wanted = select(row.id, row.status, row.rows, row.sum1, row.sum2).where(self._mine(db.fragments))
        found = self._among(wanted, row.id, fragments)
        return {f.id: Stored(f.status, _content(f)) for f in found}

    def condemn(self, fragments: Sequence[bytes]) -> None:
        self._write_traces()
        stored = update(db.fragments).where(self._mine(db.fragments, status="stored")).values(status="condemned")
        self._change_among(stored, db.fragments.c.id, fragments)

    def files(self) -> Iterator[Files]:
        self._write_traces()
        row = db.fragments.c
        wanted = select(row.id, row.attempt, row.files).where(self._mine(db.fragments, status="stored"))
        rows = self._paged(wanted, row.attempt, row.id)
        return (Files(f.id, f.attempt, tuple(json.loads(f.files))) for f in rows)

    def loose_outputs(self) -> Iterator[tuple[bytes, bytes]]:
        self._write_traces()
        output, fragment = db.outputs.c, db.fragments.c
        there = select(fragment.id).where(self._mine(db.fragments), fragment.id == output.fragment).exists()
        loose = select(output.task, output.suffix, output.fragment).where(self._mine(db.outputs), ~there)
        rows = self._paged(loose, output.task, output.suffix)
        return ((row.task, row.fragment) for row in rows)

    def footers(self) -> Iterator[tuple[str, str, Memo]]:
        task, memo = db.tasks.c, db.memos.c
        looks = select(task.key, task.dataset, task.partition, memo.value)
        looks = looks.where(self._mine(db.tasks, kind="footers"), self._mine(db.memos), memo.key == task.key)
        return ((row.dataset, row.partition, json.loads(row.value)) for row in self._paged(looks, task.key))

    def _write_traces(self) -> None:
        for traces, fragments in self._new_traces:
            self._store_traces(firsts((trace.task, trace) for trace in traces))
            self._store_fragments(firsts((fragment.id, fragment) for fragment in fragments))
        self._new_traces.clear()

    def _store_traces(self, traces: Sequence[Trace]) -> None:
        """Those that are no hits yet get the next numbers."""
        if not traces:
            return
        last = self._count("traces", 0)  # from here on nobody else writes traces
        hits = self._hits([trace.task for trace in traces])
        new = [trace for trace in traces if trace.task not in hits]
        self._count("traces", len(new))
        self._change_among(delete(db.outputs).where(self._mine(db.outputs)), db.outputs.c.task, [t.task for t in new])
        self._upsert(db.traces, [_trace_row(trace, last + 1 + i) for i, trace in enumerate(new)])
        self._insert(db.outputs, [row for trace in new for row in _output_rows(trace)])

    def _store_fragments(self, fragments: Sequence[Fragment]) -> None:
        schemas = self._put_schemas([f.schema for f in fragments])
        rows = [_fragment_row(f, schema) for f, schema in zip(fragments, schemas, strict=True)]
        self._upsert(db.fragments, rows, unless=db.fragments.c.status == "stored")

    def _hits(self, keys: Iterable[bytes]) -> dict[bytes, Trace]:
        rows: dict[bytes, list[Row[Any]]] = {}
        for row in self._among(self._with_outputs(), db.traces.c.task, keys):
            rows.setdefault(row.task, []).append(row)
        return {task: _trace(of) for task, of in rows.items() if all(row.is_there for row in of)}

    def _with_outputs(self) -> Select[Any]:
        """One row for each output of each trace, and one for a trace that has none."""
        trace, output, fragment = db.traces.c, db.outputs.c, db.fragments.c
        its = (output.namespace == trace.namespace) & (output.task == trace.task)
        stored = (fragment.namespace == output.namespace) & (fragment.id == output.fragment)
        is_there = (fragment.status == "stored").is_(True) | output.task.is_(None)
        content = (fragment.rows, fragment.sum1, fragment.sum2)
        columns = (trace.task, trace.seq, trace.by, trace.home, output.suffix, output.fragment, *content)
        return (
            select(*columns, is_there.label("is_there"))
            .select_from(db.traces)
            .outerjoin(db.outputs, its)
            .outerjoin(db.fragments, stored)
            .where(self._mine(db.traces))
        )

    # --- build traces and memos

    def remembered(
        self, builds: Iterable[bytes], memos: Iterable[bytes]
    ) -> tuple[dict[bytes, tuple[bytes, Schema]], dict[bytes, Memo]]:
        build, memo = db.build_traces.c, db.memos.c
        nothing, no_text = literal(None, type_=db.Blob), literal(None, type_=Text)
        roots = select(build.key, build.root, build.schema, no_text.label("value")).where(self._mine(db.build_traces))
        values = select(memo.key, nothing, nothing, memo.value).where(self._mine(db.memos))
        wanted = itertools.zip_longest(chunks(list(dict.fromkeys(builds))), chunks(list(dict.fromkeys(memos))))
        rows = [
            row
            for some, others in wanted
            for row in self._rows(
                roots.where(self._dialect.among(build.key, some or ())).union_all(
                    values.where(self._dialect.among(memo.key, others or ()))
                )
            )
        ]
        schemas = self._schemas(row.schema for row in rows if row.schema is not None)
        found = {row.key: (row.root, schemas[row.schema]) for row in rows if row.schema is not None}
        return found, {row.key: json.loads(row.value) for row in rows if row.schema is None}

    def put_build_trace(self, key: bytes, root: bytes, schema: Schema) -> None:
        (schema_id,) = self._put_schemas([schema])
        self._upsert(db.build_traces, [{"key": key, "root": root, "schema": schema_id, "at": self.now()}])

    def memos(self, keys: Iterable[bytes]) -> dict[bytes, Memo]:
        rows = self._among(self._select(db.memos), db.memos.c.key, keys)
        return {row.key: json.loads(row.value) for row in rows}

    def put_memo(self, key: bytes, value: Memo) -> None:
        self.put_memos({key: value})

    def put_memos(self, values: Memos) -> None:
        self._upsert(db.memos, [{"key": key, "value": dump(value)} for key, value in values.items()])

    def forget_memos(self, keys: Iterable[bytes]) -> None:
        self._change_among(delete(db.memos).where(self._mine(db.memos)), db.memos.c.key, keys)


def _trace(rows: Sequence[Row[Any]]) -> Trace:
    outputs = {row.suffix: row.fragment for row in rows if row.suffix is not None}
    contents = {row.suffix: _content(row) for row in rows if row.suffix is not None}
    return Trace(rows[0].task, outputs, rows[0].seq, rows[0].by, rows[0].home, contents)


def _content(row: Row[Any]) -> Content:
    return Content(row.rows, row.sum1 & MASK, row.sum2 & MASK)


def _trace_row(trace: Trace, seq: int) -> dict[str, Any]:
    return {"task": trace.task, "seq": seq, "by": trace.by, "home": trace.home}


def _output_rows(trace: Trace) -> list[dict[str, Any]]:
    return [{"task": trace.task, "suffix": suffix, "fragment": f} for suffix, f in trace.outputs.items()]


def _fragment(row: Row[Any], schemas: Mapping[bytes, Schema]) -> Fragment:
    return Fragment(
        id=row.id,
        schema=schemas[row.schema],
        content=_content(row),
        files=tuple(json.loads(row.files)),
        home=row.home,
        attempt=row.attempt,
        status=row.status,
    )


def _fragment_row(fragment: Fragment, schema: bytes) -> dict[str, Any]:
    return {
        "id": fragment.id,
        "schema": schema,
        "rows": fragment.content.rows,
        "sum1": _signed(fragment.content.sum1),
        "sum2": _signed(fragment.content.sum2),
        "files": dump(fragment.files),
        "home": fragment.home,
        "attempt": fragment.attempt,
        "status": fragment.status,
    }


def _signed(number: int) -> int:
    """64 bits as databases hold them."""
    return number - (1 << 64) if number >> 63 else number
