"""One open transaction, and the few shapes of statement that every part of it uses.

Does not belong here: anything about a particular table (the parts), or beginning and ending (`store`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    Executable,
    Row,
    Select,
    Table,
    Update,
    delete,
    tuple_,
    update,
)
from sqlalchemy import bindparam as bind
from sqlalchemy import select as sql_select
from sqlalchemy.sql.dml import ReturningUpdate

from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.json_values import JsonValue
from controlplane.store.sql import tables
from controlplane.store.sql.dialects import Dialect
from dataplane.contract.schemas import Schema

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
KEYS_A_STATEMENT = 10_000
PAGE = 5_000  # rows of a result that is read page by page
SCHEMAS_KEPT = 4_096
T = TypeVar("T")
KeptSchema = Callable[[bytes], list[Schema]]  # where the schema with this digest is kept; empty until it was read


def dump(value: object) -> str:
    """JSON as it is stored: ASCII (PostgreSQL's text cannot hold NUL), keys sorted."""
    return _encode(value)


def dump_optional(value: object) -> str | None:
    return None if value is None else dump(value)


def load_optional(text: str | None) -> Any:  # what was stored; the caller knows its type
    return None if text is None else json.loads(text)


def chunks(items: Sequence[T], size: int = KEYS_A_STATEMENT) -> Iterator[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def built_once(table: Table, *names: str) -> Select[Any]:
    """The rows of a namespace whose columns have values that are given when it runs."""
    return sql_select(table).where(*(table.c[name] == bind(name) for name in ("namespace", *names)))


def keeping_schemas() -> KeptSchema:
    """To be shared by all transactions of a store, in any thread: content under its digest never changes."""

    @lru_cache(maxsize=SCHEMAS_KEPT)
    def kept(_id: bytes) -> list[Schema]:
        return []

    return kept


class Part:
    """What the parts of a transaction share. All statements stay inside one namespace."""

    def __init__(self, connection: Connection, namespace: str, dialect: Dialect, schemas: KeptSchema) -> None:
        self._connection = connection
        self._namespace = namespace
        self._dialect = dialect
        self._kept_schema = schemas
        self._now: float | None = None
        self._new_marks: set[tuple[str, str]] = set()
        self._is_queue_locked = False
        self._bases: dict[str, int | None] = {}  # of branches, as far as they were asked for
        self._new_moves: dict[tuple[str, str], JsonValue] = {}  # pointers of main, and what they were
        self._rebased: set[str] = set()  # branches that are pinned to the end of this transaction

    def now(self) -> float:
        """By the database's clock, read once."""
        if self._now is None:
            self._now = self._dialect.now(self._connection)
        return self._now

    def _mark(self, branch: str, *names: str) -> None:
        """Something happened that planning has to look at."""
        self._new_marks.update((branch, name) for name in names)

    def _lock_queue(self) -> None:
        """Whoever changes what is asked for does so alone."""
        if not self._is_queue_locked:
            self._dialect.lock_queue(self._connection, self._namespace)
            self._is_queue_locked = True

    # --- reading

    def _mine(self, table: Table, **equal: Any) -> ColumnElement[bool]:
        """The rows of this namespace whose named columns have these values."""
        found: ColumnElement[bool] = table.c.namespace == self._namespace
        for name, value in equal.items():
            found &= table.c[name] == value
        return found

    def _told_in(self, table: Table, branch: str) -> ColumnElement[bool]:
        """The rows of this namespace that belong to the branch or to none."""
        return self._mine(table) & table.c.branch.in_((NO_BRANCH, branch))

    def _over_main(self, table: Table, branch: str) -> ColumnElement[bool]:
        """The rows of this namespace that are a branch's own, and those of main."""
        return self._mine(table) & table.c.branch.in_({MAIN, branch})

    def _select(self, table: Table, **equal: Any) -> Select[Any]:
        return sql_select(table).where(self._mine(table, **equal))

    def _rows(self, statement: Executable) -> Sequence[Row[Any]]:
        return self._connection.execute(statement).fetchall()

    def _row(self, statement: Executable) -> Row[Any] | None:
        return self._connection.execute(statement).first()

    def _row_of(self, built: Executable, **values: Any) -> Row[Any] | None:
        """Of a statement that was built once, by `built_once`: for what each request asks, since building takes longer
        than running."""
        return self._connection.execute(built, {"namespace": self._namespace, **values}).first()

    def _among(
        self, statement: Select[Any] | ReturningUpdate[Any], column: Column[Any], values: Iterable[Any]
    ) -> Iterator[Row[Any]]:
        """The statement's rows whose column has one of the values; one statement per 10,000 of them."""
        for chunk in chunks(list(dict.fromkeys(values))):
            yield from self._rows(statement.where(self._dialect.among(column, chunk)))

    def _some(self, statement: Select[Any], column: Column[Any], values: Iterable[Any] | None) -> Iterator[Row[Any]]:
        """As `_among`; all rows if no values are given."""
        return iter(self._rows(statement)) if values is None else self._among(statement, column, values)

    def _paged(self, statement: Select[Any], *keys: Column[Any]) -> Iterator[Row[Any]]:
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

    # --- writing

    def _change(self, statement: Update | Delete) -> int:
        """How many rows it changed."""
        return self._connection.execute(statement).rowcount

    def _change_among(self, statement: Update | Delete, column: Column[Any], values: Iterable[Any]) -> int:
        distinct = list(dict.fromkeys(values))
        return sum(self._change(statement.where(self._dialect.among(column, c))) for c in chunks(distinct))

    def _delete(self, table: Table, **equal: Any) -> int:
        return self._change(delete(table).where(self._mine(table, **equal)))

    def _drop(self, table: Table, key: Column[Any], which: ColumnElement[bool], limit: int) -> int:
        """At most `limit` of these rows, told apart by one column; how many went."""
        some = sql_select(key).where(self._mine(table), which).limit(limit)
        return self._change(delete(table).where(self._mine(table), key.in_(some)))

    def _insert(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows whose primary key is there already are left alone.

        Rows go in by primary key, so that two transactions that insert the same ones cannot wait for each other.
        """
        self._insert_rows(table, self._dialect.insert(table).on_conflict_do_nothing(), rows)

    def _insert_one(self, table: Table, **row: Any) -> bool:
        """False if the primary key is there already."""
        statement = self._dialect.insert(table).values(namespace=self._namespace, **row).on_conflict_do_nothing()
        return self._connection.execute(statement.execution_options(preserve_rowcount=True)).rowcount == 1

    def _upsert(
        self, table: Table, rows: Iterable[Mapping[str, Any]], unless: ColumnElement[bool] | None = None
    ) -> None:
        """Rows whose primary key is there already are replaced, but where `unless` says that the old one stays."""
        insert = self._dialect.insert(table)
        new = {c.name: insert.excluded[c.name] for c in table.c if not c.primary_key}
        where = None if unless is None else ~unless
        update_it = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=new, where=where)
        self._insert_rows(table, update_it, rows)

    def _update_many(self, table: Table, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Set each row's columns where column `key` equals the row's `the_key`."""
        if rows:
            values: dict[str, Any] = {name: bind(name) for name in rows[0] if name != "the_key"}
            found = self._mine(table) & (table.c[key] == bind("the_key"))
            self._connection.execute(update(table).where(found).values(values), list(rows))

    def _insert_rows(self, table: Table, statement: Any, rows: Iterable[Mapping[str, Any]]) -> None:
        """In the order of the primary key; of rows with equal keys the last counts."""
        names = [c.name for c in table.primary_key if c.name != "namespace"]
        by_key = {tuple(row[n] for n in names): {"namespace": self._namespace, **row} for row in rows}
        for chunk in chunks([by_key[key] for key in sorted(by_key)]):
            self._dialect.insert_rows(self._connection, statement, chunk)

    def _count(self, counter: str, n: int) -> int:
        """Raise a counter by n, and give its new value. Holds it until the transaction ends."""
        table = tables.counters
        insert = self._dialect.insert(table).values(namespace=self._namespace, name=counter, value=n)
        added = {"value": table.c.value + n}
        raised = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=added)
        return int(self._connection.execute(raised.returning(table.c.value)).scalar_one())

    def _counted(self, counter: str) -> int:
        row = self._row(self._select(tables.counters, name=counter))
        return 0 if row is None else row.value

    # --- schemas, which many rows share

    def _put_schemas(self, schemas: Sequence[Schema]) -> list[bytes]:
        """Store each schema once; the ids to store in their place."""
        different = {id(s): s for s in schemas}  # many fragments have one
        kept = {number: dump(schema) for number, schema in different.items()}
        texts = [kept[id(s)] for s in schemas]
        ids = [sha256(t.encode()).digest() for t in texts]
        self._insert(tables.schemas, [{"id": i, "body": t} for i, t in dict(zip(ids, texts, strict=True)).items()])
        return ids

    def _schemas(self, ids: Iterable[bytes]) -> Mapping[bytes, Schema]:
        kept = {id: self._kept_schema(id) for id in set(ids)}
        missing = [id for id, schema in kept.items() if not schema]
        for row in self._among(self._select(tables.schemas), tables.schemas.c.id, missing):
            kept[row.id].append(json.loads(row.body))
        return {id: schema[0] for id, schema in kept.items() if schema}
