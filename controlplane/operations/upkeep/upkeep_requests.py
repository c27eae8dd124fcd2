"""Collecting, checking and repairing on an administrator's request: each leaves a row in the
audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TypeAlias

from controlplane.core.model.answers import CollectAnswer, FindingEntry, FsckAnswer
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.projections import compaction
from controlplane.operations.upkeep.collect import Collected, Forget, collect
from controlplane.operations.upkeep.fsck import LIMIT, REPAIRED, Finding, RowCheck, fsck
from controlplane.operations.upkeep.repair import Repaired, repair
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Tx

Noted: TypeAlias = Mapping[str, object] | None


def collect_now(
    ctx: Context, lake: ObjectStore, packages: Forget | None, *, packs: bool
) -> CollectAnswer:
    """How many rows of each kind went. `packs` gives up all packs as well (`gc.packs`)."""
    given_up = _give_up(ctx) if packs else None
    counts = _counts(collect(ctx.store, ctx.namespace, lake=lake, packages=packages))
    with ctx.begin() as tx:
        _note(ctx, tx, "gc", None, counts)
    return counts if given_up is None else {"packs": given_up, **counts}


def _counts(collected: Collected) -> CollectAnswer:
    return {
        "states": collected.states,
        "builds": collected.builds,
        "tasks": collected.tasks,
        "events": collected.events,
        "answers": collected.answers,
        "drivers": collected.drivers,
        "attempts": collected.attempts,
        "reads": collected.reads,
        "nodes": collected.nodes,
        "nodes_in_use": collected.nodes_in_use,
        "superseded": collected.superseded,
        "folders": collected.folders,
        "packages": collected.packages,
    }


def _give_up(ctx: Context) -> int:
    with ctx.begin() as tx:
        count = compaction.give_up_all(tx)
        _note(ctx, tx, "gc.packs", {"packs": count}, {"packs": 0})
    return count


def check_now(
    ctx: Context, lake: ObjectStore | None, reading: RowCheck | None = None, *, types: bool = False
) -> FsckAnswer:
    """The findings of a check; with a lake also those of its files, with `types` also values that
    an earlier version misread. Changes nothing, so nothing is noted."""
    findings = fsck(ctx.store, ctx.namespace, lake, reading=reading, types=types)
    return {"findings": _findings(findings), "complete": len(findings) < LIMIT}


def repair_now(ctx: Context, lake: ObjectStore, reading: RowCheck | None = None) -> FsckAnswer:
    """Have lost data made again, and with a `reading` damaged data, too; answers the remaining
    findings of a check. A repair that fails is noted as well."""
    repaired: Repaired | None = None
    try:
        repaired = repair(ctx.store, ctx.namespace, lake, reading)
    finally:
        with ctx.begin() as tx:
            _note(
                ctx, tx, "fsck.repair", None, asdict(repaired) if repaired else {"complete": False}
            )
    ctx.wake()
    findings = fsck(ctx.store, ctx.namespace)
    return {
        "findings": _findings(f for f in findings if f.code not in REPAIRED),
        "complete": len(findings) < LIMIT and repaired.complete,
        "repaired": {"fragments": repaired.fragments, "datasets": list(repaired.datasets)},
    }


def _findings(findings: Iterable[Finding]) -> list[FindingEntry]:
    return [{"code": f.code, "where": f.where, "what": f.what, "fix": f.fix} for f in findings]


def _note(ctx: Context, tx: Tx, action: str, before: Noted, after: Noted) -> None:
    note_change(ctx, tx, action, "*", before=before, after=after)
