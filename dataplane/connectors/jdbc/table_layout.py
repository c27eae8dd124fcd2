"""The columns of a table that holds a copy: their types, those that identify rows, and how a new
layout differs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dataplane.connectors.jdbc.dialect import OURS
from dataplane.connectors.jdbc.writable_dialect import WritableDialect
from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Schema, column_names
from dataplane.task_failures import TaskFailure

PARTITION = "_partition"


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns with their types in the database; `keyed`: those that hold the partition key, else a
    column is added; `key`: those that name a row, for merging; `appends`: rows are only added, and
    no column holds the partition key."""

    columns: tuple[tuple[str, str], ...]
    keyed: tuple[str, ...]
    key: tuple[str, ...]
    appends: bool = False

    @staticmethod
    def of(job: WriteJob, dialect: WritableDialect) -> Layout:
        schema = job["schema"]
        key = tuple(_named(schema, name) for name in job["settings"]["key"])
        kinds = {f["name"]: dialect.type_of(f["name"], f["type"]) for f in schema["fields"]}
        kinds |= {name: dialect.key_type(kinds[name], len(key)) for name in key}
        columns = tuple(kinds.items())
        appends = job["settings"]["mode"] == "append"
        is_keyed = dialect.finds_by_columns and not key and not appends
        keyed = tuple(_named(schema, name) for name in job["keyed"]) if is_keyed else ()
        layout = Layout(columns, keyed, key, appends)
        if OURS in dict(columns) and appends:
            raise TaskFailure(
                "reserved-column", f"the dataset has a column {OURS}, as rows are called"
            )
        if PARTITION in dict(columns) and layout.has_partition:
            raise TaskFailure(
                "reserved-column", f"the dataset has a column {PARTITION}, which is to hold the key"
            )
        return layout

    @staticmethod
    def from_text(text: str) -> Layout:
        layout = json.loads(text)
        return Layout(
            tuple((n, t) for n, t in layout["columns"]),
            tuple(layout["keyed"]),
            tuple(layout["key"]),
            layout.get("appends", False),
        )

    @property
    def text(self) -> str:
        fields = asdict(self)
        if not self.appends:  # layouts of earlier releases keep their text
            del fields["appends"]
        return json.dumps(fields)

    @property
    def has_partition(self) -> bool:
        """Whether a column holds the partition key."""
        return not self.keyed and not self.appends

    @property
    def all_columns(self) -> list[str]:
        return [*(name for name, _ in self.columns), *((PARTITION,) if self.has_partition else ())]

    # --- statements -------------------------------------------------------------------------------

    def create(self, dialect: WritableDialect, table: str) -> list[str]:
        kinds = dict(self.columns) | {PARTITION: dialect.key_text}
        found_by = [(name, kinds[name]) for name in self.keyed or (PARTITION,)]
        columns = self._definitions(dialect, with_partition=self.has_partition)
        index = [] if self.appends else dialect.index(table, found_by)
        return [dialect.table(table, columns), *index]

    def stage(
        self, dialect: WritableDialect, name: str, *, with_partition: bool = False
    ) -> list[str]:
        """An empty table for rows of one partition, in which keys are unique as well."""
        columns = self._definitions(dialect, with_partition=with_partition, is_stage=True)
        return dialect.stage(name, columns)

    def types(self, dialect: WritableDialect) -> dict[str, str]:
        """The types of all columns as a server describes them that repeats its declarations."""
        kinds = dict(self.columns) | {PARTITION: dialect.key_text}
        return {name: kind.partition(" COLLATE ")[0] for name, kind in kinds.items()}

    def _definitions(
        self, dialect: WritableDialect, *, with_partition: bool, is_stage: bool = False
    ) -> str:
        has_keys = dialect.has_keys_in_stage or not is_stage
        parts = [f"{dialect.name(name)} {kind}" for name, kind in self.columns]
        if with_partition:
            parts.append(f"{dialect.name(PARTITION)} {dialect.key_text} NOT NULL")
        if self.key and has_keys:
            parts.append(f"PRIMARY KEY ({dialect.named(self.key)})")
        return ", ".join(parts)

    def same_key(self, dialect: WritableDialect) -> str:
        """Whether a row of `t` has the key of one of `s`."""
        names = map(dialect.name, self.key)
        return " AND ".join(dialect.same(f"t.{name}", f"s.{name}") for name in names)

    # --- changes ----------------------------------------------------------------------------------

    def added(self, before: Layout) -> list[tuple[str, str]] | None:
        """The columns that came, if nothing else has changed but columns that went and now stay
        NULL."""
        had, has = dict(before.columns), dict(self.columns)
        if (self.keyed, self.key, self.appends) != (before.keyed, before.key, before.appends):
            return None
        if self.appends and not had.keys() <= has.keys():
            return None  # rows that were appended cannot be compared without the column
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


def _named(schema: Schema, name: str) -> str:
    """A column by its name, in any case."""
    names = column_names(schema)
    column = name if name in names else next((n for n in names if n.lower() == name.lower()), None)
    if column is None:
        raise TaskFailure("column-missing", f"the dataset has no column {name}")
    return column
