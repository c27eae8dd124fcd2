"""Beginning a run: store blueprints, and request a listing of all that they read."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.core.model.answers import RunBegun
from controlplane.core.model.events import Event
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.desired.blueprints import SentBlueprint


def begin(
    ctx: Context, branch: str, sources: Sequence[SentBlueprint], *, accept_deletes: bool = False
) -> RunBegun:
    """Store these dataflows and list every source of theirs and of their upstream, without
    regard to `refresh`.

    Tasks that had failed before are reported and not yet retried: the new listings may replace
    them. Raises as `blueprints.apply`, and then nothing was stored.
    """
    with ctx.read() as tx:
        since = tx.events.last()
    revisions = blueprints.apply(ctx, branch, sources)["revisions"]
    for flow in revisions:
        controls.refresh(ctx, branch, flow, accept_deletes=accept_deletes)
    stuck = {flow: controls.failed(ctx, branch, flow) for flow in revisions}
    failed = {flow: sorted(key.hex() for key in keys) for flow, keys in stuck.items() if keys}
    return {"since": since, "revisions": revisions, "failed": failed}


def note(ctx: Context, branch: str, started: RunBegun) -> None:
    """In the audit and the events: who ran what."""
    flows = list(started["revisions"])
    with ctx.begin() as tx:
        note_change(ctx, tx, "run", ", ".join(flows), after={"dataflows": flows}, branch=branch)
        tx.events.put(
            [Event("operator.run", flow, 1, {"actor": ctx.actor}, branch=branch) for flow in flows]
        )
