"""States of datasets, what keeps them from settling, and how far projections have followed them.

Does not belong here: why a state is right; the integrity checks come before the commit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    CompoundSelect,
    Row,
    Select,
    and_,
    cast,
    null,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy import bindparam as bind

from controlplane.core.errors import StaleState
from controlplane.core.model import change_marks
from controlplane.core.model.branches import MAIN
from controlplane.core.model.event_times import EventTimes, PartitionTime
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.holds import Hold
from controlplane.core.model.json_values import JsonValue
from controlplane.core.model.pins import FileColumns, Pin, Widening
from controlplane.core.model.projections import NO_CONTENT, Publication, Target
from controlplane.core.model.states import Consumed, PartialState, State, UnfinishedRun
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup
from controlplane.store.sql.queue import SqlQueue
from controlplane.store.sql.row_records import Record, dump
from controlplane.store.sql.snapshots import SqlSnapshots
from controlplane.store.sql.statements import equal, one_of, over_main
from dataplane.contract.schemas import Schema

_STATE, _HEAD, _HALF, _RUN = db.states.c, db.heads.c, db.buildings.c, db.unfinished.c


def _all_and_some(statement: Select[Any], column: Column[Any]) -> tuple[Select[Any], Select[Any]]:
    return statement, statement.where(one_of(column))


def _of_head(seq: ColumnElement[bool]) -> Select[Any]:
    same = (
        (_HEAD.namespace == _STATE.namespace)
        & (_HEAD.branch == _STATE.branch)
        & (_HEAD.dataset == _STATE.dataset)
    )
    return select(db.states).join(db.heads, same & seq)


_NEWEST = _of_head(_HEAD.seq == _STATE.seq)
_OWN = _all_and_some(
    _NEWEST.where(equal(db.states, "branch"), equal(db.heads, "branch")), _HEAD.dataset
)
_OWN_AND_MAINS = _all_and_some(
    _NEWEST.where(over_main(db.states), over_main(db.heads)), _HEAD.dataset
)
_RECENT = _all_and_some(
    _of_head(_STATE.seq > _HEAD.seq - bind("n", type_=BigInteger))
    .where(equal(db.states, "branch"))
    .order_by(_STATE.dataset, _STATE.seq.desc()),
    _STATE.dataset,
)
_SETTLED = select(db.states).where(
    over_main(db.states), one_of(_STATE.seq, "seqs"), one_of(_STATE.dataset)
)
_OF_HEADS = equal(db.heads, "branch") & one_of(_HEAD.dataset)
_ADVANCE = update(db.heads).where(_OF_HEADS).values(seq=_HEAD.seq + 1)
_ADVANCE = _ADVANCE.returning(_HEAD.dataset, _HEAD.seq)
_STEP_BACK = update(db.heads).where(_OF_HEADS).values(seq=_HEAD.seq - 1)
_PINS = select(db.pins).where(over_main(db.pins), one_of(db.pins.c.dataset))


def _unfinished(*names: ColumnElement[bool]) -> CompoundSelect[Any]:
    """Runs under way have no root, and states in place of inputs. `names`: conditions of both
    tables."""
    nothing = cast(null(), _HALF.root.type)
    halves = select(
        _HALF.branch,
        _HALF.dataset,
        _HALF.lineage,
        _HALF.inputs,
        _HALF.root,
        _HALF.schema,
        _HALF.cut,
    )
    runs = select(_RUN.branch, _RUN.dataset, _RUN.lineage, _RUN.states, nothing, nothing, _RUN.cut)
    of_halves, of_runs = names or (true(), true())
    return union_all(
        halves.where(equal(db.buildings, "branch"), of_halves),
        runs.where(equal(db.unfinished, "branch"), of_runs),
    )


_UNFINISHED = _unfinished()
_UNFINISHED_SOME = _unfinished(one_of(_HALF.dataset), one_of(_RUN.dataset))
_MARK = db.marks.c
_NEWER_MARKS = select(_MARK.name, _MARK.at).where(
    equal(db.marks), _MARK.at > bind("after", type_=BigInteger), one_of(_MARK.branch, "branches")
)
_TARGETS = _all_and_some(
    select(db.targets, db.wishes.c.order, db.wishes.c.wish)
    .outerjoin(
        db.wishes,
        and_(*(db.targets.c[k] == db.wishes.c[k] for k in ("namespace", "branch", "component"))),
    )
    .where(equal(db.targets, "branch")),
    db.targets.c.component,
)


PACKED = ("inputs", "schema", "cut")
_HOLDS = Record(db.holds, Hold)
_STATES = Record(db.states, State, **dict.fromkeys(PACKED))
_BUILDINGS = Record(db.buildings, PartialState, **dict.fromkeys(PACKED))
PUBLICATIONS = Record(db.publications, Publication)
_COPIES = Record(db.targets, Target, order=None, content_digest=None)


class SqlStates(TableGroup):
    def __init__(
        self, transaction: OpenTransaction, snapshots: SqlSnapshots, queue: SqlQueue
    ) -> None:
        super().__init__(transaction)
        self._snapshots = snapshots
        self._queue = queue

    def newest(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, State]:
        if branch == MAIN:
            return self._own_states(MAIN, datasets)
        if self._snapshots.base(branch) is None:
            return self._states_over_main(branch, datasets)
        own = self._own_states(branch, datasets)
        missing = None if datasets is None else [d for d in datasets if d not in own]
        return {**self._states_of_main(branch, missing), **own}

    def _states_over_main(self, branch: str, datasets: Iterable[str] | None) -> dict[str, State]:
        """The branch's own, and main's where it has none, in one look-up."""
        rows: dict[str, Row[Any]] = {}
        for row in self._all_or_some(_OWN_AND_MAINS, datasets, of_branch=branch):
            if row.branch == branch or row.dataset not in rows:
                rows[row.dataset] = row
        return {s.dataset: s for s in self._read_states(list(rows.values()))}

    def _states_of_main(self, branch: str, datasets: Iterable[str] | None) -> dict[str, State]:
        """As this branch sees them."""
        moved = self._heads_moved(branch, datasets)
        states = {
            name: state
            for name, state in self._own_states(MAIN, datasets).items()
            if name not in moved
        }
        there = ((name, seq) for name, seq in moved.items() if seq)
        return {**states, **{state.dataset: state for state in self.settled(MAIN, there)}}

    def _heads_moved(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, int]:
        """Where main was, as this branch sees it; 0: it had no state."""
        return {
            name: int(str(seq))
            for name, seq in self._snapshots.moved("head", branch, datasets).items()
        }

    def _own_states(self, branch: str, datasets: Iterable[str] | None) -> dict[str, State]:
        rows = self._all_or_some(_OWN, datasets, of_branch=branch)
        return {s.dataset: s for s in self._read_states(list(rows))}

    def history(
        self, branch: str, dataset: str, limit: int, before_seq: int | None = None
    ) -> tuple[State, ...]:
        own = self._own_history(branch, dataset, limit, before_seq)
        if branch == MAIN or len(own) == limit:
            return own
        head = self._row_of(db.heads, branch=branch, dataset=dataset)
        if head is not None and (before_seq is None or before_seq > head.fork):
            before_seq = head.fork + 1
        if head is None and (heads := self._heads_moved(branch, [dataset])):
            before_seq = min(before_seq or heads[dataset] + 1, heads[dataset] + 1)
        return own + self._own_history(MAIN, dataset, limit - len(own), before_seq)

    def _own_history(
        self, branch: str, dataset: str, limit: int, before_seq: int | None
    ) -> tuple[State, ...]:
        statement = self._select(db.states, branch=branch, dataset=dataset)
        if before_seq is not None:
            statement = statement.where(db.states.c.seq < before_seq)
        return self._read_states(
            self._rows(statement.order_by(db.states.c.seq.desc()).limit(limit))
        )

    def recent(
        self, branch: str, datasets: Iterable[str] | None, n: int
    ) -> dict[str, tuple[State, ...]]:
        own = self._own_recent_states(branch, datasets, n)
        if branch == MAIN:
            return own
        missing = None if datasets is None else [d for d in datasets if d not in own]
        for dataset, states in own.items():
            if len(states) < n:  # the others may be main's
                line = self.history(branch, dataset, n)
                own[dataset] = tuple(s for s in line if s.seq > states[0].seq - n)
        others = self._own_recent_states(MAIN, missing, n)
        for dataset, seq in self._heads_moved(branch, missing).items():
            line = self.history(branch, dataset, n) if dataset not in own and seq else ()
            others[dataset] = tuple(s for s in line if s.seq > seq - n)
        return {dataset: states for dataset, states in {**others, **own}.items() if states}

    def _own_recent_states(
        self, branch: str, datasets: Iterable[str] | None, n: int
    ) -> dict[str, tuple[State, ...]]:
        rows = list(self._all_or_some(_RECENT, datasets, of_branch=branch, n=n))
        recent: dict[str, list[State]] = {}
        for state in self._read_states(rows):
            recent.setdefault(state.dataset, []).append(state)
        return {dataset: tuple(states) for dataset, states in recent.items()}

    def _read_states(self, rows: Sequence[Row[Any]]) -> tuple[State, ...]:
        schemas = self._schemas(row.schema for row in rows)
        return tuple(_STATES.from_row(row, **_unpacked(row, schemas)) for row in rows)

    def commit(self, state: State, expected_seq: int) -> None:
        if state.seq != expected_seq + 1 or self.commit_all(state.branch, [state]):
            raise StaleState(f"{state.dataset} is not at state {expected_seq}")

    def commit_all(self, branch: str, states: Sequence[State]) -> frozenset[str]:
        moved = self._heads_advanced(branch, {s.dataset: s.seq for s in states})
        committed = [s for s in states if moved.get(s.dataset) or self._begins(s, moved)]
        for state in committed:
            self._mark(branch, state.dataset)
            self._snapshots.note_move("head", branch, state.dataset, state.seq - 1)
        schemas = self._put_schemas([s.schema for s in committed])
        rows = zip(committed, schemas, strict=True)
        self._insert(db.states, [_STATES.to_row(s) | _packed(s, schema) for s, schema in rows])
        return frozenset(s.dataset for s in states) - {s.dataset for s in committed}

    def _heads_advanced(self, branch: str, seqs: Mapping[str, int]) -> dict[str, bool]:
        """Whether each head that there is came to its number. The others stay where they are."""
        rows = self._rows_by(_ADVANCE, seqs, of_branch=branch)
        moved = {row.dataset: row.seq == seqs[row.dataset] for row in rows}
        stale = [dataset for dataset, is_right in moved.items() if not is_right]
        self._change_by(_STEP_BACK, stale, of_branch=branch)
        return moved

    def _begins(self, state: State, there: Collection[str]) -> bool:
        """Whether it became the first state of its dataset in its branch."""
        if state.dataset in there:
            return False
        of = {"branch": state.branch, "dataset": state.dataset, "seq": state.seq}
        expected_seq = state.seq - 1
        if state.branch == MAIN:
            return expected_seq == 0 and self._insert_one(db.heads, **of)
        return self._is_at_main(state, expected_seq) and self._insert_one(
            db.heads, **of, fork=expected_seq
        )

    def _is_at_main(self, state: State, expected_seq: int) -> bool:
        """Whether `expected_seq` is the state that a branch's dataset shares with main."""
        if state.branch == MAIN:
            return False
        moved = self._heads_moved(state.branch, [state.dataset])
        if moved:
            return expected_seq == moved[state.dataset]
        head = self._row_of(db.heads, branch=MAIN, dataset=state.dataset)
        return expected_seq == (head.seq if head is not None else 0)

    def pinned_schemas(self, branch: str, datasets: Iterable[str]) -> dict[str, Pin]:
        names = list(datasets)
        rows = list(self._rows_by(_PINS, names, of_branch=branch))
        moved = {
            name: _pin_of(stored)
            for name, stored in self._snapshots.moved("pin", branch, names).items()
        }
        of_main = {row.dataset: _pin(row) for row in rows if row.branch == MAIN} | moved
        own = {row.dataset: _pin(row) for row in rows if row.branch != MAIN}
        return {name: pin for name, pin in {**of_main, **own}.items() if pin is not None}

    def pin_schema(self, branch: str, dataset: str, pin: Pin) -> None:
        self._mark(branch, dataset)
        if branch == MAIN:
            before = self._row_of(db.pins, branch=MAIN, dataset=dataset)
            self._snapshots.note_move("pin", MAIN, dataset, _reported_pin(before))
        row = {"branch": branch, "dataset": dataset, "settings": pin.settings}
        columns = {"schema": dump(pin.schema), "widened": _pin_text(pin)}
        self._upsert(db.pins, [{**row, **columns}])

    # --- half-built datasets

    def unfinished(
        self, branch: str, datasets: Iterable[str] | None = None
    ) -> tuple[dict[str, PartialState], dict[str, UnfinishedRun]]:
        rows = list(self._all_or_some((_UNFINISHED, _UNFINISHED_SOME), datasets, of_branch=branch))
        halves, unfinished = (
            [r for r in rows if r.root is not None],
            [r for r in rows if r.root is None],
        )
        schemas = self._schemas(row.schema for row in halves if row.schema is not None)
        buildings = (_BUILDINGS.from_row(row, **_unpacked(row, schemas)) for row in halves)
        runs = map(_unfinished_run, unfinished)
        return {half.dataset: half for half in buildings}, {run.dataset: run for run in runs}

    def put_building(self, building: PartialState) -> None:
        self._mark(building.branch, change_marks.progress(building.dataset))
        (schema,) = self._put_schemas([building.schema]) if building.schema is not None else (None,)
        row = _BUILDINGS.to_row(building) | _packed(building, schema)
        self._upsert(db.buildings, [row | {"at": self._now()}])

    def drop_building(self, branch: str, dataset: str) -> None:
        self._mark(branch, change_marks.progress(dataset))
        self._delete(db.buildings, branch=branch, dataset=dataset)

    # --- runs under way

    def settled(self, branch: str, states: Iterable[tuple[str, int]]) -> tuple[State, ...]:
        keys = set(states)
        seqs = list({seq for _, seq in keys})
        rows = self._rows_by(
            _SETTLED, (dataset for dataset, _ in keys), of_branch=branch, seqs=seqs
        )
        own_last = sorted(rows, key=lambda row: row.branch != MAIN)
        rows_by_key = {
            (row.dataset, row.seq): row for row in own_last if (row.dataset, row.seq) in keys
        }
        return self._read_states(list(rows_by_key.values()))

    def put_unfinished(self, unfinished: UnfinishedRun) -> None:
        self._queue.lock()  # who ends a run ends its tasks as well: both in one order
        self._mark(unfinished.branch, change_marks.progress(unfinished.dataset))
        self._upsert(db.unfinished, [_unfinished_row(unfinished)])

    def drop_unfinished(self, branch: str, datasets: Iterable[str]) -> None:
        names = list(datasets)
        if not names:
            return
        self._queue.lock()
        self._mark(branch, *map(change_marks.progress, names))
        self._delete_among(db.unfinished, "dataset", names, branch=branch)

    # --- holds of datasets

    def holds(self, branch: str) -> dict[str, Hold]:
        return {hold.dataset: hold for hold in self._values_of(_HOLDS, branch=branch)}

    def put_hold(self, hold: Hold) -> None:
        self._put(_HOLDS, [hold])
        self._mark(hold.branch, change_marks.HOLDS, hold.dataset)

    def drop_holds(self, branch: str, datasets: Iterable[str]) -> None:
        names = list(datasets)
        if not names:
            return
        self._delete_among(db.holds, "dataset", names, branch=branch)
        self._mark(branch, change_marks.HOLDS, *names)

    # --- reports

    def marked(self, branch: str, after: int) -> tuple[int, frozenset[str]]:
        sources = {NO_BRANCH, MAIN, branch} if self._snapshots.base(branch) is None else {branch}
        # As it was read a moment ago
        if self._transaction.counters.pop("marks", after + 1) <= after:
            return after, frozenset()
        rows = self._rows(_NEWER_MARKS, after=after, branches=list(sources))
        return max((row.at for row in rows), default=after), frozenset(row.name for row in rows)


