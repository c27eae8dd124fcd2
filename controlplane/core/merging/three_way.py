"""Three-way merge of one dataflow: what one side changed since the base is taken, what both changed
is a conflict.

Components are identified by their uids, so that a rename is no deletion. The name and each key of a
component merge by themselves. The keys that make its rows are one unit, since half of each of two
queries is a query that neither side wrote. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from controlplane.core.merging.spans import ComponentPart, Unit

Side: TypeAlias = Literal["ours", "theirs"]
ConflictKind: TypeAlias = Literal[
    "both_edited", "edit_delete", "both_added", "name_taken", "not_mergeable"
]
WHOLE = ""  # in place of a component's name: the text as a whole, or the text around the components
LOGIC = "logic"  # in place of a key: all keys but the following
ALONE = frozenset(
    {
        "description",
        "owner",
        "tags",
        "paused",
        "priority",
        "retention",
        "resources",
        "publish",
        "append_only",
        "freshness",
        "max_recompute",
        "tests",
    }
)


@dataclass(frozen=True, slots=True)
class Clash:
    """What both sides changed: a component by its uid, or WHOLE. A side is None where the component
    is not there."""

    component: str
    kind: ConflictKind
    base: ComponentPart | None
    ours: ComponentPart | None
    theirs: ComponentPart | None


Components: TypeAlias = Mapping[str, ComponentPart]  # by uid, in the order of the text


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """Components by uid, in order. Without conflicts, all of them; a component with a conflict is
    that of ours."""

    components: Components
    conflicts: tuple[Clash, ...] = ()


def merge(
    base: Components, ours: Components, theirs: Components, take: Mapping[str, Side] | None = None
) -> MergeOutcome:
    """Bring the changes from `base` to `theirs` into `ours`. `take` settles conflicts, by any name
    of a component."""
    return _ComponentMerge(base, ours, theirs, take or {}).outcome()


def pick(base: Unit | None, ours: Unit | None, theirs: Unit | None) -> Side | None:
    """The side that has the merged version; None if both changed it. Comments and layout decide
    only where the meaning is the same."""
    if _is_same(ours, theirs) or _is_same(theirs, base):
        return "ours"
    if _is_same(ours, base):
        return "theirs"
    if _means_same(ours, theirs) or _means_same(theirs, base):
        return "ours"
    return "theirs" if _means_same(ours, base) else None


def _is_same(unit: Unit | None, other: Unit | None) -> bool:
    """Trailing blank lines say nothing."""
    if unit is None or other is None:
        return unit is other
    return unit.text.rstrip() == other.text.rstrip() and unit.meaning == other.meaning


def _means_same(unit: Unit | None, other: Unit | None) -> bool:
    if unit is None or other is None:
        return unit is other
    return unit.meaning == other.meaning


class _ComponentMerge:
    def __init__(
        self, base: Components, ours: Components, theirs: Components, take: Mapping[str, Side]
    ) -> None:
        self._base, self._ours, self._theirs = base, ours, theirs
        self._take = take
        self._conflicts: list[Clash] = []
        self._twins = dict(_twins(base, ours, theirs))  # uid of ours -> uid of theirs

    def outcome(self) -> MergeOutcome:
        components: dict[str, ComponentPart] = {}
        for uid in self._uids():
            merged = self._component(uid)
            if merged is not None:
                components[merged[0]] = merged[1]
        self._find_taken_names(components)
        return MergeOutcome(components, tuple(self._conflicts))

    def _uids(self) -> list[str]:
        twins = {theirs: ours for ours, theirs in self._twins.items()}
        theirs = [twins.get(uid, uid) for uid in self._theirs]
        return order([*self._ours], theirs)

    def _component(self, uid: str) -> tuple[str, ComponentPart] | None:
        """The uid and the component that is merged; None if there is none."""
        if uid in self._twins:
            return self._of_twins(uid, self._twins[uid])
        base, ours, theirs = self._base.get(uid), self._ours.get(uid), self._theirs.get(uid)
        if ours is None or theirs is None:
            left = self._of_one(uid, base, ours, theirs)
            return None if left is None else (uid, left)
        return uid, self._together(uid, base, ours, theirs)

    def _of_one(
        self,
        uid: str,
        base: ComponentPart | None,
        ours: ComponentPart | None,
        theirs: ComponentPart | None,
    ) -> ComponentPart | None:
        """At least one side has not got it."""
        left = ours or theirs
        if base is None or left is None:
            return left
        if _says_same(base, left):
            return None
        side = self._settled(uid, "edit_delete", base, ours, theirs)
        return ours if side == "ours" else theirs

    def _of_twins(self, uid: str, other: str) -> tuple[str, ComponentPart]:
        ours, theirs = self._ours[uid], self._theirs[other]
        if ours.meaning == theirs.meaning:
            return uid, ours
        side = self._settled(uid, "both_added", None, ours, theirs)
        return (uid, ours) if side == "ours" else (other, theirs)

    def _together(
        self, uid: str, base: ComponentPart | None, ours: ComponentPart, theirs: ComponentPart
    ) -> ComponentPart:
        by_keys = _by_keys(base, ours, theirs)
        if by_keys is not None:
            return by_keys
        side = self._settled(uid, "both_edited" if base else "both_added", base, ours, theirs)
        return ours if side == "ours" else theirs

    def _settled(
        self,
        uid: str,
        kind: ConflictKind,
        base: ComponentPart | None,
        ours: ComponentPart | None,
        theirs: ComponentPart | None,
    ) -> Side:
        """The side chosen to win. Otherwise there is a conflict, and ours stays for the time
        being."""
        names = [part.name for part in (ours, theirs, base) if part is not None]
        for name in names:
            if name in self._take:
                return self._take[name]
        self._conflicts.append(Clash(uid, kind, base, ours, theirs))
        return "ours"

    def _find_taken_names(self, components: Components) -> None:
        """Two components under one name: no side can win, since both stay."""
        first: dict[str, str] = {}
        for uid, part in components.items():
            other = first.setdefault(part.name, uid)
            if other != uid:
                pair = self._pair(other, uid, part.name)
                self._conflicts.append(Clash(uid, "name_taken", self._base.get(uid), *pair))

    def _pair(
        self, first: str, second: str, name: str
    ) -> tuple[ComponentPart | None, ComponentPart | None]:
        """The component with the name in ours, and the one in theirs."""
        mine = [
            self._ours[uid]
            for uid in (first, second)
            if uid in self._ours and self._ours[uid].name == name
        ]
        their = [
            self._theirs[uid]
            for uid in (first, second)
            if uid in self._theirs and self._theirs[uid].name == name
        ]
        return (mine[0] if mine else None), (their[0] if their else None)


def _twins(base: Components, ours: Components, theirs: Components) -> Iterator[tuple[str, str]]:
    """Components that both sides added under one name: uids of ours and of theirs."""
    mine = {part.name: uid for uid, part in ours.items() if uid not in base and uid not in theirs}
    for uid, part in theirs.items():
        if part.name in mine and uid not in base and uid not in ours:
            yield mine[part.name], uid


def _says_same(part: ComponentPart, other: ComponentPart) -> bool:
    return (part.name, part.meaning) == (other.name, other.meaning)


# --- the keys of one component


def _by_keys(
    base: ComponentPart | None, ours: ComponentPart, theirs: ComponentPart
) -> ComponentPart | None:
    """None if there is a conflict."""
    head = pick(base.head if base else None, ours.head, theirs.head)
    if head is None:
        return None
    named = ours if head == "ours" else theirs
    versions = (ours, theirs) if base is None else (base, ours, theirs)
    if ours.indent < 0 or len({part.indent for part in versions}) > 1:
        side = pick(base.body if base else None, ours.body, theirs.body)
        body = {None: None, "ours": ours, "theirs": theirs}[side]
        return None if body is None else replace(body, name=named.name, head=named.head)
    keys = _keys(base.keys if base else {}, ours.keys, theirs.keys)
    if keys is None:
        return None
    colon = pick(
        None if base is None else Unit(base.colon, ()), Unit(ours.colon, ()), Unit(theirs.colon, ())
    )
    after = theirs.colon if colon == "theirs" else ours.colon
    return replace(ours, name=named.name, head=named.head, colon=after, keys=keys)


def _keys(
    base: Mapping[str, Unit], ours: Mapping[str, Unit], theirs: Mapping[str, Unit]
) -> Mapping[str, Unit] | None:
    """None if there is a conflict."""
    keys_of_unit: dict[str, Mapping[str, Unit]] = {}
    for unit in {*map(_unit_of, base), *map(_unit_of, ours), *map(_unit_of, theirs)}:
        side = pick(_grouped(base, unit), _grouped(ours, unit), _grouped(theirs, unit))
        if side is None:
            return None
        keys_of_unit[unit] = ours if side == "ours" else theirs
    keys: dict[str, Unit] = {}
    for key in order([*ours], [*theirs]):
        side_keys = keys_of_unit[_unit_of(key)]
        if key in side_keys:
            keys[key] = side_keys[key]
    return keys


def _unit_of(key: str) -> str:
    return key if key in ALONE else LOGIC


def _grouped(keys: Mapping[str, Unit], unit: str) -> Unit | None:
    """The keys of one unit together; None if there are none."""
    group = {name: key for name, key in sorted(keys.items()) if _unit_of(name) == unit}
    if not group:
        return None
    text = "".join(key.text.rstrip() + "\n" for key in group.values())
    return Unit(text, tuple((name, key.meaning) for name, key in group.items()))


def order(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """The names of ours in their order; those of theirs alone come after the one before them
    there."""
    names = list(ours)
    for i, name in enumerate(theirs):
        if name in names:
            continue
        before = next(
            (names.index(earlier) for earlier in reversed(theirs[:i]) if earlier in names), -1
        )
        names.insert(before + 1, name)
    return names
