"""The audit of changes: actor and change, in the transaction of the change."""

from __future__ import annotations

from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.revisions import AuditedChange
from controlplane.operations.context import Context
from controlplane.ports.store import Tx


def note_change(
    ctx: Context,
    tx: Tx,
    action: str,
    target: str,
    *,
    before: object = None,
    after: object = None,
    branch: str = NO_BRANCH,
) -> None:
    """One row of the audit. `before` and `after`: JSON. `branch`: none where it concerns the whole
    namespace."""
    change = AuditedChange(
        ctx.actor,
        ctx.request_id,
        action,
        target=target,
        before=before,
        after=after,
        at=tx.now(),
        branch=branch,
    )
    tx.audit.put_change(change)