class SqlProjections(TableGroup):
    def publications(
        self, branch: str, datasets: Iterable[str] | None = None
    ) -> dict[str, Publication]:
        rows = self._rows_if(db.publications, "dataset", datasets, branch=branch)
        return {publication.dataset: publication for publication in PUBLICATIONS.from_rows(rows)}

    def branch_publications(self) -> tuple[Publication, ...]:
        of = self._select(db.publications).where(db.publications.c.branch != MAIN)
        publications = PUBLICATIONS.from_rows(self._rows(of))
        return tuple(sorted(publications, key=lambda p: (p.branch, p.dataset)))

    def put_publication(self, publication: Publication) -> None:
        self._put(PUBLICATIONS, [publication])

    def drop_publication(self, branch: str, dataset: str) -> None:
        self._delete(db.publications, branch=branch, dataset=dataset)

    def targets(self, branch: str, components: Iterable[str] | None = None) -> dict[str, Target]:
        rows = self._all_or_some(_TARGETS, components, of_branch=branch)
        return {row.component: _target(row) for row in rows}

    def put_target(self, target: Target) -> None:
        self._mark(target.branch, target.component)
        self._put(_COPIES, [target])
        of = {"branch": target.branch, "component": target.component}
        self._upsert(db.wishes, [{**of, "order": target.order, "wish": target.content_digest}])


