"""Tables of branches beside main: having one made, and deleting those that no branch needs.

A table's row of `publications` is there before its first file, and goes after the last one. The
transaction that ends a branch, or gives a dataset back to main, leaves of the row that nothing is
known of the table. So a table is deleted however often that breaks off, and a branch that comes
back under its name begins a new one. Both are done one after another, by the publisher.
"""

from __future__ import annotations

from controlplane.core.model.projections import Publication, unknown_table
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.operations.projections import publish
from controlplane.ports.lake import ObjectStore, Publisher
from controlplane.ports.store import Store, Tx
from dataplane.contract.failpoints import failpoint


def follow(
    store: Store, namespace: str, state: State, publisher: Publisher, lake: ObjectStore
) -> bool:
    """Make a branch's table hold this state of its own. False if the branch no longer needs the
    table."""
    if not _is_started(store, namespace, state, lake):
        return False
    publish.publish(store, namespace, state, publisher)
    return True


def _is_started(store: Store, namespace: str, state: State, lake: ObjectStore) -> bool:
    """Whether the table may be written: it is known to be there, or nothing of an earlier one
    is."""
    with store.read(namespace) as tx:
        publication = tx.projections.publications(state.branch, [state.dataset]).get(state.dataset)
        if not _is_wanted(tx, state.branch, state.dataset):
            return False
    if publication is not None and publication.version >= 0:
        return True
    with store.begin(namespace) as tx:
        if not _is_wanted(tx, state.branch, state.dataset):
            return False
        tx.projections.put_publication(publication or unknown_table(state.branch, state.dataset))
    failpoint("branch-table-noted")
    lake.delete_prefix(table_path(namespace, state.branch, state.dataset))
    return True


def left_over(store: Store, namespace: str) -> tuple[Publication, ...]:
    """Tables that no branch needs: it has ended, or the dataset is main's again."""
    with store.read(namespace) as tx:
        publications = tx.projections.branch_publications()
        if not publications:
            return ()
        publishing = [name for name, branch in tx.branches.all().items() if branch.publish]
        published = {
            (name, dataset) for name in publishing for dataset in tx.branches.own_datasets(name)
        }
    return tuple(
        publication
        for publication in publications
        if (publication.branch, publication.dataset) not in published
    )


def delete(store: Store, namespace: str, left: Publication, lake: ObjectStore) -> None:
    """Delete such a table. Repeating it is harmless; if a branch is to have it by now, it is
    written again."""
    # Its end also proves that no other process leads, and publishes
    with store.begin(namespace) as tx:
        tx.projections.put_publication(unknown_table(left.branch, left.dataset))
    failpoint("branch-table-forgotten")
    lake.delete_prefix(table_path(namespace, left.branch, left.dataset))
    failpoint("branch-table-deleted")
    with store.begin(namespace) as tx:
        tx.projections.drop_publication(left.branch, left.dataset)


def _is_wanted(tx: Tx, branch: str, dataset: str) -> bool:
    """Whether a branch is there that publishes, and the dataset is its own."""
    branch_row = tx.branches.all().get(branch)
    if branch_row is None or not branch_row.publish:
        return False
    state = tx.states.newest(branch, [dataset]).get(dataset)
    return state is not None and state.branch == branch
