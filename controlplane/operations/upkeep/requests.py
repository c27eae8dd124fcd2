"""Collecting, checking and repairing when an administrator asks for it: each leaves a row in the audit.

Does not belong here: how any of it is done, and collections that nobody asked for.
"""

from __future__ import annotations

from dataclasses import asdict

from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.revisions import Change
from controlplane.operations.context import Context
from controlplane.operations.projections import compaction
from controlplane.operations.upkeep.collect import Forget, collect
from controlplane.operations.upkeep.fsck import LIMIT, REPAIRED, RowCheck, fsck
from controlplane.operations.upkeep.repair import repair
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Tx
from dataplane.contract import Json


def collect_now(ctx: Context, lake: ObjectStore, packages: Forget | None, *, packs: bool) -> Json:
    """How many rows of each kind went. `packs` gives up all packs as well (`gc.packs`)."""
    given_up = {"packs": _give_up(ctx)} if packs else {}
    found = asdict(collect(ctx.store, ctx.namespace, lake=lake, packages=packages))
    with ctx.store.begin(ctx.namespace) as tx:
        _note(ctx, tx, "gc", None, found)
    return given_up | found


def _give_up(ctx: Context) -> int:
    with ctx.store.begin(ctx.namespace) as tx:
        count = compaction.give_up_all(tx)
        _note(ctx, tx, "gc.packs", {"packs": count}, {"packs": 0})
    return count


def repair_now(ctx: Context, lake: ObjectStore, reading: RowCheck | None = None) -> Json:
    """Have what the lake lost made again, and with a `reading` what is damaged; answers the rest of what a check finds.
    A repair that fails is noted as well."""
    done: Json = {"complete": False}
    try:
        repaired = repair(ctx.store, ctx.namespace, lake, reading)
        done = asdict(repaired)
    finally:
        with ctx.store.begin(ctx.namespace) as tx:
            _note(ctx, tx, "fsck.repair", None, done)
    ctx.wake()
    found = fsck(ctx.store, ctx.namespace)
    rest = [asdict(f) for f in found if f.code not in REPAIRED]
    told = {"fragments": repaired.fragments, "datasets": repaired.datasets}
    return {"findings": rest, "complete": len(found) < LIMIT and repaired.complete, "repaired": told}


def _note(ctx: Context, tx: Tx, action: str, before: Json, after: Json) -> None:
    tx.put_change(Change(ctx.actor, ctx.request_id, action, "*", before, after, tx.now(), branch=NO_BRANCH))
