"""One open transaction, and the few shapes of statement that every part of it uses.

Does not belong here: anything about a particular table (the parts), or beginning and ending
(`store`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Delete,
    Executable,
    Row,
    Select,
    Table,
    Update,
    delete,
    tuple_,
)
from sqlalchemy import bindparam as bind
from sqlalchemy import select as sql_select
from sqlalchemy.sql.dml import ReturningUpdate

from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import NO_BRANCH
from controlplane.store.sql import tables
from controlplane.store.sql.dialects import Dialect
from controlplane.store.sql.row_records import Record, dump
from controlplane.store.sql.statements import (
    delete_among,
    delete_rows,
    insert_missing,
    one_of,
    raise_counters,
    select_among,
    select_rows,
    update_rows,
    upsert,
)
from dataplane.contract.schemas import Schema

KEYS_A_STATEMENT = 10_000
PAGE = 5_000  # rows of a result that is read page by page
SCHEMAS_KEPT = 4_096
T = TypeVar("T")
# Where the schema with this digest is kept; empty until it was read
KeptSchema = Callable[[bytes], list[Schema]]


def chunks(items: Sequence[T], size: int = KEYS_A_STATEMENT) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def keeping_schemas() -> KeptSchema:
    """To be shared by all transactions of a store, in any thread: content under its digest never
    changes."""

    @lru_cache(maxsize=SCHEMAS_KEPT)
    def kept_schema(_id: bytes) -> list[Schema]:
        return []

    return kept_schema


@dataclass(slots=True)
class OpenTransaction:
    """What all parts of one transaction share: the connection, its only time, and rows that wait
    for its end."""

    connection: Connection
    namespace: str
    dialect: Dialect
    kept_schema: KeptSchema
    is_writing: bool
    time: float | None = None
    marks: set[tuple[str, str]] = field(default_factory=set)  # (branch, name)
    stored_schemas: set[bytes] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)  # read together, by the last statement

    def now(self) -> float:
        """By the database's clock, read once."""
        if self.time is None:
            self.time = self.dialect.now(self.connection)
        return self.time


