"""Main as it was when a branch was pinned: pointers that main has moved since keep their former
values, for as long as some pinned branch sees them.

Nothing is written for a pinned branch when it is made. Each later transaction that moves a pointer
of main records its former value once. Both numbers are those of marks: they grow in the order in
which transactions become visible, and who draws one sees the branches of all that drew one before.
Does not belong here: rows that are never changed (states, revisions).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, delete, func, select
from sqlalchemy import bindparam as bind

from controlplane.core.model.branches import MAIN
from controlplane.core.model.json_values import JsonValue
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup
from controlplane.store.sql.row_records import dump
from controlplane.store.sql.statements import equal, one_of, update_rows

Pointer: TypeAlias = Literal["head", "dataflow", "pause", "force", "pin"]
NOW = 2**62  # a base until the transaction that sets it ends: later than all that has happened

_MOVE, _BASE = db.replaced.c, db.branches.c.base
_NUMBER = bind("number", type_=BigInteger)
_LATER = select(_MOVE.name, _MOVE.until, _MOVE.value).where(
    equal(db.replaced, "kind"), _MOVE.until > _NUMBER
)
_LATER_SOME = _LATER.where(one_of(_MOVE.name))
_NOTED = select(_MOVE.kind, _MOVE.name).where(
    equal(db.replaced), _MOVE.until > _NUMBER, one_of(_MOVE.name)
)
_NEWEST_BASE = select(func.max(_BASE)).where(equal(db.branches), _BASE < _NUMBER)
_OLDEST_BASE = select(func.min(_BASE)).where(equal(db.branches))
_FORGET = delete(db.replaced).where(equal(db.replaced), _MOVE.until <= _NUMBER)


class SqlSnapshots(TableGroup):
    """Main as branches see it, and the marks and moves that are written when the transaction
    ends."""

    def __init__(self, transaction: OpenTransaction) -> None:
        super().__init__(transaction)
        self._bases: dict[str, int | None] = {}  # of branches, as far as they were read
        # Pointers of main, and their former values
        self._new_moves: dict[tuple[str, str], JsonValue] = {}
        self._rebased: set[str] = set()  # branches that are pinned to the end of this transaction

    def base(self, branch: str) -> int | None:
        """The last number of main's that a pinned branch sees."""
        if branch == MAIN:
            return None
        if branch not in self._bases:
            row = self._row_of(db.branches, name=branch)
            self._bases[branch] = None if row is None else row.base
        return self._bases[branch]

    def note_base(self, branch: str, base: int | None) -> None:
        """A branch that was read, or is new; with `NOW` it is pinned to the end of this
        transaction."""
        self._bases[branch] = base
        if base == NOW:
            self._rebased.add(branch)

    def rebase(self, branch: str) -> None:
        """The branch's row was set to `NOW`."""
        self._bases.pop(branch, None)
        self._rebased.add(branch)

    def drop_base(self, branch: str) -> None:
        """The branch is gone; former values that it alone saw go."""
        self._bases.pop(branch, None)
        self._rebased.discard(branch)
        self.forget_moves()

    def moved(
        self, pointer: Pointer, branch: str, names: Iterable[str] | None = None
    ) -> Mapping[str, JsonValue]:
        """Pointers of main that differ from those that this branch sees, with the latter; of these
        names, or all."""
        base = self.base(branch)
        if base is None:
            return {}
        names = None if names is None else list(names)
        rows = self._all_or_some((_LATER, _LATER_SOME), names, of_kind=pointer, number=base)
        latest_first = sorted(rows, key=lambda row: -row.until)
        # The first move since counts
        noted = {row.name: json.loads(row.value) for row in latest_first}
        return (
            noted
            if base == NOW or not self._new_moves
            else {**self._moving(pointer, names), **noted}
        )

    def _moving(self, pointer: Pointer, names: Iterable[str] | None) -> dict[str, JsonValue]:
        """Moves of this transaction."""
        chosen = None if names is None else set(names)
        moves = {name: before for (of, name), before in self._new_moves.items() if of == pointer}
        return {name: before for name, before in moves.items() if chosen is None or name in chosen}

    def note_move(self, pointer: Pointer, branch: str, name: str, before: JsonValue) -> None:
        """A pointer of main is moved; `before` is JSON."""
        if branch == MAIN:
            self._new_moves.setdefault((pointer, name), before)

    def write_marks(self, number: int) -> None:
        """Written when the transaction ends: numbers then grow in the order in which transactions
        become visible, so that a reader who remembers the last number never misses one."""
        if marks := self._transaction.marks:
            self._upsert(
                db.marks, [{"branch": branch, "name": name, "at": number} for branch, name in marks]
            )
            marks.clear()
            self._write_moves(number)

    def _write_moves(self, number: int) -> None:
        """With the number of this transaction, which it holds until it ends."""
        for name in self._rebased:
            self._change(update_rows(db.branches, "name"), of_name=name, base=number)
        if self._new_moves:
            base = self._run(_NEWEST_BASE, number=number).scalar()
            if base is not None:
                self._insert_moves(number, base)
        if self._rebased:
            self.forget_moves()
        self._new_moves.clear()
        self._rebased.clear()

    def _insert_moves(self, number: int, base: int) -> None:
        """What no move since the newest base has noted already."""
        names = dict.fromkeys(name for _, name in self._new_moves)
        there = {(row.kind, row.name) for row in self._rows_by(_NOTED, names, number=base)}
        rows = [
            {
                "kind": pointer,
                "name": name,
                "until": number,
                "value": dump(before),
                "seq": before if pointer == "head" else None,
            }
            for (pointer, name), before in self._new_moves.items()
            if (pointer, name) not in there
        ]
        self._insert(db.replaced, rows)

    def forget_moves(self) -> None:
        """Drop pointers that no pinned branch sees any longer."""
        first = self._run(_OLDEST_BASE).scalar()
        if first is None:
            self._delete(db.replaced)
        else:
            self._change(_FORGET, number=first)


def is_held() -> ColumnElement[bool]:
    """Whether a pinned branch sees a state as main's."""
    state, row = db.states.c, db.replaced.c
    same = (row.namespace == state.namespace) & (row.kind == "head") & (row.name == state.dataset)
    held = select(row.value).where(same, row.seq == state.seq).correlate(db.states).exists()
    return (state.branch == MAIN) & held
