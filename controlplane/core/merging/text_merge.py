"""Three-way merge of one dataflow's text and the Python files that it names.

Where ours is the base, it becomes theirs as it is. Otherwise what changed is put into the text of
ours, whose comments and layout stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from controlplane.core.merging import identities
from controlplane.core.merging.spans import (
    BlueprintParts,
    ComponentPart,
    Meaning,
    Unit,
    definitions,
    split,
)
from controlplane.core.merging.three_way import (
    WHOLE,
    Clash,
    Components,
    ConflictKind,
    MergeOutcome,
    Side,
    merge,
    order,
    pick,
)
from controlplane.core.model.revisions import Revision, without_edition

NO_UIDS: Mapping[str, str] = MappingProxyType({})
NO_PARTS = BlueprintParts(Unit("", ()), {}, Unit("", ()))


@dataclass(frozen=True, slots=True)
class Version:
    """What one side says, and where. Lines and columns count from 1."""

    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """What both sides changed: a component, a Python file by its path, or WHOLE. A side is None
    where it has none."""

    name: str
    kind: ConflictKind
    base: Version | None
    ours: Version | None
    theirs: Version | None


@dataclass(frozen=True, slots=True)
class Merged:
    """The dataflow, if there is no conflict. `taken` are the components that come from theirs,
    whole or in part."""

    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    uids: Mapping[str, str] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def merge_dataflow(
    base: Revision | None, ours: Revision, theirs: Revision, take: Mapping[str, Side] | None = None
) -> Merged:
    """Bring the changes from `base` to `theirs` into `ours`. `take` settles conflicts, by component
    or path."""
    if base is not None and _is_same(base, ours):
        return Merged(theirs.text, theirs.files, theirs.uids, _other_in(theirs, ours))
    if _is_same(theirs, ours) or (base is not None and _is_same(theirs, base)):
        return Merged(ours.text, ours.files, ours.uids)
    parts = [split(revision.text, revision.files) for revision in (ours, theirs)]
    before = NO_PARTS if base is None else split(base.text, base.files)
    if (
        before is None
        or parts[0] is None
        or parts[1] is None
        or len(parts[0].indents | parts[1].indents) > 1
    ):
        return Merged(ours.text, conflicts=(_whole_conflict(base, ours, theirs),))
    merge_of = _TextMerge(
        base, ours, theirs, take or {}, before=before, mine=parts[0], other=parts[1]
    )
    return merge_of.merged()


def _is_same(revision: Revision, other: Revision) -> bool:
    return (revision.text.rstrip(), dict(revision.files), dict(revision.uids)) == (
        other.text.rstrip(),
        dict(other.files),
        dict(other.uids),
    )


def _other_in(theirs: Revision, ours: Revision) -> tuple[str, ...]:
    """Components of theirs that ours has not, or has otherwise."""
    new, old = definitions(theirs.text, theirs.files), definitions(ours.text, ours.files)
    return tuple(name for name, meaning in new.items() if old.get(name) != meaning)


def _whole_conflict(base: Revision | None, ours: Revision, theirs: Revision) -> Conflict:
    before = Version(1, 1, base.text) if base else None
    return Conflict(
        WHOLE, "not_mergeable", before, Version(1, 1, ours.text), Version(1, 1, theirs.text)
    )


def _by_uid(parts: BlueprintParts, revision: Revision | None) -> Components:
    uids = NO_UIDS if revision is None else revision.uids
    return {without_edition(uids.get(name, name)): part for name, part in parts.components.items()}


class _TextMerge:
    def __init__(
        self,
        base: Revision | None,
        ours: Revision,
        theirs: Revision,
        take: Mapping[str, Side],
        *,
        before: BlueprintParts,
        mine: BlueprintParts,
        other: BlueprintParts,
    ) -> None:
        self._base, self._ours, self._theirs, self._take = base, ours, theirs, take
        self._before, self._mine, self._other = before, mine, other
        self._conflicts: list[Conflict] = []

    def merged(self) -> Merged:
        base, ours = _by_uid(self._before, self._base), _by_uid(self._mine, self._ours)
        outcome = merge(base, ours, _by_uid(self._other, self._theirs), self._take)
        self._conflicts += [
            Conflict(
                _name(clash),
                clash.kind,
                _version(clash.base),
                _version(clash.ours),
                _version(clash.theirs),
            )
            for clash in outcome.conflicts
        ]
        head = self._around(self._before.head, self._mine.head, self._other.head)
        tail = self._around(self._before.tail, self._mine.tail, self._other.tail)
        files = dict(self._files())
        components = {part.name: part for part in outcome.components.values()}
        text = BlueprintParts(head, components, tail).text
        imported = tuple(_imported(outcome, ours))
        if not self._conflicts and definitions(text, files) != _expected(components):
            conflict = _whole_conflict(self._base, self._ours, self._theirs)
            self._conflicts.append(conflict)
        newest = identities.newest(self._ours.uids, self._theirs.uids)
        uids = {part.name: newest.get(uid, uid) for uid, part in outcome.components.items()}
        uids = self._uids_of_others() | uids
        return Merged(text, files, uids, imported, tuple(self._conflicts))

    def _uids_of_others(self) -> dict[str, str]:
        """Uids of components that no text names, as `cdc` brings them."""
        sides = (self._theirs, self._other), (self._ours, self._mine)
        return {
            name: uid
            for side, parts in sides
            for name, uid in side.uids.items()
            if name not in parts.components
        }

    def _around(self, base: Unit, ours: Unit, theirs: Unit) -> Unit:
        """What stands before the components, or after them."""
        side = pick(None if self._base is None else base, ours, theirs) or self._take.get(WHOLE)
        if side is None:
            kind: ConflictKind = "both_edited" if self._base else "both_added"
            before = Version(1, 1, base.text) if self._base else None
            self._conflicts.append(
                Conflict(WHOLE, kind, before, Version(1, 1, ours.text), Version(1, 1, theirs.text))
            )
        return theirs if side == "theirs" else ours

    def _files(self) -> Iterator[tuple[str, str]]:
        """A file goes with the components that name it, where these were settled by hand."""
        base = {} if self._base is None else self._base.files
        for path in order([*self._ours.files], [*self._theirs.files]):
            sides = (
                _file(base, path),
                _file(self._ours.files, path),
                _file(self._theirs.files, path),
            )
            sides_chosen = self._sides_chosen(path)
            side = sides_chosen.pop() if len(sides_chosen) == 1 else pick(*sides)
            if side is None or sides_chosen:
                versions = [Version(1, 1, version.text) if version else None for version in sides]
                self._conflicts.append(Conflict(path, "both_edited", *versions))
                continue
            files = self._ours.files if side == "ours" else self._theirs.files
            if path in files:
                yield path, files[path]

    def _sides_chosen(self, path: str) -> set[Side]:
        if path in self._take:
            return {self._take[path]}
        parts = [*self._mine.components.values(), *self._other.components.values()]
        return {
            self._take[part.name]
            for part in parts
            if path in part.files and part.name in self._take
        }


def _file(files: Mapping[str, str], path: str) -> Unit | None:
    return Unit(files[path], (files[path],)) if path in files else None


def _name(conflict: Clash) -> str:
    """As ours calls it, else theirs."""
    part = conflict.ours or conflict.theirs or conflict.base
    return WHOLE if part is None else part.name


def _expected(components: Mapping[str, ComponentPart]) -> dict[str, Meaning]:
    return {name: part.meaning for name, part in components.items()}


def _version(part: ComponentPart | None) -> Version | None:
    return None if part is None else Version(part.line, part.column, part.text)


def _imported(outcome: MergeOutcome, ours: Components) -> Iterator[str]:
    """Names of components that ours has not, or has otherwise."""
    for uid, part in outcome.components.items():
        mine = ours.get(uid)
        if mine is None or (mine.name, mine.meaning) != (part.name, part.meaning):
            yield part.name
