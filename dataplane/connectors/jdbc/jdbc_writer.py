"""A copy of a dataset in a table, kept partition by partition, each in one transaction that also
notes it.

Rows go to a temporary table first, so that the transaction is short; they are found again by the
columns of the partition key, or by a column `_partition` that is added. Values in statements are
literals: among parameters, a % in a name would be taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import Connection, sql

from dataplane.connectors.files.marker import target_gone
from dataplane.connectors.jdbc.jdbc_connection import connected, in_words, names_of
from dataplane.connectors.jdbc.sync_table import Notes
from dataplane.connectors.jdbc.table_layout import PARTITION, Layout, column_types, identifiers
from dataplane.contract.claims import WriteTask
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import WriteJob
from dataplane.contract.keys import column_texts
from dataplane.contract.results import WriteAnswer
from dataplane.contract.schemas import Schema, column_names, field_of, struct_of
from dataplane.fragments.arrow import arrow_schema, batches, flat
from dataplane.storage.lake import Lake
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

STAGE = sql.Identifier("pg_temp", "_headgate_stage")


@contextmanager
def writing(job: WriteJob, lake: Lake) -> Iterator[Callable[[WriteTask], WriteAnswer]]:
    """The function that runs the `write` tasks of a claim, over one connection."""
    with connected(job) as connection:
        target = _opened(connection, job)

        def write(task: WriteTask) -> WriteAnswer:
            with in_words():
                return target.write(task, lake)

        yield write


def _opened(connection: Connection[Any], job: WriteJob) -> TargetTable:
    """The table, made if there is none. TaskFailure where it is another's, or was to be there and
    is not."""
    *above, table = names_of(job["settings"]["table"])
    schema = above[0] if above else _current_schema(connection)
    notes = Notes(connection, schema, table, job["owner"])
    layout, policy = Layout.of(job), job["settings"]["schema_change"]
    target = TargetTable(
        connection, notes, sql.Identifier(schema, table), layout, job["schema"], policy
    )
    with connection.transaction():
        note = notes.open()
        if note is None and job.get("goes_on"):
            raise target_gone(notes.name)
        if note is None:
            target.take()
        elif not target.exists():
            raise TaskFailure(
                "target-missing", f"{notes.name} is not there any more. {notes.release}"
            )
    return target


def _current_schema(connection: Connection[Any]) -> str:
    [(name,)] = connection.execute("SELECT current_schema()").fetchall()
    if name is None:
        raise TaskFailure(
            "table-missing", "no schema of the search path is there: write schema.table"
        )
    return str(name)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table that is ours. Every method may be repeated."""

    connection: Connection[Any]
    notes: Notes
    table: sql.Identifier
    layout: Layout
    schema: Schema
    policy: str

    # --- the table --------------------------------------------------------------------------------

    def exists(self) -> bool:
        [(table_id,)] = self.connection.execute(
            "SELECT to_regclass(%s)", (self.table.as_string(self.connection),)
        ).fetchall()
        return table_id is not None

    def take(self) -> None:
        """A table that is there already is taken only while it is empty and has the columns that we
        would give it."""
        if self.exists():
            if self.connection.execute(
                sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self.table)
            ).fetchone():
                message = f"{self.notes.name} holds rows that Headgate did not write: empty it, or name another table"
                raise TaskFailure("target-occupied", message)
            self._compare(self.layout.all_columns)
        else:
            self._create()
        self.notes.laid_out(0, self.layout.text)

    def _create(self) -> None:
        for statement in self.layout.create(self.table):
            self.connection.execute(statement)

    def _compare(self, columns: Sequence[str]) -> None:
        """Values of another type would be converted, and some of them rounded, by the server."""
        self._empty_stage()
        has, expected = (column_types(self.connection, table) for table in (self.table, STAGE))
        expected.setdefault(PARTITION, "text")
        if lacking := [c for c in columns if c not in has]:
            raise TaskFailure(
                "target-schema-changed", f"{self.notes.name} has no column {', '.join(lacking)}"
            )
        if other := [
            f"{c} is {has[c]}, not {expected[c]}" for c in columns if has[c] != expected[c]
        ]:
            raise TaskFailure(
                "target-schema-changed", f"{self.notes.name} has other columns: {', '.join(other)}"
            )

    def _empty_stage(self) -> None:
        self.connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(STAGE))
        self.connection.execute(self.layout.stage(STAGE))

    def _fit(self, generation: int) -> None:
        """The table as the dataset's columns are now, as far as the policy allows."""
        note = self.notes.hold()
        if note.layout == self.layout.text:
            return
        self.notes.require(note.generation, generation)
        before = Layout.from_text(note.layout or "")
        added = self.layout.added(before)
        if self.policy == "recreate":
            self.connection.execute(sql.SQL("DROP TABLE {}").format(self.table))
            self._create()
        elif self.policy == "alter" and added is not None:
            for name, kind in added:
                self.connection.execute(self.layout.add(self.table, name, kind))
            self._compare([name for name, _ in added])
        else:
            message = f"{self.notes.name} has other columns than the dataset: {self.layout.differences(before)}"
            raise TaskFailure("target-schema-changed", f"{message}; schema_change is {self.policy}")
        self.notes.laid_out(generation, self.layout.text)

    # --- partitions -------------------------------------------------------------------------------

    def write(self, task: WriteTask, lake: Lake) -> WriteAnswer:
        """One partition, all or nothing. Result: `{rows, bytes}`."""
        partition, generation, is_gone = (
            task["partition"],
            task.get("generation", 0),
            task.get("remove", False),
        )
        with self.connection.transaction():
            self._fit(generation)
        self._stage([] if is_gone else [lake.open(path) for path in task["files"]])
        failpoint("jdbc-staged")
        with self.connection.transaction():
            if self.notes.hold().layout != self.layout.text:
                raise TaskFailure(
                    "target-ahead", f"{self.notes.name} has other columns by now", "infrastructure"
                )
            self.notes.fence(partition, generation)
            self._delete(partition)
            failpoint("jdbc-deleted")
            self._insert(partition, self._later(partition, generation))
            rows = self._count()
            self.notes.synced(partition, generation, rows)
            failpoint("jdbc-written")
        failpoint("jdbc-committed")
        return {"rows": rows, "bytes": 0}

    def _stage(self, files: Sequence[Any]) -> None:
        self._empty_stage()
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(STAGE, self._names)
        with self.connection.cursor() as cursor, cursor.copy(copy) as into:
            for batch in batches(files, arrow_schema(self.schema)):
                into.write(as_csv(batch, self.schema))

    @property
    def _names(self) -> sql.Composable:
        return identifiers(column_names(self.schema))

    def _count(self) -> int:
        [(rows,)] = self.connection.execute(
            sql.SQL("SELECT count(*) FROM {}").format(STAGE)
        ).fetchall()
        return int(rows)

    def _delete(self, partition: str) -> None:
        """The rows that the partition had; where rows are merged, those that it has no more."""
        query = sql.SQL("DELETE FROM {} AS t WHERE {}").format(self.table, self._rows_of(partition))
        if self.layout.key:
            query += sql.SQL(" AND NOT EXISTS (SELECT 1 FROM {} AS s WHERE {})").format(
                STAGE, self.layout.same_key
            )
        self.connection.execute(query)

    def _rows_of(self, partition: str) -> sql.Composable:
        if not self.layout.keyed:
            return sql.SQL("t.{} = {}").format(sql.Identifier(PARTITION), partition)
        texts = column_texts(partition)
        if len(texts) != len(self.layout.keyed):  # of a dataset that was partitioned in another way
            return sql.SQL("false")
        parts = [
            sql.SQL("t.{} IS NULL" if text is None else "t.{} = {}").format(
                sql.Identifier(column), text
            )
            for column, text in zip(self.layout.keyed, texts, strict=True)
        ]
        return sql.SQL(" AND ").join(parts)

    def _later(self, partition: str, generation: int) -> list[str]:
        """Other partitions that hold rows of the same keys since a later generation: those rows
        moved there."""
        if not self.layout.key:
            return []
        query = sql.SQL(
            "SELECT DISTINCT t.{0} FROM {1} AS t JOIN {2} AS s ON {3} WHERE t.{0} <> {4}"
        ).format(sql.Identifier(PARTITION), self.table, STAGE, self.layout.same_key, partition)
        others = [str(name) for (name,) in self.connection.execute(query).fetchall()]
        return [name for name in others if self.notes.generation_of(name) > generation]

    def _insert(self, partition: str, later: list[str]) -> None:
        is_added = not self.layout.keyed
        parts = {
            "table": self.table,
            "columns": self._names,
            "more": sql.SQL(', "_partition"' if is_added else ""),
            "value": sql.SQL(", {}" if is_added else "").format(partition),
            "stage": STAGE,
            "merging": self.layout.merging(later),
        }
        query = sql.SQL(
            "INSERT INTO {table} AS t ({columns}{more}) SELECT {columns}{value} FROM {stage}{merging}"
        )
        self.connection.execute(query.format(**parts))


# --- rows -----------------------------------------------------------------------------------------


def as_csv(batch: pa.RecordBatch, schema: Schema) -> bytes:
    """Rows as COPY reads them: NULL is nothing at all, an empty text is quoted."""
    import pyarrow as pa
    from pyarrow import csv

    texts = struct_of(
        field_of(f["name"], "string") if f["type"] == "binary" else f for f in schema["fields"]
    )
    columns = [_hexadecimal(c) if pa.types.is_binary(c.type) else c for c in batch.columns]
    flattened = flat(pa.record_batch(columns, names=batch.schema.names), texts)
    into = pa.BufferOutputStream()
    csv.write_csv(pa.Table.from_batches([flattened]), into, csv.WriteOptions(include_header=False))
    return bytes(into.getvalue())


def _hexadecimal(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(
        [None if v is None else f"\\x{v.hex()}" for v in column.to_pylist()], pa.string()
    )
