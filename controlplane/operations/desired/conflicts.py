"""How the conflicts of a merge are told: what, where on each side, and how to settle it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.core.errors import ConflictSide, FoundConflict, MergeConflict, Problem
from controlplane.core.merging.texts import Conflict, Version
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
class Found:
    """A conflict of one dataflow, and its texts on all sides."""

    conflict: Conflict
    base: Revision | None
    ours: Revision | None
    theirs: Revision | None


def error(found: Sequence[Found]) -> MergeConflict:
    """All of them, in order of their places."""
    told = sorted(((_problem(one), _told(one)) for one in found), key=lambda pair: pair[0])
    return MergeConflict([problem for problem, _ in told], [conflict for _, conflict in told])


def _told(found: Found) -> FoundConflict:
    one = found.conflict
    return FoundConflict(
        _flow(found),
        one.name,
        one.kind,
        base=_side(one, one.base, found.base),
        ours=_side(one, one.ours, found.ours),
        theirs=_side(one, one.theirs, found.theirs),
    )


def _side(conflict: Conflict, version: Version | None, revision: Revision | None) -> ConflictSide | None:
    if version is None or revision is None:
        return None
    file = conflict.name if conflict.name in revision.files else revision.file
    return ConflictSide(file, version.line, version.column, version.text)


def _flow(found: Found) -> str:
    revision = found.ours or found.theirs or found.base
    return "" if revision is None else revision.dataflow


def _problem(found: Found) -> Problem:
    """At its place in ours, or else in theirs."""
    told = _told(found)
    side = f"{told.dataflow}.{told.component}" if told.component else told.dataflow  # as in `take`
    name = side if told.component else f"dataflow {side}"
    at = told.ours or told.theirs or ConflictSide("", 1, 1, "")
    words = f"{name} {WORDS[found.conflict.kind]}"
    if told.ours and told.theirs:
        file = posixpath.basename(told.theirs.file)  # the folder may be that of a checkout that is gone
        words += f" (in the other one at {file}:{told.theirs.line}:{told.theirs.column})"
    hint = RENAME if told.kind == "name_taken" else SETTLE.format(side)
    return Problem(at.file, at.line, at.column, "merge-conflict", words, hint)