def _pin(row: Row[Any]) -> Pin | None:
    return Pin(row.settings, json.loads(row.schema), *_pin_parts(row.widened))


def _reported_pin(row: Row[Any] | None) -> JsonValue:
    """As it is kept for pinned branches."""
    return None if row is None else [row.settings.hex(), row.schema, row.widened]


def _pin_of(stored: Any) -> Pin | None:
    return (
        None
        if stored is None
        else Pin(bytes.fromhex(stored[0]), json.loads(stored[1]), *_pin_parts(stored[2]))
    )


def _packed(state: State | PartialState, schema: bytes | None) -> dict[str, Any]:
    """Columns of states and of half-built ones."""
    inputs = {name: _input_row(consumed) for name, consumed in state.inputs.items()}
    return {"inputs": dump(inputs), "cut": _cut_text(state.cut), "schema": schema}


def _unpacked(row: Row[Any], schemas: Mapping[bytes, Schema]) -> dict[str, Any]:
    inputs = {name: _consumed(*stored) for name, stored in json.loads(row.inputs).items()}
    schema = None if row.schema is None else schemas[row.schema]
    return {"inputs": inputs, "cut": _cut(row.cut), "schema": schema}


def _input_row(consumed: Consumed) -> list[JsonValue]:
    """Times stand behind the rest, where there are any."""
    row: list[JsonValue] = [consumed.dataset, consumed.root.hex(), consumed.schema.hex()]
    times = consumed.times
    if times is not None:
        newest: list[JsonValue] = [list(time) for time in times.newest]
        fields: list[JsonValue] = [times.column, newest, times.ahead]
        return [*row, consumed.watermark_us, [*fields, times.rows] if times.rows else fields]
    return row if consumed.watermark_us is None else [*row, consumed.watermark_us]


