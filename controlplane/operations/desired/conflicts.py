"""Rendering of the conflicts of a merge: the part, its place on each side, and how to settle it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.core.errors import ConflictSide, FoundConflict, MergeConflict, Problem
from controlplane.core.merging.text_merge import Conflict, Version
from controlplane.core.merging.three_way import ConflictKind
from controlplane.core.model.revisions import Revision

WORDS: dict[ConflictKind, str] = {
    "both_edited": "was edited in both branches",
    "edit_delete": "was edited in one branch and deleted in the other",
    "both_added": "was added in both branches",
    "name_taken": "is the name of two components, one of each branch",
    "not_mergeable": "was edited in both branches, and its components do not each begin a line",
}
SETTLE = "--take ours={0} or --take theirs={0}, or edit one of the two so that they agree"
RENAME = "rename one of the two"


@dataclass(frozen=True, slots=True)
class ConflictSides:
    """A conflict of one dataflow, and its texts on all sides."""

    conflict: Conflict
    base: Revision | None
    ours: Revision | None
    theirs: Revision | None


def error(merge_conflicts: Sequence[ConflictSides]) -> MergeConflict:
    """All of them, in order of their places."""
    pairs = sorted(
        ((_problem(sides), _found_conflict(sides)) for sides in merge_conflicts),
        key=lambda pair: pair[0],
    )
    return MergeConflict([problem for problem, _ in pairs], [conflict for _, conflict in pairs])


def _found_conflict(sides: ConflictSides) -> FoundConflict:
    conflict = sides.conflict
    return FoundConflict(
        _flow(sides),
        conflict.name,
        conflict.kind,
        base=_side(conflict, conflict.base, sides.base),
        ours=_side(conflict, conflict.ours, sides.ours),
        theirs=_side(conflict, conflict.theirs, sides.theirs),
    )


def _side(
    conflict: Conflict, version: Version | None, revision: Revision | None
) -> ConflictSide | None:
    if version is None or revision is None:
        return None
    file = conflict.name if conflict.name in revision.files else revision.file
    return ConflictSide(file, version.line, version.column, version.text)


def _flow(sides: ConflictSides) -> str:
    revision = sides.ours or sides.theirs or sides.base
    return "" if revision is None else revision.dataflow


def _problem(sides: ConflictSides) -> Problem:
    """At its place in ours, or else in theirs."""
    answer = _found_conflict(sides)
    # As in `take`
    side = f"{answer.dataflow}.{answer.component}" if answer.component else answer.dataflow
    name = side if answer.component else f"dataflow {side}"
    at = answer.ours or answer.theirs or ConflictSide("", 1, 1, "")
    words = f"{name} {WORDS[sides.conflict.kind]}"
    if answer.ours and answer.theirs:
        # The folder may be that of a checkout that is gone
        file = posixpath.basename(answer.theirs.file)
        words += f" (in the other one at {file}:{answer.theirs.line}:{answer.theirs.column})"
    hint = RENAME if answer.kind == "name_taken" else SETTLE.format(side)
    return Problem(at.file, at.line, at.column, "merge-conflict", words, hint)
