"""One state of a dataset by its address: by generation, by time, the newest, the oldest.

The primary key of states is walked from one end: the database stops at the first match, and sends
one row. Does not belong here: several states at once (`states`), and the consequence of a missing
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Select, Subquery, asc, desc, func, select, union_all

from controlplane.core.model.addresses import Generation, Moment, Point
from controlplane.core.model.branches import MAIN
from controlplane.core.model.states import State
from controlplane.store.sql import tables as db
from controlplane.store.sql.statements import select_rows
from controlplane.store.sql.states import SqlStates

Condition: TypeAlias = ColumnElement[bool]
Order: TypeAlias = Callable[[Any], ColumnElement[Any]]
ALL_STATES = 2**62  # no state has a higher number
_NEWEST = select_rows(db.states, "branch", "dataset").order_by(desc(db.states.c.seq)).limit(1)


class SqlPastStates(SqlStates):
    def find(self, branch: str, dataset: str, point: Point | None = None) -> State | None:
        if point is None and branch == MAIN:
            row = self._row(_NEWEST, of_branch=branch, of_dataset=dataset)
            return None if row is None else self._read_states([row])[0]
        return self._first_state(branch, dataset, _meant(point), desc)

    def oldest(self, branch: str, dataset: str) -> State | None:
        return self._first_state(branch, dataset, [], asc)

    def _first_state(
        self, branch: str, dataset: str, which: Sequence[Condition], order: Order
    ) -> State | None:
        """One statement reads a branch's own states and those that it shares, each by the primary
        key."""
        states = self._select(db.states, branch=branch, dataset=dataset).where(*which)
        if branch != MAIN:
            shared = self._select(db.states, branch=MAIN, dataset=dataset).where(
                *which, *self._shared(branch, dataset)
            )
            both = union_all(
                select(_first(states, order)), select(_first(shared, order))
            ).subquery()
            states = select(both)
        seq = states.selected_columns.seq
        row = self._row(states.order_by(order(seq)).limit(1))
        return None if row is None else self._read_states([row])[0]

    def _shared(self, branch: str, dataset: str) -> list[Condition]:
        """Which of main's states a branch goes on from: up to the fork, or all that it sees; none
        where the dataflow is deleted."""
        fork = (
            select(db.heads.c.fork)
            .where(self._mine(db.heads, branch=branch, dataset=dataset))
            .scalar_subquery()
        )
        dataflow = dataset.partition(".")[0]
        deleted = self._mine(db.dataflows, branch=branch, dataflow=dataflow, is_live=False)
        is_there = ~select(db.dataflows.c.dataflow).where(deleted).exists()
        last_seq = self._heads_moved(branch, [dataset]).get(dataset, ALL_STATES)
        return [db.states.c.seq <= func.coalesce(fork, last_seq), is_there]


def _meant(point: Point | None) -> list[Condition]:
    match point:
        case Generation(number):
            return [db.states.c.generation == number]
        case Moment(end=end):
            return [db.states.c.at < end]
        case None:
            return []


def _first(states: Select[Any], order: Order) -> Subquery:
    return states.order_by(order(db.states.c.seq)).limit(1).subquery()
