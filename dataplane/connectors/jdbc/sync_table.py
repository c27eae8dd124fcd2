"""The table `_headgate_sync` beside the tables that hold copies: who owns each, its layout, and
what of it is in sync.

One row for each table (with the empty text in place of a partition), and one for each partition
that was ever written: its generation never goes down. Values are literals: among parameters, a % in
a name would be taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from dataplane.contract.keys import encode_key
from dataplane.task_failures import TaskFailure

TABLE = "_headgate_sync"
WHOLE = ""  # in place of a partition
_CREATE = sql.SQL(
    """CREATE TABLE IF NOT EXISTS {} (target text, partition text, owner text NOT NULL, generation bigint NOT NULL,
       rows bigint, layout text, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, partition))"""
)
_FIND = sql.SQL("SELECT owner, generation, layout FROM {} WHERE target = {} AND partition = {}")
_PUT = sql.SQL(
    """INSERT INTO {} (target, partition, owner, generation, rows, layout) VALUES ({}, {}, {}, {}, {}, {})
       ON CONFLICT (target, partition) DO UPDATE SET owner = excluded.owner, generation = excluded.generation,
       rows = excluded.rows, layout = excluded.layout, at = now()"""
)


@dataclass(frozen=True, slots=True)
class SyncRow:
    """One row."""

    owner: str
    generation: int
    layout: str | None


@dataclass(frozen=True, slots=True)
class Notes:
    """The rows of one table, `schema.table`, as its one writer sees them."""

    connection: Connection[Any]
    schema: str
    table: str
    owner: str

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def _place(self) -> sql.Identifier:
        return sql.Identifier(self.schema, TABLE)

    def open(self) -> SyncRow | None:
        """The table's note, with a lock on all tables of the schema until the transaction ends.
        TaskFailure where the table is another writer's."""
        self.connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{self.schema}.{TABLE}",)
        )
        self.connection.execute(_CREATE.format(self._place))
        return self._owned(self._find(WHOLE, lock=False))

    def hold(self) -> SyncRow:
        """The same for a table that is ours; only its own writers wait."""
        note = self._owned(self._find(WHOLE, lock=True))
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
        query = sql.SQL("DELETE FROM {} WHERE target = {}").format(self._place, self.name)
        return f"To give it up: {query.as_string(self.connection)}"

    def fence(self, partition: str, generation: int) -> None:
        """Refuse to overwrite a later generation, however late an earlier writer comes."""
        self.require(self.generation_of(partition), generation)

    def generation_of(self, partition: str) -> int:
        note = self._find(encode_key(partition), lock=False)
        return note.generation if note else 0

    def require(self, latest: int, generation: int) -> None:
        if latest > generation:
            message = (
                f"{self.name} has seen generation {latest}, this is of generation {generation}"
            )
            raise TaskFailure("target-ahead", message, "infrastructure")

    def synced(self, partition: str, generation: int, rows: int) -> None:
        self._put(encode_key(partition), generation, rows, None)

    def laid_out(self, generation: int, layout: str) -> None:
        self._put(WHOLE, generation, None, layout)

    def _find(self, partition: str, *, lock: bool) -> SyncRow | None:
        query = _FIND.format(self._place, self.name, partition) + sql.SQL(
            " FOR UPDATE" if lock else ""
        )
        row = self.connection.execute(query).fetchone()
        return SyncRow(*row) if row else None

    def _put(self, partition: str, generation: int, rows: int | None, layout: str | None) -> None:
        values = (self.name, partition, self.owner, generation, rows, layout)
        self.connection.execute(_PUT.format(self._place, *values))
