"""Unreferenced folders. Folders of attempts: a crash between a commit and the deletion that follows
it leaves them. Tables of branches: a database that was restored does not know them."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.model.table_paths import branch_tables, table_path
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx

ATTEMPT_DIGITS = 32  # shorter or other names below `_frags` are not attempts (links are)


def sweep(store: Store, namespace: str, lake: ObjectStore) -> int:
    """Delete attempt folders without a live attempt or a stored fragment, and tables of branches
    that are not known; returns how many.

    Call it only while no attempt can begin, and no table is published: a claim makes its row before
    its driver makes its folder, and a publisher does the same.
    """
    folders = list(_folders(lake, namespace))
    with store.read(namespace) as tx:
        referenced = tx.traces.referenced_attempts(list({attempt for attempt, _ in folders}))
        tables = list(unknown_tables(tx, lake, namespace))
    orphans = [folder for attempt, folder in folders if attempt not in referenced]
    for folder in [*sorted(orphans), *tables]:
        lake.delete_prefix(folder)
    return len(orphans) + len(tables)


def unknown_tables(tx: Tx, lake: ObjectStore, namespace: str) -> Iterator[str]:
    """Folders of tables of branches that no publication is about."""
    paths = {
        table_path(namespace, publication.branch, publication.dataset)
        for publication in tx.projections.branch_publications()
    }
    for flow, dataset in _datasets(lake, namespace):
        top = branch_tables(namespace, f"{flow}.{dataset}")
        yield from (
            path for branch in lake.folders(top) if (path := f"{top}/{branch}") not in paths
        )


def _folders(lake: ObjectStore, namespace: str) -> Iterator[tuple[str, str]]:
    """Attempt ids with their folders, `<namespace>/<flow>/<dataset>/_frags/<aa>/<attempt>`. One may
    have several."""
    for flow, dataset in _datasets(lake, namespace):
        yield from _attempts(lake, f"{namespace}/{flow}/{dataset}/_frags")


def _datasets(lake: ObjectStore, namespace: str) -> Iterator[tuple[str, str]]:
    for flow in lake.folders(namespace):
        yield from ((flow, dataset) for dataset in lake.folders(f"{namespace}/{flow}"))


def _attempts(lake: ObjectStore, top: str) -> Iterator[tuple[str, str]]:
    for part in lake.folders(top):
        for attempt in lake.folders(f"{top}/{part}"):
            if len(attempt) == ATTEMPT_DIGITS and attempt.startswith(part):
                yield attempt, f"{top}/{part}/{attempt}"
