"""Delta tables follow committed states: which are behind, and bringing one up to its newest
state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controlplane import logs
from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import Event
from controlplane.core.model.projections import Publication, TableContent, unknown_table
from controlplane.core.model.roll_ups import change_groups, is_layout
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.model.tasks import Fragment
from controlplane.core.plan import RECENT
from controlplane.core.tree import EntryChange
from controlplane.operations.projections import compaction
from controlplane.ports.lake import Publisher
from controlplane.ports.store import Store, Tx
from dataplane.contract.failpoints import failpoint
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Schema

log = logs.get("publish")


def behind(store: Store, namespace: str, states: Iterable[State]) -> tuple[State, ...]:
    """Those of these states whose table, which is that of their branch, does not hold them yet."""
    by_branch: dict[str, list[State]] = {}
    for state in states:
        by_branch.setdefault(state.branch, []).append(state)
    if not by_branch:
        return ()
    with store.read(namespace) as tx:
        publications = {
            branch: tx.projections.publications(branch, [s.dataset for s in some])
            for branch, some in by_branch.items()
        }
    return tuple(
        s
        for some in by_branch.values()
        for s in some
        if not is_published(s, publications[s.branch].get(s.dataset))
    )


def is_published(state: State, publication: Publication | None) -> bool:
    """Whether the table of the state's own branch holds it."""
    if publication is None or publication.error or publication.branch != state.branch:
        return False
    return (publication.generation, publication.root, publication.schema) == (
        state.generation,
        state.root,
        schema_id(state.schema),
    )


def publish(store: Store, namespace: str, state: State, publisher: Publisher) -> int:
    """Make the dataset's table hold this state; returns the table's version. Repeating it is
    harmless."""
    with store.read(namespace) as tx:
        publication = tx.projections.publications(state.branch, [state.dataset]).get(state.dataset)
        unpacked = _unpacked(tx, namespace, state, publication)
        table = _table(
            tx,
            namespace,
            state,
            is_layout=publication is not None and _has_rows_of(publication, state),
        )
    failpoint("before-publish")
    notices: list[str] = []
    if unpacked is not None:
        publisher.publish(unpacked, notices.append)
    version = publisher.publish(table, notices.append)
    failpoint("after-publish")
    with store.begin(namespace) as tx:
        # Without the files of its packs it is published once more
        schema = schema_id(state.schema) if compaction.are_there(tx, table.fragments) else b""
        tx.projections.put_publication(
            Publication(state.branch, state.dataset, state.generation, state.root, schema, version)
        )
        body = {"generation": state.generation, "version": version}
        for notice in notices:
            tx.events.put([_event(state, "dataset.log_made_anew", {"message": notice, **body})])
        tx.events.put([_event(state, "dataset.published", body)])
    for notice in notices:
        log.warning("log made anew", dataset=state.dataset, message=notice)
    return version


def _has_rows_of(publication: Publication, state: State) -> bool:
    """True if the table holds the rows of the state, perhaps in other files. It may be one
    generation newer than its record, where an answer was lost."""
    newer = state.generation - publication.generation
    return publication.version >= 0 and newer in (0, 1) and publication.root == state.root


def _table(tx: Tx, namespace: str, state: State, *, is_layout: bool) -> TableContent:
    fragments = tuple(compaction.fragments(tx, state.root))
    path = table_path(namespace, state.branch, state.dataset)
    borrows = state.branch != MAIN
    return TableContent(
        path, state.schema, fragments, state.generation, state.dataset, is_layout, borrows=borrows
    )


def _unpacked(
    tx: Tx, namespace: str, state: State, publication: Publication | None
) -> TableContent | None:
    """The table with its present rows, without packs that the state breaks up, with those that came
    in since, and with spans in place of their slices: so that the commit of a generation that adds
    rows does nothing but add. The published table may be newer than its record, where an answer was
    lost: then this step is passed over."""
    if publication is None or publication.version < 0 or publication.root == state.root:
        return None
    schema = _published_schema(tx, publication, state)
    if schema is None:
        return None
    leaves = frozenset(tree.leaf_digests(tx.nodes, state.root))
    try:
        moved = _moved(tx, publication, state) if schema == state.schema else ()
        is_current = bool(publication.schema) and not moved
        if is_current and not compaction.breaks_up(tx, publication.root, leaves):
            return None
        fragments = compaction.fragments(tx, publication.root, leaves)
        fragments = _with_moved(tx, fragments, moved)
    except CorruptNode:  # nothing else needs that tree; then it is one commit
        return None
    path = table_path(namespace, state.branch, state.dataset)
    return TableContent(
        path,
        schema,
        tuple(fragments),
        publication.generation,
        state.dataset,
        is_layout=True,
        is_passing=True,
        borrows=state.branch != MAIN,
    )


def _moved(tx: Tx, publication: Publication, state: State) -> Sequence[EntryChange]:
    """Slices and spans that took each other's place since the publication, with the same rows."""
    changes = tree.diff(tx.nodes, publication.root, state.root)
    layouts = filter(is_layout, change_groups(changes))
    return [change for group in layouts for change in group]


def _with_moved(
    tx: Tx, fragments: Iterable[Fragment], moved: Sequence[EntryChange]
) -> list[Fragment]:
    removed = Counter(change.before.fragment for change in moved if change.before is not None)
    added = [change.after.fragment for change in moved if change.after is not None]
    fragments_left: list[Fragment] = []
    for fragment in fragments:
        if removed[fragment.id]:
            removed[fragment.id] -= 1
        else:
            fragments_left.append(fragment)
    by_id = tx.traces.fragments(added)
    return [*fragments_left, *(by_id[id] for id in added)]


def _published_schema(tx: Tx, publication: Publication, state: State) -> Schema | None:
    """The columns of the published table, if the state has them too, with new ones at most behind
    them. Else None."""
    if publication.schema == schema_id(state.schema):
        return state.schema
    for earlier in tx.states.history(state.branch, state.dataset, RECENT):
        if earlier.generation == publication.generation:
            columns = earlier.schema["fields"]
            is_start = state.schema["fields"][: len(columns)] == columns
            return earlier.schema if is_start else None
    return None


def note_failure(store: Store, namespace: str, state: State, message: str) -> None:
    """Remember why a table could not follow; it is tried again."""
    with store.begin(namespace) as tx:
        publication = tx.projections.publications(state.branch, [state.dataset]).get(state.dataset)
        empty = unknown_table(state.branch, state.dataset)
        tx.projections.put_publication(replace(publication or empty, error=message))
        tx.events.put([_event(state, "dataset.publish_failed", {"message": message})])


def _event(state: State, kind: str, body: Mapping[str, object]) -> Event:
    return Event(kind, state.dataset, 1, body, branch=state.branch)
