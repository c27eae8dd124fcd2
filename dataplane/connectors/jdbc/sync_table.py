"""The table `_headgate_sync` beside the tables that hold copies: who owns each, its layout, and
what of it is in sync.

One row for each table (with the empty text in place of a partition), and one for each partition
that was ever written: its generation never goes down.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NoReturn

from dataplane.connectors.jdbc.dialect import DatabaseSession
from dataplane.connectors.jdbc.writable_dialect import SYNC, WritableDialect
from dataplane.contract.keys import encode_key
from dataplane.task_failures import TaskFailure

WHOLE = ""  # in place of a partition
REMAKING = ""  # in place of the layout of a table that is dropped and made anew


@dataclass(frozen=True, slots=True)
class SyncRow:
    """One row."""

    owner: str
    generation: int
    layout: str | None


@dataclass(frozen=True, slots=True)
class AppendedRows:
    """The columns of a partition when it was appended, and the version of its rows in them."""

    columns: list[str]
    version: str


@dataclass(frozen=True, slots=True)
class Notes:
    """The rows of one table, `schema.table`, as its one writer sees them."""

    session: DatabaseSession
    dialect: WritableDialect
    schema: str
    table: str
    owner: str

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def lock(self) -> str:
        """What all writers into the schema wait for while a table is made."""
        return f"{self.schema}.{SYNC}"

    @property
    def _place(self) -> str:
        return self.dialect.name(self.schema, SYNC)

    def open(self) -> SyncRow | None:
        """The table's note. TaskFailure where the table is another writer's."""
        for statement in self.dialect.sync_table(self._place):
            self.session.rows(statement)
        return self._owned(self._find(WHOLE))

    def hold(self) -> SyncRow:
        """The same for a table that is ours; its other writers wait until the transaction ends."""
        self.session.rows(self.dialect.hold(self._place, self._where(WHOLE)))
        note = self._owned(self._find(WHOLE))
        if note is None:
            raise TaskFailure(
                "target-owned", f"{self.name} was given up meanwhile", "infrastructure"
            )
        return note

    def _owned(self, note: SyncRow | None) -> SyncRow | None:
        if note is not None and note.owner != self.owner:
            raise TaskFailure(
                "target-owned",
                f"{self.name} belongs to {note.owner}: not written to. {self.release}",
            )
        return note

    @property
    def release(self) -> str:
        target = f"{self.dialect.name('target')} = {self.dialect.literal(self.name)}"
        return f"To give it up: DELETE FROM {self._place} WHERE {target}"

    def fence(self, partition: str, generation: int) -> None:
        """Refuse to overwrite a later generation, however late an earlier writer comes."""
        self.require(self.generation_of(partition), generation)

    def generation_of(self, partition: str) -> int:
        note = self._find(encode_key(partition))
        return note.generation if note else 0

    def require(self, latest: int, generation: int) -> None:
        if latest > generation:
            message = (
                f"{self.name} has seen generation {latest}, this is of generation {generation}"
            )
            raise TaskFailure("target-ahead", message, "infrastructure")

    def synced(
        self, partition: str, generation: int, rows: int, appended: AppendedRows | None = None
    ) -> None:
        text = json.dumps(asdict(appended)) if appended else None
        self._put(encode_key(partition), generation, rows, text)

    def appended(self, partition: str) -> AppendedRows | None:
        """The rows that a partition has in a table that is only appended to."""
        note = self._find(encode_key(partition))
        return AppendedRows(**json.loads(note.layout)) if note and note.layout else None

    def refuse_correction(self, partition: str) -> NoReturn:
        message = f"the rows of partition {partition!r} in {self.name} were appended,"
        message += " and the dataset has changed or removed them. Bring the earlier rows back."
        mark = f"DELETE FROM {self._place} WHERE {self._where(encode_key(partition))}"
        message += f" Or delete the rows yourself, and then their mark: {mark}"
        raise TaskFailure("target-append-only", message)

    def laid_out(self, generation: int, layout: str) -> None:
        self._put(WHOLE, generation, None, layout)

    def _where(self, partition: str) -> str:
        dialect = self.dialect
        named = dialect.mark(self.name, partition)
        found_by = {"id": named["id"]} if "id" in named else named
        return " AND ".join(
            f"{dialect.name(c)} = {dialect.literal(v)}" for c, v in found_by.items()
        )

    def _find(self, partition: str) -> SyncRow | None:
        query = (
            f"SELECT owner, generation, layout FROM {self._place} WHERE {self._where(partition)}"
        )
        for owner, generation, layout in self.session.rows(query):
            return SyncRow(owner, int(generation), layout or REMAKING)  # of Oracle, "" is NULL
        return None

    def _put(self, partition: str, generation: int, rows: int | None, layout: str | None) -> None:
        """All writers of a table hold its own row, so none comes between."""
        literal = self.dialect.literal
        values = {
            "owner": literal(self.owner),
            "generation": str(generation),
            self.dialect.name("rows"): "NULL" if rows is None else str(rows),
            "layout": "NULL" if layout is None else self.dialect.long_literal(layout),
            "at": "current_timestamp",
        }
        if self._find(partition) is None:
            named = self.dialect.mark(self.name, partition)
            values |= {self.dialect.name(c): literal(v) for c, v in named.items()}
            columns = ", ".join(values)
            query = f"INSERT INTO {self._place} ({columns}) VALUES ({', '.join(values.values())})"
        else:
            new = ", ".join(f"{column} = {text}" for column, text in values.items())
            query = f"UPDATE {self._place} SET {new} WHERE {self._where(partition)}"
        self.session.rows(query)
