"""Statements that are built once: equal columns, sets of keys, inserts that meet rows that are
there already.

Building an expression costs ten times what running it on SQLite does. So a statement is a constant
beside the code that runs it, and values are parameters: `of_<column>` for a column that has to be
equal, `keys` for a set of keys. Statements of one shape for many tables are cached here by table
and columns.

Example: `self._rows(select(db.holds).where(equal(db.holds, "branch")), of_branch=branch)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    Boolean,
    Column,
    ColumnElement,
    Delete,
    LargeBinary,
    Select,
    Table,
    Text,
    Update,
    and_,
    func,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy import bindparam as bind
from sqlalchemy import delete as sql_delete
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from controlplane.core.model.branches import MAIN

DIGEST_BYTES = 32
KEYS = "keys"
Insert = Callable[[Table], Any]
"""INSERT of a dialect, with ON CONFLICT."""


# --- conditions -------------------------------------------------------------------------------------


def equal(table: Table, *names: str) -> ColumnElement[bool]:
    """The rows of the transaction's namespace whose columns equal the parameters `of_<name>`."""
    condition: ColumnElement[bool] = table.c.namespace == bind("of_namespace")
    for name in names:
        condition &= table.c[name] == bind(f"of_{name}")
    return condition


def over_main(table: Table) -> ColumnElement[bool]:
    """The rows of the namespace that are those of the branch `of_branch`, and those of main."""
    return equal(table) & table.c.branch.in_((MAIN, bind("of_branch")))


class KeySet(TypeDecorator[Any]):
    """Many values of one column as one parameter: an array in PostgreSQL. SQLite takes digests one
    after another, and a JSON text of anything else."""

    impl = Text
    cache_ok = True

    def __init__(self, column_type: TypeEngine[Any]) -> None:
        super().__init__()
        self.column_type = column_type

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(ARRAY(self.column_type))
        return dialect.type_descriptor(self.column_type)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if dialect.name == "postgresql":
            return list(value)
        if is_digest(self.column_type):  # no row has a key of another length
            return b"".join(key for key in value if len(key) == DIGEST_BYTES)
        return json.dumps(list(value))


def is_digest(column_type: TypeEngine[Any]) -> bool:
    return isinstance(column_type, LargeBinary)


class _OneOf(FunctionElement[bool]):
    """Columns and, for each, its key set."""

    type = Boolean()
    inherit_cache = True
    name = "one_of"

    def self_group(self, against: object = None) -> _OneOf:  # noqa: ARG002
        """As it is: SQLite uses no index for `IN (...) = 1`, which it would become."""
        return self


def one_of(column: Column[Any], parameter: str = KEYS) -> ColumnElement[bool]:
    """The column has one of the values in the parameter, some 10,000 at most."""
    return _OneOf(column, bind(parameter, type_=KeySet(column.type)))


def one_of_pairs(digest: Column[Any], key: Column[Any]) -> ColumnElement[bool]:
    """The two columns together are one of the pairs of `digests`, whole ones, and `keys`: looked up
    one by one."""
    digests, keys = KeySet(digest.type), KeySet(key.type)
    return _OneOf(digest, key, bind("digests", type_=digests), bind(KEYS, type_=keys))


class _Likelihood(FunctionElement[bool]):
    """A condition, and how often SQLite takes it to be true."""

    type = Boolean()
    inherit_cache = True
    name = "likelihood"

    def self_group(self, against: object = None) -> _Likelihood:  # noqa: ARG002
        return self


@compiles(_Likelihood, "sqlite")
def _likelihood_sqlite(element: _Likelihood, compiler: SQLCompiler, **options: Any) -> str:
    condition, probability = (compiler.process(part, **options) for part in element.clauses)
    return f"likelihood({condition}, {probability})"


@compiles(_Likelihood, "postgresql")
def _likelihood_postgresql(element: _Likelihood, compiler: SQLCompiler, **options: Any) -> str:
    condition, _ = element.clauses
    return compiler.process(condition, **options)


def among(table: Table, key: str) -> ColumnElement[bool]:
    """The rows of the namespace whose `key`, which completes the primary key, has one of `keys`.

    SQLite without statistics expects ten rows in a namespace and 25 keys in a set: it would walk
    the namespace.
    """
    in_namespace = _Likelihood(equal(table), literal_column("0.9"))
    return and_(in_namespace, _Likelihood(one_of(table.c[key]), literal_column("0.0000001")))


