"""Earlier texts of a dataflow: who applied which revision, and how two of them differ. Changes
nothing."""

from __future__ import annotations

from difflib import unified_diff

from controlplane.core.errors import NotFound
from controlplane.core.model.answers import DataflowAnswer
from controlplane.core.model.answers.components import RevisionEntry
from controlplane.core.model.revisions import Revision
from controlplane.operations.context import Context
from controlplane.operations.desired.blueprints import shown
from controlplane.operations.desired.revert import revision_of
from controlplane.ports.store import Tx


def text(ctx: Context, branch: str, dataflow: str, number: int) -> DataflowAnswer:
    """The texts of one revision. Raises NotFound."""
    with ctx.read() as tx:
        return shown(revision_of(tx, branch, dataflow, number))


def revisions(ctx: Context, branch: str, dataflow: str, limit: int) -> list[RevisionEntry]:
    """The last revisions, newest first. Raises NotFound."""
    with ctx.read() as tx:
        last = tx.blueprints.last_number(branch, dataflow)
        if not last:
            raise NotFound(f"there is no dataflow {dataflow} in branch {branch}")
        numbers = range(last, max(0, last - limit), -1)
        past = [revision_of(tx, branch, dataflow, number) for number in numbers]
    return [
        {"revision": revision.number, "actor": revision.actor, "at": revision.at}
        for revision in past
    ]


def difference(ctx: Context, branch: str, dataflow: str, number: int) -> list[str]:
    """Lines of a unified diff of all texts, from the revision before this one. Raises NotFound."""
    with ctx.read() as tx:
        after = _texts(revision_of(tx, branch, dataflow, number))
        before = _texts_before(tx, branch, dataflow, number)
    return [
        line
        for name in sorted({*before, *after})
        for line in _lines(name, before.get(name), after.get(name))
    ]


def _texts_before(tx: Tx, branch: str, dataflow: str, number: int) -> dict[str, str]:
    return {} if number == 1 else _texts(revision_of(tx, branch, dataflow, number - 1))


def _texts(revision: Revision) -> dict[str, str]:
    return {revision.file: revision.text, **revision.files}


def _lines(name: str, before: str | None, after: str | None) -> list[str]:
    first, other = (before or "").splitlines(), (after or "").splitlines()
    return list(unified_diff(first, other, name, name, lineterm=""))
