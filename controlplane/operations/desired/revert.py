"""Undoing edits: the text of an earlier revision of a dataflow becomes its newest revision.

Data follows by the ordinary plan, which adopts earlier results.
"""

from __future__ import annotations

from controlplane.core.errors import NotFound
from controlplane.core.model.answers import ApplyAnswer
from controlplane.core.model.branches import MAIN
from controlplane.core.model.revisions import Revision
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.desired.drafts import SentBlueprint
from controlplane.ports.store import Tx


def revert(
    ctx: Context,
    branch: str,
    dataflow: str,
    to: int,
    *,
    dry_run: bool = False,
    expected: int | None = None,
) -> ApplyAnswer:
    """Store the text of revision `to` again, as a new revision; also of a dataflow that was
    deleted. Components that come back have the identities that they had. Raises NotFound, and as
    `blueprints.apply`."""
    with ctx.read() as tx:
        revision = revision_of(tx, branch, dataflow, to)
    source = SentBlueprint(revision.file, revision.text, revision.files)
    return blueprints.apply(
        ctx, branch, [source], dry_run=dry_run, expected=expected, action="revert"
    )


def revision_of(tx: Tx, branch: str, dataflow: str, number: int) -> Revision:
    """One revision, of a dataflow that may be deleted. Up to its fork, the revisions of a branch
    are those of main. Raises NotFound."""
    revision = tx.blueprints.revision(branch, dataflow, number)
    last = tx.blueprints.last_number(branch, dataflow)
    if (
        revision is None
        and branch != MAIN
        and number <= tx.branches.own_dataflows(branch).get(dataflow, last)
    ):
        revision = tx.blueprints.revision(MAIN, dataflow, number)
    if revision is not None:
        return revision
    if not last:
        raise NotFound(f"there is no dataflow {dataflow} in branch {branch}")
    raise NotFound(
        f"dataflow {dataflow} has no revision {number} in branch {branch}: its last one is {last}"
    )
