"""Three-way merge of one dataflow's text: what one side changed since the base is taken, and what both changed is a
conflict.

A component is one unit, and so is all that stands before the components or after them: half of two queries is
nobody's query. Does not belong here: whether the whole compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controlplane.core.merging.spans import Parts, split

Side: TypeAlias = Literal["ours", "theirs"]
ConflictKind: TypeAlias = Literal["both-edited", "edit-delete", "both-added", "not-mergeable"]
WHOLE = ""  # in place of a component's name: the text as a whole, or what is around the components


@dataclass(frozen=True, slots=True)
class Conflict:
    """What both sides changed: a component, or WHOLE. A side is None where the component is not there."""

    component: str
    kind: ConflictKind
    base: str | None
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, slots=True)
class Merged:
    """The text, if there is no conflict. `taken` are the components that come from theirs."""

    text: str
    taken: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def merge(base: str, ours: str, theirs: str, take: Mapping[str, Side] | None = None) -> Merged:
    """Bring the changes from `base` to `theirs` into `ours`. `take` settles conflicts, by component."""
    if base == ours:
        return Merged(theirs, _other_in(theirs, ours))
    if theirs in (base, ours):
        return Merged(ours)
    parts = split(base), split(ours), split(theirs)
    b, o, t = parts
    if b is None or o is None or t is None:
        return Merged(ours, conflicts=(Conflict(WHOLE, "not-mergeable", base, ours, theirs),))
    return _Merge(b, o, t, take or {}).merged()


def _other_in(theirs: str, ours: str) -> tuple[str, ...]:
    """Components of theirs that ours has not, or has otherwise."""
    new, old = split(theirs), split(ours)
    if new is None or old is None:
        return ()
    return tuple(name for name, text in new.components.items() if not _same(text, old.components.get(name)))


class _Merge:
    def __init__(self, base: Parts, ours: Parts, theirs: Parts, take: Mapping[str, Side]) -> None:
        self._base, self._ours, self._theirs, self._take = base, ours, theirs, take
        self._conflicts: list[Conflict] = []

    def merged(self) -> Merged:
        head = self._part(WHOLE, self._base.head, self._ours.head, self._theirs.head)
        tail = self._part(WHOLE, self._base.tail, self._ours.tail, self._theirs.tail)
        found: dict[str, str] = {}
        for name in _order(list(self._ours.components), list(self._theirs.components)):
            sides = (self._base.components, self._ours.components, self._theirs.components)
            text = self._part(name, *(side.get(name) for side in sides))
            if text is not None:
                found[name] = text
        taken = tuple(name for name, text in found.items() if not _same(text, self._ours.components.get(name)))
        return Merged(Parts(head or "", found, tail or "").text, taken, tuple(self._conflicts))

    def _part(self, name: str, base: str | None, ours: str | None, theirs: str | None) -> str | None:
        if _same(ours, theirs) or _same(theirs, base):
            return ours
        if _same(ours, base):
            return theirs
        side = self._take.get(name)
        if side is not None:
            return ours if side == "ours" else theirs
        self._conflicts.append(Conflict(name, _kind(base, ours, theirs), base, ours, theirs))
        return ours


def _same(one: str | None, other: str | None) -> bool:
    """Trailing blank lines say nothing."""
    if one is None or other is None:
        return one is other
    return one.rstrip() == other.rstrip()


def _kind(base: str | None, ours: str | None, theirs: str | None) -> ConflictKind:
    if base is None:
        return "both-added"
    if ours is None or theirs is None:
        return "edit-delete"
    return "both-edited"


def _order(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """The names of ours in their order; those of theirs alone come after the one before them there."""
    found = list(ours)
    for i, name in enumerate(theirs):
        if name in found:
            continue
        before = next((found.index(known) for known in reversed(theirs[:i]) if known in found), -1)
        found.insert(before + 1, name)
    return found
