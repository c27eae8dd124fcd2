"""What of an edit its author may do: which dataflows it may change, and which it may read."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.compile import compiler
from controlplane.core.errors import NotFound
from controlplane.core.model.revisions import Revision
from controlplane.core.rights import may
from controlplane.operations.context import Context
from controlplane.operations.desired.drafts import DraftSet
from controlplane.operations.planning.snapshot import compile_live


def check(ctx: Context, branch: str, draft_set: DraftSet, live: Mapping[str, Revision]) -> None:
    """Raises NotFound for a dataflow that the author may not edit, there or not. An edit that reads
    a dataflow that the author may not read raises InvalidBlueprint, in the words for a dataset that
    is not there."""
    if not ctx.principal.within:
        return
    for draft in draft_set.drafts:
        if not may(ctx.principal, "edit", dataflow=draft.dataflow, branch=branch):
            raise NotFound(f"there is no dataflow {draft.dataflow[:200]} in branch {branch}")
    parsed = draft_set.by_flow
    visible = {
        name: live_revision
        for name, live_revision in live.items()
        if may(ctx.principal, "data", dataflow=name)
    }
    broken = compile_live(visible.values(), ctx.namespace).left_out
    beside = [
        live_revision
        for name, live_revision in visible.items()
        if name not in broken and name not in parsed
    ]
    together = [*beside, *draft_set.revisions]
    compiler.compile_revisions(together, namespace=ctx.namespace, parsed=parsed).require()
