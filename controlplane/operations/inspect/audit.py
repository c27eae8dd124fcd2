"""The audit: who changed the desired state, and who read data. Reads are noted before the first row
is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from controlplane.core.model.answers import AuditAnswer, AuditEntry, ReadEntry, ReadsAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.core.model.reads import How, RecordedRead
from controlplane.core.model.revisions import AuditedChange
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views


def changes(
    ctx: Context, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
) -> AuditAnswer:
    """Changes of the desired state in a branch or installation-wide (all with None), the last ones
    first: actor, time, before and after."""
    with ctx.read() as tx:
        entries = tx.audit.changes(branch, limit, since=since, until=until)
    return {"items": [_change(change) for change in entries], "next": None}


def reads(
    ctx: Context, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
) -> ReadsAnswer:
    """Reads of data in a branch, or in all with None, the last ones first."""
    with ctx.read() as tx:
        entries = tx.audit.reads(branch, limit, since=since, until=until)
    return {"items": [_read(read) for read in entries], "next": None}


def note_read(
    ctx: Context, how: How, branch: str, dataset: str, what: Mapping[str, JsonValue]
) -> None:
    """The actor reads rows. Raises OSError where it cannot be noted: then nothing is to be read."""
    with ctx.begin() as tx:
        read = RecordedRead(
            ctx.actor, ctx.request_id, how, branch=branch, dataset=dataset, at=tx.now(), what=what
        )
        tx.audit.put_reads([read])


def _change(change: AuditedChange) -> AuditEntry:
    return {
        "at": json_views.instant(change.at),
        "actor": change.actor,
        "request_id": change.request_id,
        "branch": change.branch,
        "action": change.action,
        "target": change.target,
        "before": cast("JsonValue", change.before),
        "after": cast("JsonValue", change.after),
    }


def _read(read: RecordedRead) -> ReadEntry:
    return {
        "at": json_views.instant(read.at),
        "actor": read.actor,
        "request_id": read.request_id,
        "branch": read.branch,
        "how": read.how,
        "dataset": read.dataset,
        "times": read.times,
        "bytes": read.bytes,
        "what": dict(read.what),
    }
