"""Main as it was when a branch was pinned: pointers that main has moved since keep their former
values.

Does not belong here: immutable rows (states, revisions).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.core.model.branches import MAIN
from tests.property.memory_store.queue import MemoryQueue
from tests.property.memory_store.tables import CowDict, Named, NamespaceTables

NOW = 2**62  # a base until the transaction that sets it ends


class MemorySnapshots(MemoryQueue):
    def __init__(self, space: NamespaceTables, namespace: str, now: float) -> None:
        super().__init__(space, namespace, now)
        self._new_moves: dict[tuple[str, str], object] = {}  # pointers of main, and what they were

    def _base(self, branch: str) -> int | None:
        """The last number of main's marks that a pinned branch sees."""
        return self._space.bases.get(branch)

    def _moved(self, pointer: str, branch: str) -> dict[str, Any]:
        """Pointers of main that differ from those that this branch sees, with the latter."""
        base = self._base(branch)
        if base is None:
            return {}
        later = [(k, v) for k, v in self._space.replaced.items() if k[0] == pointer and k[2] > base]
        latest_first = sorted(later, key=lambda found: -found[0][2])
        noted = {name: value for (_, name, _), value in latest_first}  # the first move since counts
        moving = {
            name: value
            for (of, name), value in self._new_moves.items()
            if of == pointer and base != NOW
        }
        return {**moving, **noted}

    def _note_move(self, pointer: str, branch: str, name: str, before: object) -> None:
        """A pointer of main is moved."""
        if branch == MAIN:
            self._new_moves.setdefault((pointer, name), before)

    def _as_seen(self, pointer: str, branch: str, of_main: dict[str, Any]) -> dict[str, Any]:
        """What main has, as this branch sees it."""
        found = {**of_main, **self._moved(pointer, branch)}
        return {name: value for name, value in found.items() if value is not None}

    def _of(
        self, shelf: CowDict[Named, Any], branch: str, names: Iterable[str] | None = None
    ) -> dict[str, Any]:
        wanted = None if names is None else set(names)
        return {
            n: v for (b, n), v in shelf.items() if b == branch and (wanted is None or n in wanted)
        }

    def _forget_moves(self) -> None:
        """Drop pointers that no pinned branch sees any longer."""
        first = min(self._space.bases.values(), default=NOW)
        for key in [key for key in self._space.replaced if key[2] <= first]:
            del self._space.replaced[key]

    def flush(self) -> None:
        """Note what main was; branches that were pinned in this transaction see all of it."""
        number = self._space.counters.get("marks", 0)
        newest = max((base for base in self._space.bases.values() if base < number), default=None)
        for (pointer, name), before in self._new_moves.items():
            is_noted = any(
                k[:2] == (pointer, name) and k[2] > (newest or 0) for k in self._space.replaced
            )
            if newest is not None and not is_noted:
                self._space.replaced[pointer, name, number] = before
        fresh = [name for name, base in self._space.bases.items() if base == NOW]
        self._space.bases.update(dict.fromkeys(fresh, number))
        if fresh:
            self._forget_moves()

    def _is_held(self, dataset: str, seq: int) -> bool:
        """Whether a pinned branch sees a state as main's."""
        return any(
            k[:2] == ("head", dataset) and value == seq for k, value in self._space.replaced.items()
        )
