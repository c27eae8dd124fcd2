"""Following a feed: its offer becomes known in the namespace of the reader, whole or not at all.

Tree nodes, fragments and profiles are the producer's, by the same ids, so nothing is computed
again. In the namespace of another one files are linked into the reader's folder of the lake (a hard
link, or a copy within the store): the reader keeps what it took over, whatever the producer
collects, revokes or deletes. The known offer is stored where other read components have their
listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Source
from controlplane.core.model.branches import MAIN
from controlplane.core.model.feeds import BREACH, FeedAddress
from controlplane.core.model.memos import Memos
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import LOST, State
from controlplane.core.model.table_paths import table_path
from controlplane.core.model.tasks import Fragment
from controlplane.core.plan.plan_values import user_error
from controlplane.core.tree import Entry, EntryChange
from controlplane.operations.feeds import circles
from controlplane.operations.feeds.offers import FeedNotGranted, Offer, granted, offer
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx
from dataplane.contract.results import FileEntry, TaskError, file_names

FRAGMENTS = 500  # that are taken over in one transaction
STEP = 5_000  # fragments that are taken over in one step: the loop has other things to do, too
NODES = 500

T = TypeVar("T")


def follow(store: Store, lake: ObjectStore, namespace: str, branch: str, node: Source) -> int:
    """One step towards what the feed offers now; 1 if anything changed, so that there may be more
    to do. Repeating it when nothing has moved costs two small reads."""
    assert node.feed is not None
    with store.read(node.feed.namespace) as theirs, store.read(namespace) as ours:
        listing = ours.listings.get([node.listing]).get(node.listing) or Listing(
            node.listing, None, None, 0, 0
        )
        try:
            offered = _looked_up(store, theirs, namespace, branch, node, listing)
        except FeedNotGranted as e:
            offered = _Offered(None, user_error(e.code, str(e)))
        lost = _given_up(ours, branch, node, listing) if node.feed.namespace != namespace else []
        if lost and listing.root is not None:
            again = {
                fragment.id: fragment
                for some in _pieces(lost, FRAGMENTS)
                for fragment in theirs.traces.fragments(some).values()
            }
            step: _Fragments | _Update | None = _again(ours, namespace, node, listing, again)
        else:
            step = _step(theirs, ours, namespace, node, listing, offered)
    if isinstance(step, _Fragments):
        return step.taken_over(store, lake, namespace)
    if step is None:
        return 0
    return step.taken_in(store, namespace)


@dataclass(frozen=True, slots=True)
class _Offered:
    """The result of reading an offer: the new state (None: the known one stays), and an error."""

    state: State | None
    error: TaskError | None = None


def _looked_up(
    store: Store, theirs: Tx, namespace: str, branch: str, node: Source, listing: Listing
) -> _Offered:
    address = node.feed
    assert address is not None
    feed = granted(theirs, address, namespace, node.dataset.partition(".")[0])
    offered = offer(theirs, feed)
    if offered.state is not None and offered.state.root != listing.root and branch == MAIN:
        circle = circles.circle_of(
            store, address.namespace, feed.dataset, (namespace, node.dataset)
        )
        if circle:
            return _Offered(
                None,
                user_error("feed-cycle", f"{' -> '.join(circle)}: what it offers is made of it"),
            )
    return _Offered(offered.state, _breach(address, offered))


def _breach(address: FeedAddress, offered: Offer) -> TaskError | None:
    if not offered.breaches:
        return None
    assert offered.newest is not None
    good, newest = offered.state, offered.newest.generation
    stays = (
        "no kept generation keeps it"
        if good is None
        else f"generation {good.generation} is offered instead"
    )
    message = (
        f"feed {address} breaks its contract in generation {newest}: {'; '.join(offered.breaches)}. "
        f"Meanwhile {stays}. Who offers it brings the columns back, or offers the dataset as another feed"
    )
    return user_error(BREACH, message)


def _step(
    theirs: Tx, ours: Tx, namespace: str, node: Source, before: Listing, offered: _Offered
) -> _Fragments | _Update | None:
    key = ids.feed_columns_key(node.listing)
    if offered.state is None or _is_known(ours, before, key, offered.state):
        if before.error == offered.error:
            return None
        return _Update(before, replace(before, error=offered.error))
    state, old = offered.state, before.root or tree.EMPTY_ROOT
    changes = list(tree.diff(_Both(theirs.nodes, ours.nodes), old, state.root))
    missing = _missing(ours, changes) if node.feed and node.feed.namespace != namespace else []
    if missing:
        few = (
            fragment
            for some in _pieces(missing, FRAGMENTS)
            for fragment in theirs.traces.fragments(some).values()
        )
        return _Fragments(namespace, node.dataset, tuple(few), theirs.traces.profiles(missing))
    old_digests = set(tree.reachable(ours.nodes, old)) if old != tree.EMPTY_ROOT else set()
    new = (
        []
        if state.root == tree.EMPTY_ROOT
        else list(tree.reachable(theirs.nodes, state.root, old_digests))
    )
    nodes = {
        digest: blob
        for some in _pieces(new, NODES)
        for digest, blob in theirs.nodes.get_nodes(some).items()
    }
    parts = tuple(_partitions(theirs, node, changes, state))
    removed_keys = tuple(change.key for change in changes if change.after is None)
    size = (
        before.size_bytes
        + sum(part.objects[0]["size"] for part in parts)
        - _size_of_old(ours, changes)
    )
    totals = tree.totals(_Both(theirs.nodes, ours.nodes), state.root)
    listing = replace(
        before,
        root=state.root,
        objects=totals.partitions,
        size_bytes=max(size, 0),
        error=offered.error,
        held=None,
    )
    return _Update(before, listing, nodes, parts, removed_keys, {key: {"schema": state.schema}})


def _is_known(ours: Tx, listing: Listing, key: bytes, state: State) -> bool:
    if listing.root != state.root:
        return False
    return ours.traces.memos([key]).get(key) == {"schema": state.schema}


def _missing(ours: Tx, changes: Sequence[EntryChange]) -> list[bytes]:
    """The first fragments that the reader has not got yet."""
    fragment_ids = list(
        dict.fromkeys(change.after.fragment for change in changes if change.after is not None)
    )
    missing: list[bytes] = []
    for some in _pieces(fragment_ids, FRAGMENTS):
        there = {id for id, stored in ours.traces.stored(some).items() if stored.status == "stored"}
        missing += (id for id in some if id not in there)
        if len(missing) >= STEP:
            break
    return missing[:STEP]


def _given_up(ours: Tx, branch: str, node: Source, listing: Listing) -> list[bytes]:
    """Fragments taken over earlier that a repair has given up, as their files were lost."""
    state = ours.states.newest(branch, [node.dataset]).get(node.dataset)
    if state is None or state.logic != LOST or listing.root is None:
        return []
    fragment_ids = list(
        dict.fromkeys(entry.fragment for entry in tree.scan(ours.nodes, listing.root))
    )
    return [
        id
        for some in _pieces(fragment_ids, FRAGMENTS)
        for id, stored in ours.traces.stored(some).items()
        if stored.status != "stored"
    ]


def _again(
    ours: Tx, namespace: str, node: Source, listing: Listing, theirs: Mapping[bytes, Fragment]
) -> _Fragments | None:
    """The given-up fragments, to be taken over once more. None where the producer lost them,
    too."""
    sound = tuple(fragment for fragment in theirs.values() if fragment.status == "stored")
    return (
        _Fragments(namespace, node.dataset, sound, ours.traces.profiles(theirs), again=listing)
        if sound
        else None
    )


def _partitions(
    theirs: Tx, node: Source, changes: Iterable[EntryChange], state: State
) -> Iterator[SourcePartition]:
    entries = (change.after for change in changes if change.after is not None)
    for some in _pieces(list(entries), FRAGMENTS):
        files = theirs.traces.stored_files(entry.fragment for entry in some)
        for entry in some:
            yield _partition(node, entry, sum(file.size for file in files[entry.fragment]), state)


def _partition(node: Source, entry: Entry, size: int, state: State) -> SourcePartition:
    """A partition of the feed, as one object that is named after it."""
    return SourcePartition(
        entry.key,
        entry.fragment,
        (
            {
                "name": entry.key,
                "uri": node.location,
                "size": size,
                "modified_ms": int(state.at * 1000),
                "version": f"fragment:{entry.fragment.hex()}",
                "columns": None,
            },
        ),
    )


def _size_of_old(ours: Tx, changes: Iterable[EntryChange]) -> int:
    old = [change.before.fragment for change in changes if change.before is not None]
    total = 0
    for some in _pieces(old, FRAGMENTS):
        files = ours.traces.stored_files(some)
        total += sum(file.size for id in some for file in files.get(id, ()))
    return total


# --- taking over ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fragments:
    """Fragments that the reader is to have, too."""

    namespace: str
    dataset: str
    theirs: tuple[Fragment, ...]
    profiles: Mapping[bytes, bytes]
    again: Listing | None = None  # they were given up: plans are to look once more

    def taken_over(self, store: Store, lake: ObjectStore, namespace: str) -> int:
        """Files first: a fragment that is known is there."""
        for some in _pieces(self.theirs, FRAGMENTS):
            own = [self._own(fragment) for fragment in some]
            for fragment, mine in zip(some, own, strict=True):
                for before, after in zip(fragment.files, mine.files, strict=True):
                    if self.again is not None:  # the rest of it
                        lake.delete_prefix(after["path"])
                    lake.link(before["path"], after["path"])
            with store.begin(namespace) as tx:
                tx.traces.put([], own)
                tx.traces.put_profiles(
                    {
                        own_fragment.id: self.profiles[own_fragment.id]
                        for own_fragment in own
                        if own_fragment.id in self.profiles
                    }
                )
                if self.again is not None:
                    tx.listings.put(self.again)
        return 1

    def _own(self, fragment: Fragment) -> Fragment:
        folder = table_path(self.namespace, MAIN, self.dataset)
        prefix = f"{folder}/_frags/{fragment.attempt[:2]}/{fragment.attempt}"
        names = file_names(fragment.files)
        files = tuple(
            _moved(file, f"{prefix}/{_below(file['path'], name, fragment)}")
            for name, file in zip(names, fragment.files, strict=True)
        )
        return replace(fragment, files=files, home=self.dataset)


def _moved(file: FileEntry, path: str) -> FileEntry:
    moved = file.copy()
    moved["path"] = path
    return moved


def _below(path: str, name: str, fragment: Fragment) -> str:
    """The path within the folder of the attempt; `name` in it of a file that another one wrote."""
    _, _, rest = path.partition(f"/{fragment.attempt}/")
    return rest or f"{fragment.id.hex()}/{name}"


@dataclass(frozen=True, slots=True)
class _Update:
    """The new listing in place of `before`, with its nodes, partitions and memos."""

    before: Listing
    after: Listing
    nodes: Mapping[bytes, bytes] = field(default_factory=dict)
    parts: tuple[SourcePartition, ...] = ()
    removed: tuple[str, ...] = ()
    memos: Memos = field(default_factory=dict)

    def taken_in(self, store: Store, namespace: str) -> int:
        """Unless another one was faster."""
        with store.begin(namespace) as tx:
            now = tx.listings.locked([self.before.id]).get(self.before.id)
            # None begins before this transaction ends: what the trees share is still there
            tx.upkeep.collections()
            if (now.root if now else None) != self.before.root:
                return 1
            for some in _pieces(list(self.nodes.items()), NODES):
                tx.nodes.put_nodes(dict(some))
            tx.listings.put_partitions(self.after.id, self.parts, self.removed)
            tx.traces.put_memos(self.memos)
            tx.listings.put(replace(self.after, at=tx.now()))
        return 1


@dataclass(frozen=True, slots=True)
class _Both:
    """Tree nodes of two namespaces: equal digests are equal nodes."""

    theirs: tree.NodeStore
    ours: tree.NodeStore

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        node_bytes = dict(self.theirs.get_nodes(digests))
        missing = [digest for digest in digests if digest not in node_bytes]
        if missing:
            node_bytes |= self.ours.get_nodes(missing)
        return node_bytes

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        raise NotImplementedError("two snapshots are only read")


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    source = iter(items)
    while some := list(islice(source, size)):
        yield some