@compiles(_OneOf, "sqlite")
def _one_of_sqlite(element: _OneOf, compiler: SQLCompiler, **options: Any) -> str:
    *columns, last = element.clauses
    if len(columns) == 3:
        return _pairs_of_sqlite([compiler.process(part, **options) for part in (*columns, last)])
    (column,) = columns
    left, keys = (compiler.process(part, **options) for part in (column, last))
    if not is_digest(column.type):
        return f"{left} IN (SELECT value FROM json_each({keys}))"
    again = compiler.process(last, **options)
    return (
        f"{left} IN (WITH RECURSIVE place(at) AS (SELECT 1 UNION ALL SELECT at + {DIGEST_BYTES} FROM place"
        f" WHERE at + {DIGEST_BYTES} < length({keys})) SELECT substr({again}, at, {DIGEST_BYTES}) FROM place)"
    )


def _pairs_of_sqlite(parts: Sequence[str]) -> str:
    digest, key, digests, keys = parts
    place = f"pair.key * {DIGEST_BYTES} + 1"
    pairs = f"SELECT substr({digests}, {place}, {DIGEST_BYTES}), pair.value FROM json_each({keys}) AS pair"
    return f"({digest}, {key}) IN ({pairs})"


@compiles(_OneOf, "postgresql")
def _one_of_postgresql(element: _OneOf, compiler: SQLCompiler, **options: Any) -> str:
    """One array: a join with its elements could be planned as a loop over the table for each,
    before ANALYZE."""
    parts = [compiler.process(part, **options) for part in element.clauses]
    if len(parts) == 2:
        return f"{parts[0]} = ANY ({parts[1]})"
    digest, key, digests, keys = parts
    return f"({digest}, {key}) IN (SELECT unnest({digests}), unnest({keys}))"


# --- shapes of many tables --------------------------------------------------------------------------


@cache
def select_rows(table: Table, *names: str) -> Select[Any]:
    return select(table).where(equal(table, *names))


@cache
def select_among(table: Table, key: str, *names: str) -> Select[Any]:
    """Rows whose column `key` has one of `keys`."""
    return select(table).where(_among(table, key, *names))


@cache
def delete_rows(table: Table, *names: str) -> Delete:
    return sql_delete(table).where(equal(table, *names))


@cache
def delete_among(table: Table, key: str, *names: str) -> Delete:
    return sql_delete(table).where(_among(table, key, *names))


def _among(table: Table, key: str, *names: str) -> ColumnElement[bool]:
    if {column.name for column in table.primary_key} == {"namespace", key}:
        return and_(among(table, key), equal(table, *names))
    return equal(table, *names) & one_of(table.c[key])


@cache
def update_rows(table: Table, *names: str) -> Update:
    """Columns are set to the parameters that have their names."""
    return update(table).where(equal(table, *names))


@cache
def insert_missing(insert: Insert, table: Table) -> Any:
    """Rows whose primary key is there already are left alone, and do not count."""
    return insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


@cache
def upsert(insert: Insert, table: Table, unless: ColumnElement[bool] | None = None) -> Any:
    """Rows whose primary key is there already are replaced, but where `unless` says that the old
    one stays."""
    statement = insert(table)
    new = {c.name: statement.excluded[c.name] for c in table.c if not c.primary_key}
    where = None if unless is None else ~unless
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key), set_=new, where=where
    )


@cache
def raise_counters(*names: str) -> Any:
    """Each counter grows by the parameter `n_<name>`; the new values. As text, since SQLAlchemy
    compiles an INSERT of several rows again each time, and most transactions have one."""
    rows = ", ".join(f"(:of_namespace, :name_{name}, :n_{name})" for name in names)
    statement = text(
        f"INSERT INTO counters (namespace, name, value) VALUES {rows} ON CONFLICT (namespace, name)"
        " DO UPDATE SET value = counters.value + excluded.value RETURNING name, value"
    )
    return statement.bindparams(*(bind(f"name_{name}", name) for name in names))


# --- many rows at once ------------------------------------------------------------------------------


@cache
def from_arrays(statement: Any, *names: str) -> Any:
    """The INSERT with a parameter for each column: an array of its values."""
    columns = statement.table.c
    arrays = [func.unnest(bind(f"new_{name}", type_=ARRAY(columns[name].type))) for name in names]
    return statement.from_select(list(names), select(*arrays))


class Positional(NamedTuple):
    """A statement as text for the driver, and what puts a row's values into its order."""

    text: str
    in_order: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    fixed: Mapping[str, Any]


@cache
def positional(statement: Any, *names: str) -> Positional:
    """For SQLite."""
    compiled = statement.compile(dialect=sqlite.dialect(), column_keys=list(names))
    return Positional(str(compiled), itemgetter(*compiled.positiontup), compiled.params)
