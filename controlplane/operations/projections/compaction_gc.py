"""Packs that no kept generation needs for reading: giving them up, and deleting their files.

A pack stands in no tree, so no pointer holds it. It is needed while some tree that is read by packs
(of a kept generation, of queued or running work, of a published table) has a leaf of its rows. That
is known without reading leaves where the leaf that it was requested for is in use; else leaves that
hold one of its members are read.

Why no file in use is deleted. Rows are dropped in a transaction of its own, which excludes writers
of trees (`begin_collection`) and checks once more the trees that came since: after it no reader
finds the pack, and its members are read. A reader that found it before may go on for as long as the
grace lasts; then the folder is deleted, and only then forgotten, so that the next collection
finishes one that was killed in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from controlplane.core import tree
from controlplane.core.model import packs
from controlplane.core.model.pack_origins import Origin, PendingDeletion
from controlplane.core.model.retention import PointerKind
from controlplane.core.model.tasks import Fragment
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx
from dataplane.contract.failpoints import failpoint

READERS: tuple[PointerKind, ...] = ("state", "task", "publication")
FOLDERS_A_TIME = 100
# Files that another making of the same pack took the place of: tables of before may name them
KEPT_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Unused:
    """Packs without a known reader, and the trees in which that was checked."""

    packs: Mapping[bytes, Origin] = field(default_factory=dict)
    roots: frozenset[bytes] = frozenset()


def unused(tx: Tx, used: Set[bytes]) -> Unused:
    """`used`: the digests of all nodes that pointers of this snapshot lead to."""
    by_pack = {origin.pack: origin for origin in tx.upkeep.origins() if origin.leaf not in used}
    roots = _roots(tx) if by_pack else frozenset()
    if not roots <= used:  # what some table shows is not known
        return Unused()
    return Unused(_but(by_pack, _read_by(tx, roots, by_pack)), roots)


def _roots(tx: Tx) -> frozenset[bytes]:
    return frozenset(pointer.root for pointer in tx.upkeep.pointers(READERS)) - {tree.EMPTY_ROOT}


def _read_by(tx: Tx, roots: Iterable[bytes], origins: Mapping[bytes, Origin]) -> frozenset[bytes]:
    """Those of these packs that are of leaves of these trees."""
    members = {origin.member for origin in origins.values()}
    leaves = (
        {leaf for root in roots for leaf in tree.leaf_digests(tx.nodes, root)} if origins else set()
    )
    return frozenset(pack for leaf in sorted(leaves) for pack in _of_leaf(tx, leaf, members))


def _of_leaf(tx: Tx, leaf: bytes, members: Set[bytes]) -> Iterator[bytes]:
    [(_, entries)] = tree.by_leaf(tx.nodes, leaf)
    fragments = {entry.fragment for entry in entries}
    if not members.isdisjoint(fragments):
        yield from (pack.id for pack in packs.packs_of(entries, tx.traces.fragments(fragments)))


def _but(origins: Mapping[bytes, Origin], needed: Set[bytes]) -> dict[bytes, Origin]:
    return {pack: origin for pack, origin in origins.items() if pack not in needed}


def give_up(store: Store, namespace: str, snapshot: Unused, due: float) -> int:
    """Drop those of the packs that are not needed by now, either; their files wait until `due`. How
    many."""
    if not snapshot.packs:
        return 0
    with store.begin(namespace) as tx:
        tx.upkeep.begin_collection()
        abandoned = _but(snapshot.packs, _read_by(tx, _roots(tx) - snapshot.roots, snapshot.packs))
        # Asked for again
        abandoned = _but(
            abandoned, {o.pack for o in tx.upkeep.origins() if abandoned.get(o.pack) != o}
        )
        abandoned = _but(
            abandoned,
            {key for key, task in tx.queue.tasks(abandoned).items() if task.state != "done"},
        )
        tx.upkeep.put_leftovers(
            [leftover(fragment, due) for fragment in tx.traces.fragments(abandoned).values()]
        )
        tx.upkeep.drop_packs(list(abandoned))
    failpoint("packs-dropped")
    return len(abandoned)


def leftover(pack: Fragment, due: float) -> PendingDeletion:
    """Where its files are."""
    return PendingDeletion(pack.files[0]["path"].rpartition("/")[0], pack.attempt, due)


def replaced(tx: Tx, made: Iterable[Fragment]) -> None:
    """Note the files of packs that were given up, and are now made again elsewhere. Before they are
    stored."""
    new = {pack.id: pack for pack in made}
    old = [pack for pack in tx.traces.fragments(new).values() if pack.status != "stored"]
    due = tx.now() + KEPT_S
    tx.upkeep.put_leftovers(
        [leftover(pack, due) for pack in old if pack.attempt != new[pack.id].attempt]
    )


def delete_files(store: Store, namespace: str, lake: ObjectStore, now: float) -> int:
    """Delete the folders whose time has come, and those of attempts of which nothing is left; how
    many of the first."""
    total, some = 0, _due(store, namespace, now)
    while some:
        for left_folder in some:
            lake.delete_prefix(left_folder.folder)
        failpoint("leftovers-deleted")
        attempts = {
            left_folder.attempt: left_folder.folder.rpartition("/")[0] for left_folder in some
        }
        with store.begin(namespace) as tx:
            tx.upkeep.drop_leftovers([left_folder.folder for left_folder in some])
            referenced = tx.traces.referenced_attempts(list(attempts))
        for attempt in sorted(attempts.keys() - referenced):
            lake.delete_prefix(attempts[attempt])
        total += len(some)
        some = _due(store, namespace, now)
    return total


def _due(store: Store, namespace: str, now: float) -> tuple[PendingDeletion, ...]:
    with store.read(namespace) as tx:
        return tx.upkeep.leftovers(now, FOLDERS_A_TIME)
