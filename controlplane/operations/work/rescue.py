"""Ending attempts whose driver is gone: results that a manifest proves are adopted, the rest goes
back to the queue."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane import logs
from controlplane.core import wire
from controlplane.core.errors import Fenced, NotFound
from controlplane.core.model.drivers import Fault
from controlplane.core.model.tasks import Attempt
from controlplane.operations.context import Context
from controlplane.operations.work import long_polls
from controlplane.operations.work.recording import Recording
from controlplane.operations.work.reports import delete_folders, take_in
from controlplane.ports.lake import ObjectStore
from dataplane.contract.kinds import KINDS, PROBE_KINDS
from dataplane.contract.results import (
    MANIFEST,
    OUT_OF_MEMORY,
    TaskResult,
    infrastructure_error,
)

MANIFEST_BYTES = 64 << 20  # of a manifest: 500 tasks with thousands of files each have less


LOST: Mapping[Fault, str] = {"memory": OUT_OF_MEMORY, "deadline": "driver-deadline"}


log = logs.get("work")


def adopt(
    ctx: Context, attempt: Attempt, lake: ObjectStore, *, reason: str, fault: Fault = "crashed"
) -> bool:
    """End an attempt whose driver is gone: adopt the results that its manifest proves, put the rest
    back. True if any was kept."""
    results = read_manifest(lake, attempt) if KINDS[attempt.kind].has_manifest else []
    if not results:
        if _abandon(ctx, attempt, reason, fault):
            delete_folders(ctx, attempt, lake)
        return False
    try:
        return bool(take_in(ctx, attempt, results, lake, by="adopted").accepted)
    except Fenced:
        return False  # its own report came first


def abandon(ctx: Context, attempt: Attempt, *, reason: str, fault: Fault = "crashed") -> bool:
    """End an attempt without reading its manifest. Its files stay until orphans are swept. False if
    it ended."""
    return _abandon(ctx, attempt, reason, fault)


def abandon_probes(ctx: Context, *, reason: str) -> None:
    """End the attempts at listings and the like of workers that are gone. Their tasks go back to
    the queue."""
    with ctx.read() as tx:
        left = [attempt for attempt in tx.queue.attempts().values() if attempt.kind in PROBE_KINDS]
    for attempt in left:
        _abandon(ctx, attempt, reason, "disrupted")


def read_manifest(lake: ObjectStore, attempt: Attempt) -> list[TaskResult]:
    """The results that the attempt's manifest proves; none where there is no manifest, or an
    unreadable one."""
    path = f"{attempt.prefix}/{MANIFEST}"
    try:
        raw = _bounded(lake, path)
    except NotFound:
        return []
    decoded = wire.manifest(raw, attempt.id, attempt.kind, attempt.prefix, len(attempt.tasks))
    if decoded.problems:
        log.warning("manifest damaged", path=path, problems=decoded.problems)
    return decoded.results


def _bounded(lake: ObjectStore, path: str) -> bytes:
    """The bytes of a manifest; of one that is too large so many that it cannot be read as JSON."""
    content = bytearray()
    for piece in lake.stream(path):
        content += piece
        if len(content) > MANIFEST_BYTES:
            break
    return bytes(content[:MANIFEST_BYTES])


def _abandon(ctx: Context, attempt: Attempt, reason: str, fault: Fault) -> bool:
    """What took the driver away for reasons of its own does not count against its tasks. False if
    the attempt's own report came first: then its output may be in use."""
    with ctx.begin() as tx:
        if not tx.queue.end_attempt(attempt.id):
            return False
        if fault == "disrupted" and attempt.id in tx.queue.waiting_attempts():
            long_polls.end(tx, attempt.tasks)  # nothing was lost
            return True
        recording = Recording(tx, attempt, "adopted")
        error = infrastructure_error(LOST.get(fault, "driver-lost"), reason)
        recording.release(sorted(attempt.tasks), error, burn=fault != "disrupted")
        tx.past_attempts.put(recording.accounts({}))
        tx.events.put(recording.events)
    return True
