"""A new branch: of each table that knows branches, either its rows are copied or there is a reason why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Engine,
    LargeBinary,
    Table,
    Text,
    create_engine,
    insert,
    select,
)

from controlplane.store import open_store, upgrade
from controlplane.store.sql.tables import metadata

KNOWING = sorted(name for name, table in metadata.tables.items() if "branch" in table.c)
NOT_COPIED = {
    "begun": "a run that is under way belongs to its branch: the new one plans from the newest states",
    "changes": "the audit tells what was changed in a branch, and nothing was changed in the new one yet",
    "demands": "the new branch asks for its tasks in its own first pass",
    "events": "what happened in a branch did not happen in the new one",
    "marks": "the new branch has marks of its own, for its dataflows, so that its first pass looks at all of them",
    "problems": "what the new branch cannot plan is found in its own first pass",
    "publications": "the tables of the new branch lie elsewhere, and were never written",
    "targets": "only main writes to external copies",
    "wishes": "only main writes to external copies",
}


@pytest.fixture
def engine(empty_database: Callable[[], str]) -> Iterator[Engine]:
    """A database with one row of branch main in every table."""
    url = empty_database()
    upgrade(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            connection.execute(insert(table).values(_row(table)))
    store = open_store(url)
    with store.begin() as tx:
        tx.copy_branch("main", "dev")
    store.close()
    yield engine
    engine.dispose()


def _row(table: Table) -> dict[str, Any]:
    """Equal in all columns of one type, so that each row belongs to the others."""
    row = {column.name: _value(column) for column in table.c}
    named = {"namespace": "default", "branch": "main"}
    return row | {name: value for name, value in named.items() if name in row}


def _value(column: Column[Any]) -> object:
    match column.type:
        case LargeBinary():
            return bytes(32)
        case Boolean():
            return True
        case BigInteger():
            return 1
        case Double():
            return 1.5
        case Text():
            return "x"
        case other:
            raise AssertionError(f"{column}: {other}")


def _of(engine: Engine, table: Table, branch: str) -> list[tuple[object, ...]]:
    """Rows of a branch, without its name."""
    others = [column for column in table.c if column.name != "branch"]
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(*others).where(table.c.branch == branch))]


def test_every_table_is_copied_or_there_is_a_reason_why_not(engine: Engine) -> None:
    copied = set[str]()
    for name in KNOWING:
        table = metadata.tables[name]
        [row] = _of(engine, table, "main")
        if row in _of(engine, table, "dev"):
            copied.add(name)
    assert copied == set(KNOWING) - NOT_COPIED.keys()


def test_reasons_are_of_tables_that_know_branches() -> None:
    assert NOT_COPIED.keys() <= set(KNOWING)