def _consumed(
    dataset: str, root: str, schema: str, watermark_us: int | None = None, times: Any = None
) -> Consumed:
    event_times = None
    if times is not None:
        column, newest, *counts = times
        event_times = EventTimes(column, tuple(PartitionTime(*of) for of in newest), *counts)
    return Consumed(dataset, bytes.fromhex(root), bytes.fromhex(schema), event_times, watermark_us)


def _cut(text: str) -> dict[str, bytes]:
    return {source: bytes.fromhex(root) for source, root in json.loads(text).items()}


def _cut_text(cut: Mapping[str, bytes]) -> str:
    return dump({source: root.hex() for source, root in cut.items()})


def _unfinished_run(row: Row[Any]) -> UnfinishedRun:
    return UnfinishedRun(
        row.branch, row.dataset, row.lineage, json.loads(row.inputs), _cut(row.cut)
    )


def _unfinished_row(unfinished: UnfinishedRun) -> dict[str, Any]:
    return {
        "branch": unfinished.branch,
        "dataset": unfinished.dataset,
        "lineage": unfinished.lineage,
        "states": dump(unfinished.states),
        "cut": _cut_text(unfinished.cut),
    }


def _target(row: Row[Any]) -> Target:
    return _COPIES.from_row(row, order=row.order or 0, content_digest=row.wish or NO_CONTENT)


def _pin_text(pin: Pin) -> str | None:
    """The causes of wider types, and the history, if there is one."""
    widened = [
        [w.column, w.before, w.after, [[key, source.hex()] for key, source in w.causes]]
        for w in pin.widened
    ]
    if pin.history is None:
        return dump(widened) if widened else None
    places = [[path, name, at] for path, (name, at) in pin.history.places.items()]
    return dump({"widened": widened, "places": places, "empty": sorted(pin.history.empty)})


def _pin_parts(text: str | None) -> tuple[tuple[Widening, ...], FileColumns | None]:
    """Pins of versions before have a list of what made types wider, or nothing."""
    parts = json.loads(text) if text else []
    if isinstance(parts, list):
        return tuple(_widened(parts)), None
    places = {path: (name, at) for path, name, at in parts["places"]}
    return tuple(_widened(parts["widened"])), FileColumns(places, frozenset(parts["empty"]))


def _widened(parts: Iterable[Any]) -> Iterator[Widening]:
    for column, before, after, causes in parts:
        yield Widening(
            column, before, after, tuple((key, bytes.fromhex(source)) for key, source in causes)
        )
