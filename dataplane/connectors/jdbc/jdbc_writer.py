"""A copy of a dataset in a table, kept partition by partition, each in one transaction that also
notes it.

Rows go to a temporary table first, so that the transaction is short; they are found again by the
columns of the partition key, or by a column `_partition` that is added. With `mode: append` rows
are never found again: the note has their version, and other rows of the same partition are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dataplane.connectors.files.marker import target_gone
from dataplane.connectors.jdbc.dialect import DatabaseSession
from dataplane.connectors.jdbc.jdbc_connection import address, connected, in_words
from dataplane.connectors.jdbc.jdbc_listing import Table, objects
from dataplane.connectors.jdbc.sync_table import REMAKING, AppendedRows, Notes
from dataplane.connectors.jdbc.table_layout import PARTITION, Layout
from dataplane.connectors.jdbc.writable_dialect import MergedRows, WritableDialect, writable
from dataplane.contract.claims import WriteTask
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import WriteJob
from dataplane.contract.keys import column_texts
from dataplane.contract.results import WriteAnswer
from dataplane.contract.schemas import Schema, column_names
from dataplane.fragments.arrow import arrow_schema, batches
from dataplane.storage.lake import Lake
from dataplane.task_failures import TaskFailure


@contextmanager
def writing(job: WriteJob, lake: Lake) -> Iterator[Callable[[WriteTask], WriteAnswer]]:
    """The function that runs the `write` tasks of a claim, over one connection."""
    place = address(job)
    dialect = writable(place.dialect)
    with connected(place) as session:
        target = opened(session, dialect, job)

        def write(task: WriteTask) -> WriteAnswer:
            with in_words(dialect):
                return target.write(task, lake)

        yield write


def opened(session: DatabaseSession, dialect: WritableDialect, job: WriteJob) -> TargetTable:
    """The table, made if there is none. TaskFailure where it is another's, or was to be there and
    is not."""
    *above, table = dialect.names_of(job["settings"]["table"])
    schema = above[0] if above else _current_schema(session, dialect)
    notes = Notes(session, dialect, schema, table, job["owner"])
    layout, policy = Layout.of(job, dialect), job["settings"]["schema_change"]
    target = TargetTable(session, dialect, notes, layout, job["schema"], policy)
    with dialect.opening(session, notes.lock):
        note = notes.open()
        if note is None and job.get("goes_on"):
            target.require_no_appended_rows()
            raise target_gone(notes.name)
        if note is None:
            target.take()
        elif not target.exists() and note.layout != REMAKING:
            raise TaskFailure(
                "target-missing", f"{notes.name} is not there any more. {notes.release}"
            )
    return target


def _current_schema(session: DatabaseSession, dialect: WritableDialect) -> str:
    [(name,)] = session.rows(dialect.current_schema)
    if name is None:
        raise TaskFailure(
            "table-missing", "no schema of the search path is there: write schema.table"
        )
    return str(name)


EMPTY_LAYOUT = '{"columns": [], "keyed": [], "key": []}'


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table that is ours. Every method may be repeated."""

    session: DatabaseSession
    dialect: WritableDialect
    notes: Notes
    layout: Layout
    schema: Schema
    policy: str

    @property
    def table(self) -> str:
        return self.dialect.name(self.notes.schema, self.notes.table)

    @property
    def _staged(self) -> str:
        return self.dialect.stage_name(self.notes.schema)

    def _run(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.session.rows(statement)

    # --- the table --------------------------------------------------------------------------------

    def exists(self) -> bool:
        return bool(self.session.rows(self.dialect.exists(self.notes.schema, self.notes.table)))

    def take(self) -> None:
        """A table that is there already is taken only while it is empty and has the columns that we
        would give it."""
        if self.exists():
            if not self.layout.appends and self._has_rows():
                message = f"{self.notes.name} holds rows that Headgate did not write"
                hint = "empty it, or name another table"
                raise TaskFailure("target-occupied", f"{message}: {hint}")
            self._compare(self.layout.all_columns)
            self._require_fit()
        else:
            self._create()
        self.notes.laid_out(0, self.layout.text)

    def require_no_appended_rows(self) -> None:
        """TaskFailure for a table that was appended to, of which the marks are gone: all its rows
        would be appended once more."""
        if self.layout.appends and self.exists() and self._has_rows():
            message = f"{self.notes.name} has rows, but their marks in _headgate_sync are gone"
            hint = "bring the marks back, or empty the table to have all rows appended again"
            raise TaskFailure("target-occupied", f"{message}: {hint}")

    def _has_rows(self) -> bool:
        exists = f"CASE WHEN EXISTS (SELECT 1 FROM {self.table}) THEN 1 ELSE 0 END"
        [(has_rows,)] = self.session.rows(f"SELECT {exists}{self.dialect.no_table()}")
        return bool(int(has_rows))

    def _create(self) -> None:
        self._run(self.layout.create(self.dialect, self.table))

    def _require_fit(self) -> None:
        query = self.dialect.unfit(self.notes.schema, self.notes.table)
        for (reason,) in self.session.rows(query) if query else ():
            raise TaskFailure("target-schema-changed", f"{self.notes.name} {reason}")

    def _compare(self, columns: Sequence[str]) -> None:
        """Values of another type would be converted, and some of them rounded, by the server."""
        has, expected = self._column_types(self.table), self._expected_types()
        self._require_columns(has, columns)
        if other := [
            f"{c} is {has[c]}, not {expected[c]}" for c in columns if has[c] != expected[c]
        ]:
            raise TaskFailure(
                "target-schema-changed", f"{self.notes.name} has other columns: {', '.join(other)}"
            )

    def _require_columns(self, has: Container[str], columns: Sequence[str]) -> None:
        if lacking := [c for c in columns if c not in has]:
            raise TaskFailure(
                "target-schema-changed", f"{self.notes.name} has no column {', '.join(lacking)}"
            )

    def _expected_types(self) -> dict[str, str]:
        """The types of a table that we create, as the server describes them."""
        if self.dialect.is_described_as_declared:
            return self.layout.types(self.dialect)
        with_partition = self.layout.has_partition
        self._run(self.layout.stage(self.dialect, self._staged, with_partition=with_partition))
        return self._column_types(self._staged)

    def _column_types(self, table: str) -> dict[str, str]:
        return {c.name: c.kind for c in self.session.columns(self.dialect.no_rows(table))}

    def _fit(self, generation: int) -> None:
        """The table as the dataset's columns are now, as far as the policy allows."""
        note = self.notes.hold()
        if note.layout == self.layout.text:
            return
        self.notes.require(note.generation, generation)
        before = Layout.from_text(note.layout or EMPTY_LAYOUT)
        # A table that was appended to may hold rows of other users
        if self.policy == "recreate" and not before.appends:
            self._recreate(generation)
            return
        self._alter(before)
        self.notes.laid_out(generation, self.layout.text)

    def _recreate(self, generation: int) -> None:
        """Where the server commits by itself at each change of a table, the change is marked
        before: until the table is there, no other writer takes it for its own."""
        self.notes.laid_out(generation, REMAKING)
        failpoint("jdbc-remaking")
        if self.exists():
            self.session.rows(f"DROP TABLE {self.table}")
        failpoint("jdbc-dropped")
        self._create()
        self.notes.laid_out(generation, self.layout.text)

    def _alter(self, before: Layout) -> None:
        added = self.layout.added(before)
        if self.policy != "alter" or added is None:
            message = f"{self.notes.name} has other columns than the dataset"
            differences = f"{self.layout.differences(before)}; schema_change is {self.policy}"
            raise TaskFailure("target-schema-changed", f"{message}: {differences}")
        has = self._column_types(self.table)
        for name, kind in added:
            if name not in has:
                column = f"{self.dialect.name(name)} {kind}"
                self.session.rows(self.dialect.add_column(self.table, column))
        self._compare([name for name, _ in added])

    # --- partitions -------------------------------------------------------------------------------

    def write(self, task: WriteTask, lake: Lake) -> WriteAnswer:
        """One partition, all or nothing. Result: `{rows, bytes}`."""
        partition, generation, is_gone = (
            task["partition"],
            task.get("generation", 0),
            task.get("remove", False),
        )
        with self.session.transaction():
            self._fit(generation)
        self._stage([] if is_gone else [lake.open(path) for path in task["files"]])
        failpoint("jdbc-staged")
        with self.session.transaction():
            if self.notes.hold().layout != self.layout.text:
                raise TaskFailure(
                    "target-ahead", f"{self.notes.name} has other columns by now", "infrastructure"
                )
            self.notes.fence(partition, generation)
            rows = self._count(self._staged)
            if self.layout.appends:
                self._append(partition, generation, rows)
            else:
                self._replace(partition, generation, rows)
            failpoint("jdbc-written")
        failpoint("jdbc-committed")
        return {"rows": rows, "bytes": 0}

    def _replace(self, partition: str, generation: int, rows: int) -> None:
        self._delete(partition)
        failpoint("jdbc-deleted")
        self._insert(partition, self._later(partition, generation))
        self.notes.synced(partition, generation, rows)

    def _append(self, partition: str, generation: int, rows: int) -> None:
        """Rows that were appended before have to be the same, in the columns that they had."""
        appended = self.notes.appended(partition)
        if appended and appended.version != self._version(appended.columns):
            self.notes.refuse_correction(partition)
        if not appended and rows:
            self._insert(partition, [])
            names = list(column_names(self.schema))
            appended = AppendedRows(names, self._version(names))
        self.notes.synced(partition, generation, rows, appended)

    def _version(self, names: Sequence[str]) -> str:
        """The version of the staged rows, in some of their columns."""
        query = f"SELECT {self.dialect.named(names)} FROM {self._staged}"
        settings = {"url": "", "table": None, "query": query, "by": "full"}
        columns = {c.name: c for c in self.session.columns(self.dialect.no_rows(self.table))}
        self._require_columns(columns, names)
        staged = Table(self.session, self.dialect, settings, [columns[name] for name in names])
        [source] = objects(staged)
        return source["version"]

    def _stage(self, files: Sequence[Any]) -> None:
        self._run(self.layout.stage(self.dialect, self._staged))
        rows = batches(files, arrow_schema(self.schema))
        self.session.load(self._staged, self.schema, rows)

    def _count(self, table: str) -> int:
        [(rows,)] = self.session.rows(f"SELECT count(*) FROM {table}")
        return int(rows)

    def _delete(self, partition: str) -> None:
        """The rows that the partition had; where rows are merged, those that it has no more."""
        where = self._rows_of(partition)
        if self.layout.key:
            same = self.layout.same_key(self.dialect)
            where += f" AND NOT EXISTS (SELECT 1 FROM {self._staged} s WHERE {same})"
        self.session.rows(self.dialect.delete(self.table, where))

    def _rows_of(self, partition: str) -> str:
        dialect = self.dialect
        if not self.layout.keyed:
            return dialect.is_partition(f"t.{dialect.name(PARTITION)}", partition)
        texts = column_texts(partition)
        if len(texts) != len(self.layout.keyed):  # of a dataset that was partitioned in another way
            return "1 = 0"
        named = zip(map(dialect.name, self.layout.keyed), texts, strict=True)
        parts = [
            f"t.{name} IS NULL" if text is None else f"t.{name} = {dialect.literal(text)}"
            for name, text in named
        ]
        return " AND ".join(parts)

    def _later(self, partition: str, generation: int) -> list[str]:
        """Other partitions that hold rows of the same keys since a later generation: those rows
        moved there."""
        if not self.layout.key:
            return []
        name = f"t.{self.dialect.name(PARTITION)}"
        query = (
            f"SELECT DISTINCT {name} FROM {self.table} t JOIN {self._staged} s"
            f" ON {self.layout.same_key(self.dialect)}"
            f" WHERE NOT ({self.dialect.is_partition(name, partition)})"
        )
        others = [self.dialect.partition_of(text) for (text,) in self.session.rows(query)]
        return [other for other in others if self.notes.generation_of(other) > generation]

    def _insert(self, partition: str, later: list[str]) -> None:
        dialect, names = self.dialect, list(column_names(self.schema))
        values = [f"s.{dialect.name(name)}" for name in names]
        if self.layout.has_partition:
            names, values = [*names, PARTITION], [*values, self._partition_value(partition)]
        select = f"SELECT {', '.join(values)} FROM {self._staged} s"
        if not self.layout.key:
            self.session.rows(dialect.insert(self.table, names, select))
            return
        select += f" WHERE {self._is_ours(later)}"
        rows = MergedRows(select, names, self.layout.key)
        self.session.rows(dialect.merge(self.table, rows))

    def _partition_value(self, partition: str) -> str:
        text = self.dialect.literal(self.dialect.partition_text(partition))
        return f"{text} AS {self.dialect.name(PARTITION)}"

    def _is_ours(self, later: list[str]) -> str:
        """Rows of `s` whose keys are in none of these partitions."""
        if not later:
            return "1 = 1"
        name = f"t.{self.dialect.name(PARTITION)}"
        where = " OR ".join(self.dialect.is_partition(name, other) for other in later)
        same = self.layout.same_key(self.dialect)
        return f"NOT EXISTS (SELECT 1 FROM {self.table} t WHERE {same} AND ({where}))"
