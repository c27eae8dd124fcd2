"""What a branch costs beside a main of any size, counted: seconds, SQL statements, rows written,
states of main read.

Does not belong here: how large main is (graph, seed), and what is kept of the numbers
(`benchmarks.branches`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from sqlalchemy import Column, ColumnElement, Table, create_engine, func, insert, select

from benchmarks.planning import ours
from benchmarks.planning.graph import Shape
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.planner import Planner
from controlplane.ports.store import Tx
from controlplane.reconciler.branching import Branching
from controlplane.reconciler.loop import WINDOW
from controlplane.store.sql import tables
from controlplane.store.sql.branches import COPIED

SEEDED = "graph"  # how names of dataflows begin, and of datasets with them


@dataclass(slots=True)
class Cost:
    """Of one call. `cpu_s`: of this process, which is SQLite's, too. `rows`: how many there are
    more than before, in all tables; `states`: how many were read."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    statements: int = 0
    rows: int = 0
    states: int = 0


@dataclass(slots=True)
class Beside:
    """A main at rest, and what is asked of branches beside it."""

    url: str
    shape: Shape
    store: ours.Counted = field(init=False)
    _main: Planner = field(init=False)
    _branching: Branching = field(init=False)

    def __post_init__(self) -> None:
        self.store = ours.open_counted(self.url)
        self._main = Planner(self.store, ours.NAMESPACE, window=WINDOW)
        self._branching = Branching(
            self.store,
            ours.NAMESPACE,
            self._main,
            FailingUnits(),
            window=WINDOW,
            since_trace=0,
            clock=lambda: 0.0,
        )

    def multiply(self, times: int) -> None:
        """Let main have so many times as many dataflows and datasets: rows as theirs under other
        names. Branches are made beside them and read through them; a pass would not understand
        their texts."""
        engine = create_engine(self.url)
        with engine.begin() as connection:
            for table, number in product(COPIED, range(1, times)):
                columns = [_renamed(column, number) for column in table.c]
                rows = select(*columns).where(table.c.branch == ours.MAIN, _is_seeded(table))
                connection.execute(
                    insert(table).from_select([column.name for column in table.c], rows)
                )
        engine.dispose()

    def close(self) -> None:
        self.store.close()

    def create(self, name: str, *, pinned: bool = False) -> Cost:
        """As `headgate branch create` does."""
        with self._costing(rows=True) as cost:
            branches.create(Context(self.store), name, pinned=pinned)
        return cost

    def drop(self, name: str) -> None:
        branches.delete(Context(self.store), name)

    def head(self, branch: str) -> Cost:
        """The newest state of one dataset."""
        return self._reading(lambda tx: tx.states.newest(branch, [self.shape.sink]))

    def heads(self, branch: str) -> Cost:
        """Those of all datasets."""
        return self._reading(lambda tx: tx.states.newest(branch))

    def text(self, branch: str) -> Cost:
        """The newest revision of one dataflow."""
        return self._reading(lambda tx: tx.blueprints.revisions(branch, [self.shape.flow(0)]))

    def one_pass(self) -> Cost:
        """Main is looked at, then each branch. Raises AssertionError where there is anything to
        do."""
        with self._costing() as cost:
            plan = self._main.plan()
            done = self._branching.settle()
        assert not plan.items, f"{len(plan.items)} items of work in main, where there is none"
        assert (done.changed, done.under_way) == (0, 0), f"{done} where there is nothing to do"
        return cost

    def planned(self, branch: str) -> int:
        """How many datasets the last pass planned for the branch itself."""
        return self.shape.components - len(self._branching.shared_by(branch))

    def _reading(self, read: Callable[[Tx], object]) -> Cost:
        with self._costing() as cost, self.store.read() as tx:
            read(tx)
        return cost

    @contextmanager
    def _costing(self, *, rows: bool = False) -> Iterator[Cost]:
        cost = Cost(rows=-self._rows() if rows else 0)
        statements, states = self.store.statements, self.store.states_read
        began, cpu_began = time.perf_counter(), time.process_time()
        yield cost
        cost.seconds, cost.cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        cost.statements = self.store.statements - statements
        cost.states = self.store.states_read - states
        cost.rows += self._rows() if rows else 0

    def _rows(self) -> int:
        engine = create_engine(self.url)
        with engine.connect() as connection:
            counts = [
                select(func.count()).select_from(table) for table in tables.metadata.sorted_tables
            ]
            total = sum(connection.execute(count).scalar_one() for count in counts)
        engine.dispose()
        return total


def _name(table: Table) -> Column[Any]:
    """The column after the branch in the primary key: what a row is about."""
    return list(table.primary_key)[2]


def _is_seeded(table: Table) -> ColumnElement[bool]:
    return _name(table).startswith(SEEDED)


def _renamed(column: Column[Any], number: int) -> ColumnElement[Any]:
    is_name = column is _name(column.table)
    return func.replace(column, SEEDED, f"more{number}_{SEEDED}") if is_name else column
