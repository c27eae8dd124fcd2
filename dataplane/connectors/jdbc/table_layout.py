"""The columns of a table that holds a copy: their types, those that identify rows, and how a new
layout differs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from psycopg import Connection, sql

from dataplane.connectors.jdbc.jdbc_connection import NO_ROWS
from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Json, Schema, column_names
from dataplane.contract.types import decimal_digits
from dataplane.task_failures import TaskFailure

PARTITION = "_partition"
_TYPES = {
    "string": "text",
    "binary": "bytea",
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns with their types in the database; `keyed`: those that hold the partition key, else a
    column is added; `key`: those that name a row, for merging."""

    columns: tuple[tuple[str, str], ...]
    keyed: tuple[str, ...]
    key: tuple[str, ...]

    @staticmethod
    def of(job: WriteJob) -> Layout:
        schema, key = job["schema"], job["settings"]["key"]
        columns = tuple((f["name"], type_of(f["name"], f["type"])) for f in schema["fields"])
        keyed = () if key else tuple(_named(schema, name) for name in job["keyed"])
        if PARTITION in dict(columns) and not keyed:
            raise TaskFailure(
                "reserved-column", f"the dataset has a column {PARTITION}, which is to hold the key"
            )
        return Layout(columns, keyed, tuple(_named(schema, name) for name in key))

    @staticmethod
    def from_text(text: str) -> Layout:
        layout = json.loads(text)
        return Layout(
            tuple((n, t) for n, t in layout["columns"]),
            tuple(layout["keyed"]),
            tuple(layout["key"]),
        )

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def all_columns(self) -> list[str]:
        return [*(name for name, _ in self.columns), *(() if self.keyed else (PARTITION,))]

    # --- statements -------------------------------------------------------------------------------

    def create(self, table: sql.Identifier) -> list[sql.Composed]:
        parts = [self._column(*c) for c in self.columns]
        if not self.keyed:
            parts.append(sql.SQL("{} text NOT NULL").format(sql.Identifier(PARTITION)))
        if self.key:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(identifiers(self.key)))
        found_by = identifiers(self.keyed or (PARTITION,))
        made = sql.SQL("CREATE TABLE {} ({})").format(table, sql.SQL(", ").join(parts))
        return [made, sql.SQL("CREATE INDEX ON {} ({})").format(table, found_by)]

    def stage(self, name: sql.Identifier) -> sql.Composed:
        columns = sql.SQL(", ").join(self._column(*c) for c in self.columns)
        return sql.SQL("CREATE TEMP TABLE {} ({})").format(name, columns)

    def add(self, table: sql.Identifier, name: str, kind: str) -> sql.Composed:
        return sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {}").format(
            table, self._column(name, kind)
        )

    def _column(self, name: str, kind: str) -> sql.Composable:
        return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))

    @property
    def same_key(self) -> sql.Composable:
        """Whether a row of `t` has the key of one of `s`."""
        parts = [sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self.key]
        return sql.SQL(" AND ").join(parts)

    def merging(self, later: list[str]) -> sql.Composable:
        """The clause after an INSERT into `t`: rows of the same key take the new values, except in
        these partitions."""
        if not self.key:
            return sql.SQL("")
        names = [name for name, _ in self.columns if name not in self.key] + [PARTITION]
        parts = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names]
        key = identifiers(self.key)
        merging = sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(
            key, sql.SQL(", ").join(parts)
        )
        if later:
            left = sql.SQL(", ").join(map(sql.Literal, later))
            merging += sql.SQL(" WHERE t.{} NOT IN ({})").format(sql.Identifier(PARTITION), left)
        return merging

    # --- changes ----------------------------------------------------------------------------------

    def added(self, before: Layout) -> list[tuple[str, str]] | None:
        """The columns that came, if nothing else has changed but columns that went and now stay
        NULL."""
        had = dict(before.columns)
        if (self.keyed, self.key) != (before.keyed, before.key):
            return None
        if any(had.get(name, kind) != kind for name, kind in self.columns):
            return None
        if any(name in (*self.keyed, *self.key) for name, _ in self.columns if name not in had):
            return None
        return [(name, kind) for name, kind in self.columns if name not in had]

    def differences(self, before: Layout) -> str:
        """The differences from an earlier layout, in words."""
        had, has = dict(before.columns), dict(self.columns)
        words = [f"new column {n}" for n in has if n not in had]
        words += [f"column {n} is gone" for n in had if n not in has]
        words += [
            f"column {n} is {has[n]}, it was {had[n]}" for n in has if n in had and had[n] != has[n]
        ]
        if not words:
            words = ["its rows are told apart in another way, or its columns have another order"]
        return ", ".join(words)


def type_of(name: str, kind: Json) -> str:
    """The database's type for one of Spark's; nested values are JSON."""
    if not isinstance(kind, str):
        return "jsonb"
    if digits := decimal_digits(kind):
        precision, scale = digits
        return f"numeric({precision}, {scale})"
    if kind not in _TYPES:
        raise TaskFailure(
            "not-supported", f"column {name} has type {kind}, which the table cannot hold: cast it"
        )
    return _TYPES[kind]


def identifiers(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _named(schema: Schema, name: str) -> str:
    """A column by its name, whatever its case."""
    names = column_names(schema)
    column = name if name in names else next((n for n in names if n.lower() == name.lower()), None)
    if column is None:
        raise TaskFailure("column-missing", f"the dataset has no column {name}")
    return column


def column_types(connection: Connection[Any], table: sql.Identifier) -> dict[str, str]:
    columns = connection.execute(NO_ROWS.format(table)).description or ()
    return {c.name: c.type_display for c in columns}