class TableGroup:
    """One group of tables in a transaction. All statements stay inside one namespace."""

    def __init__(self, transaction: OpenTransaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection
        self._namespace = transaction.namespace
        self._dialect = transaction.dialect

    def _now(self) -> float:
        return self._transaction.now()

    def _mark(self, branch: str, *names: str) -> None:
        """Something happened that planning has to look at."""
        self._transaction.marks.update((branch, name) for name in names)

    # --- reading

    def _mine(self, table: Table, **equal: Any) -> ColumnElement[bool]:
        """The rows of this namespace whose named columns have these values."""
        condition: ColumnElement[bool] = table.c.namespace == self._namespace
        for name, value in equal.items():
            condition &= table.c[name] == value
        return condition

    def _events_in(self, table: Table, branch: str) -> ColumnElement[bool]:
        """The rows of this namespace that belong to the branch or to none."""
        return self._mine(table) & table.c.branch.in_((NO_BRANCH, branch))

    def _over_main(self, table: Table, branch: str) -> ColumnElement[bool]:
        """The rows of this namespace that are a branch's own, and those of main."""
        return self._mine(table) & table.c.branch.in_({MAIN, branch})

    def _select(self, table: Table, **equal: Any) -> Select[Any]:
        return sql_select(table).where(self._mine(table, **equal))

    def _run(self, statement: Executable, **values: Any) -> CursorResult[Any]:
        return self._connection.execute(statement, {"of_namespace": self._namespace, **values})

    def _rows(self, statement: Executable, **values: Any) -> Sequence[Row[Any]]:
        return self._run(statement, **values).fetchall()

    def _row(self, statement: Executable, **values: Any) -> Row[Any] | None:
        return self._run(statement, **values).first()

    def _rows_of(self, table: Table, **equal: Any) -> Sequence[Row[Any]]:
        """The rows of this namespace whose named columns have these values."""
        return self._rows(select_rows(table, *equal), **_bound(equal))

    def _row_of(self, table: Table, **equal: Any) -> Row[Any] | None:
        return self._row(select_rows(table, *equal), **_bound(equal))

    def _values_of(self, record: Record[T], **equal: Any) -> Iterator[T]:
        """As `_rows_of`."""
        return record.from_rows(self._rows_of(record.table, **equal))

    def _value_of(self, record: Record[T], **equal: Any) -> T | None:
        return next(iter(self._values_of(record, **equal)), None)

    def _rows_by(
        self, statement: Executable, values: Iterable[Any], **others: Any
    ) -> Iterator[Row[Any]]:
        """The rows of a statement that has `one_of` a column; one statement per 10,000 values."""
        for chunk in chunks(list(dict.fromkeys(values))):
            yield from self._rows(statement, keys=chunk, **others)

    def _rows_among(
        self, table: Table, key: str, values: Iterable[Any], **equal: Any
    ) -> Iterator[Row[Any]]:
        """As `_rows_of`, and column `key` has one of the values."""
        return self._rows_by(select_among(table, key, *equal), values, **_bound(equal))

    def _rows_if(
        self, table: Table, key: str, values: Iterable[Any] | None, **equal: Any
    ) -> Iterator[Row[Any]]:
        """As `_rows_among`; all rows if no values are given."""
        return (
            iter(self._rows_of(table, **equal))
            if values is None
            else self._rows_among(table, key, values, **equal)
        )

    def _all_or_some(
        self, statements: tuple[Executable, Executable], values: Iterable[Any] | None, **others: Any
    ) -> Iterator[Row[Any]]:
        """The rows of the first statement; of the second, by `_rows_by`, if values are given."""
        every, some = statements
        return (
            iter(self._rows(every, **others))
            if values is None
            else self._rows_by(some, values, **others)
        )

    def _among(
        self,
        statement: Select[Any] | ReturningUpdate[Any],
        column: Column[Any],
        values: Iterable[Any],
    ) -> Iterator[Row[Any]]:
        """The rows of a statement that is not built yet, whose column has one of the values."""
        return self._rows_by(statement.where(one_of(column)), values)

    def _some(
        self, statement: Select[Any], column: Column[Any], values: Iterable[Any] | None
    ) -> Iterator[Row[Any]]:
        """As `_among`; all rows if no values are given."""
        return (
            iter(self._rows(statement))
            if values is None
            else self._among(statement, column, values)
        )

    def _paged(self, statement: Select[Any], *keys: Column[Any]) -> Iterator[Row[Any]]:
        """The rows by page, in the order of these columns, which identify rows and are among the
        selected ones.

        No cursor is left open on the server, however far the caller reads.
        """
        page = statement.order_by(*keys).limit(PAGE)
        rows = self._rows(page)
        yield from rows
        while len(rows) == PAGE:
            last = (bind(None, rows[-1]._mapping[key], type_=key.type, unique=True) for key in keys)
            rows = self._rows(page.where(tuple_(*keys) > tuple_(*last)))
            yield from rows

    # --- writing

    def _change(self, statement: Update | Delete, **values: Any) -> int:
        """How many rows it changed."""
        return self._run(statement, **values).rowcount

    def _change_by(self, statement: Update | Delete, values: Iterable[Any], **others: Any) -> int:
        """As `_rows_by`."""
        distinct = list(dict.fromkeys(values))
        return sum(self._change(statement, keys=chunk, **others) for chunk in chunks(distinct))

    def _change_among(
        self, statement: Update | Delete, column: Column[Any], values: Iterable[Any]
    ) -> int:
        """As `_among`."""
        return self._change_by(statement.where(one_of(column)), values)

    def _delete(self, table: Table, **equal: Any) -> int:
        return self._change(delete_rows(table, *equal), **_bound(equal))

    def _delete_among(self, table: Table, key: str, values: Iterable[Any], **equal: Any) -> int:
        return self._change_by(delete_among(table, key, *equal), values, **_bound(equal))

    def _drop(
        self, table: Table, key: Column[Any], which: ColumnElement[bool], limit: int, **values: Any
    ) -> int:
        """Delete at most `limit` of these rows, identified by one column; returns how many went.
        `values`: parameters of `which`."""
        some = sql_select(key).where(self._mine(table), which).limit(limit)
        return self._change(delete(table).where(self._mine(table), key.in_(some)), **values)

    def _insert(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> int:
        """Rows whose primary key is there already are left alone; how many were not.

        Rows go in by primary key, so that two transactions that insert the same ones cannot wait
        for each other.
        """
        return self._insert_rows(table, insert_missing(self._dialect.insert, table), rows)

    def _insert_one(self, table: Table, **row: Any) -> bool:
        """False if the primary key is there already."""
        statement = insert_missing(self._dialect.insert, table)
        return (
            self._connection.execute(statement, {"namespace": self._namespace, **row}).rowcount == 1
        )

    def _upsert(
        self,
        table: Table,
        rows: Iterable[Mapping[str, Any]],
        unless: ColumnElement[bool] | None = None,
    ) -> None:
        """Rows whose primary key is there already are replaced, but where `unless` says that the
        old one stays."""
        self._insert_rows(table, upsert(self._dialect.insert, table, unless), rows)

    def _put(self, record: Record[T], values: Iterable[T]) -> None:
        """Values whose primary key is there already replace the old ones."""
        self._upsert(record.table, map(record.to_row, values))

    def _update_many(self, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Set each row's columns where column `key` equals the row's `of_<key>`."""
        if rows:
            bound = [{"of_namespace": self._namespace, **row} for row in rows]
            self._connection.execute(update_rows(table, key), bound)

    def _insert_rows(self, table: Table, statement: Any, rows: Iterable[Mapping[str, Any]]) -> int:
        """In the order of the primary key; of rows with equal keys the last counts. How many it
        inserted or changed."""
        names = [c.name for c in table.primary_key if c.name != "namespace"]
        by_key = {
            tuple(row[n] for n in names): {"namespace": self._namespace, **row} for row in rows
        }
        some = chunks([by_key[key] for key in sorted(by_key)])
        return sum(self._dialect.insert_rows(self._connection, statement, chunk) for chunk in some)

    def _count(self, counter: str, n: int) -> int:
        """Raise a counter by n, and give its new value. Holds it until the transaction ends."""
        return self.count_all({counter: n})[counter]

    def count_all(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The same for several, in their order."""
        if not counts:
            return {}
        statement = raise_counters(*counts)
        rows = self._rows(statement, **{f"n_{name}": n for name, n in counts.items()})
        return {row.name: row.value for row in rows}

    def _counted(self, counter: str) -> int:
        row = self._row_of(tables.counters, name=counter)
        return 0 if row is None else row.value

    # --- schemas, which many rows share

    def _put_schemas(self, schemas: Sequence[Schema]) -> list[bytes]:
        """Store each schema once; the ids to store in their place."""
        different = {id(s): s for s in schemas}  # many fragments have one
        text_of = {number: dump(schema) for number, schema in different.items()}
        texts = [text_of[id(s)] for s in schemas]
        ids = [sha256(t.encode()).digest() for t in texts]
        rows = [{"id": id, "body": text} for id, text in dict(zip(ids, texts, strict=True)).items()]
        self._insert(
            tables.schemas,
            [row for row in rows if row["id"] not in self._transaction.stored_schemas],
        )
        self._transaction.stored_schemas.update(ids)
        return ids

    def _schemas(self, ids: Iterable[bytes]) -> Mapping[bytes, Schema]:
        schemas = {id: self._transaction.kept_schema(id) for id in set(ids)}
        missing = [id for id, schema in schemas.items() if not schema]
        for row in self._rows_among(tables.schemas, "id", missing):
            schemas[row.id].append(json.loads(row.body))
        return {id: schema[0] for id, schema in schemas.items() if schema}


def _bound(equal: Mapping[str, Any]) -> dict[str, Any]:
    return {f"of_{name}": value for name, value in equal.items()}
