"""Packing as a habit: while nothing else is to be done, now and then. `projections.compaction`
decides which packs are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.core.compile.nodes import Node
from controlplane.core.model.states import State
from controlplane.operations.projections import compaction
from controlplane.ports.store import Store

LOOK_S = 60.0


@dataclass(slots=True)
class Packing:
    """`look_again` hears that tables may lag behind although no state has moved, `notify` that there
    are new tasks."""

    store: Store
    namespace: str
    branch: str
    look_again: Callable[[], None]
    notify: Callable[[], None]
    _open: frozenset[str] = frozenset()  # datasets that packs are being made for
    _looked: float = field(default=float("-inf"))
    _marks: dict[str, tuple[int, bool]] = field(default_factory=dict)

    def step(self, states: Sequence[State], nodes: Mapping[str, Node], now_s: float) -> bool:
        """To be called often while idle; `now_s` is any clock that goes on. True while packs are
        being made."""
        if self._open:
            self._open = compaction.still_open(self.store, self.namespace, self.branch, self._open)
            if not self._open:
                self.look_again()
            return bool(self._open)
        if now_s - self._looked < LOOK_S:
            return False
        self._looked = now_s
        self.look_again()
        self._open = compaction.ask(self.store, self.namespace, self._due(states), nodes)
        if self._open:
            self.notify()
        # There may be more
        self._marks = {name: mark for name, mark in self._marks.items() if name not in self._open}
        return bool(self._open)

    def _due(self, states: Sequence[State]) -> list[State]:
        """Each once when it is new, and once when it has been left alone for a while."""
        with self.store.read(self.namespace) as tx:
            now = tx.now()
        marks = {s.dataset: (s.seq, compaction.is_quiet(s, now)) for s in states}
        due = [s for s in states if self._marks.get(s.dataset) != marks[s.dataset]]
        self._marks = marks
        return due
