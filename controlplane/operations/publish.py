"""Delta tables follow committed states: which are behind, and bringing one up to its newest state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.model import Event, Publication, State, Table
from controlplane.operations.views import table_path
from controlplane.ports import Publisher, Store, Tx
from dataplane.contract import failpoint, schema_id


def behind(store: Store, namespace: str, branch: str, states: Iterable[State]) -> tuple[State, ...]:
    """Those of these states whose table does not hold them yet."""
    asked = list(states)
    if not asked:
        return ()
    with store.read(namespace) as tx:
        published = tx.publications(branch, [s.dataset for s in asked])
    return tuple(s for s in asked if not is_published(s, published.get(s.dataset)))


def is_published(state: State, publication: Publication | None) -> bool:
    """Whether the dataset's table holds this state."""
    if publication is None or publication.error:
        return False
    return (publication.generation, publication.root, publication.schema) == (
        state.generation,
        state.root,
        schema_id(state.schema),
    )


def publish(store: Store, namespace: str, state: State, publisher: Publisher) -> int:
    """Make the dataset's table hold this state; returns the table's version. Repeating it is harmless."""
    with store.read(namespace) as tx:
        table = _table(tx, namespace, state)
    failpoint("before-publish")
    version = publisher.publish(table)
    failpoint("after-publish")
    with store.begin(namespace) as tx:
        tx.put_publication(
            Publication(state.branch, state.dataset, state.generation, state.root, schema_id(state.schema), version)
        )
        body = {"generation": state.generation, "version": version}
        tx.put_events([Event("dataset.published", state.dataset, 1, body)])
    return version


def _table(tx: Tx, namespace: str, state: State) -> Table:
    ids = [e.fragment for e in tree.scan(tx, state.root)]
    found = tx.fragments(set(ids))
    fragments = tuple(found[id] for id in ids)
    return Table(table_path(namespace, state.dataset), state.schema, fragments, state.generation, state.dataset)


def note_failure(store: Store, namespace: str, state: State, message: str) -> None:
    """Remember why a table could not follow; it is tried again."""
    with store.begin(namespace) as tx:
        known = tx.publications(state.branch, [state.dataset]).get(state.dataset)
        empty = Publication(state.branch, state.dataset, 0, tree.EMPTY_ROOT, b"", -1)
        tx.put_publication(replace(known or empty, error=message))
        tx.put_events([Event("dataset.publish_failed", state.dataset, 1, {"message": message})])
