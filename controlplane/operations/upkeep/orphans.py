"""Folders of attempts that nothing refers to: what a crash leaves between a commit and the deletion that follows it."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store

ATTEMPT_DIGITS = 32  # shorter or other names below `_frags` are not attempts (links are)


def sweep(store: Store, namespace: str, lake: ObjectStore) -> int:
    """Delete attempt folders without a live attempt or a stored fragment; returns how many.

    Call it only while no attempt can begin: a claim makes its row before its driver makes its folder.
    """
    found = dict(_folders(lake, namespace))
    with store.read(namespace) as tx:
        kept = tx.referenced_attempts(list(found))
    for attempt in sorted(found.keys() - kept):
        lake.delete_prefix(found[attempt])
    return len(found.keys() - kept)


def _folders(lake: ObjectStore, namespace: str) -> Iterator[tuple[str, str]]:
    """Attempt ids with their prefixes, `<namespace>/<flow>/<dataset>/_frags/<aa>/<attempt>`."""
    for flow in lake.folders(namespace):
        for dataset in lake.folders(f"{namespace}/{flow}"):
            yield from _attempts(lake, f"{namespace}/{flow}/{dataset}/_frags")


def _attempts(lake: ObjectStore, top: str) -> Iterator[tuple[str, str]]:
    for part in lake.folders(top):
        for attempt in lake.folders(f"{top}/{part}"):
            if len(attempt) == ATTEMPT_DIGITS and attempt.startswith(part):
                yield attempt, f"{top}/{part}/{attempt}"
