"""The objects of one dataset: files of its rows in the order of their names, and its Delta log.

A Delta log is one of two: main's newest state has the published table's, passed through, whose entries name files by
where they lie (`_frags/...`); a generation, and a ref with a time, have one that is made of the state. The newest state
of another branch has none: it moves, and nothing keeps a log of it. Does not belong here: many datasets (`listing`).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from heapq import merge
from itertools import islice
from threading import Lock

from controlplane.core import tree
from controlplane.core.model.branches import MAIN
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.s3 import delta_snapshot, part_names
from controlplane.core.s3.addresses import Table
from controlplane.core.s3.delta_snapshot import Part
from controlplane.core.s3.part_names import PartName, part_name
from controlplane.core.tree import Entry, NodeCache
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.s3.own_files import OwnFiles
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Tx
from dataplane.contract.results import FileEntry

LOG = "_delta_log/"
OWN = "_frags/"
NODE_BYTES = 64 << 20
LOG_BYTES = 64 << 20  # of logs that were made, kept until there are others
FIRST_BATCH, BATCH = 64, 1000  # fragments that are read at a time


@dataclass(frozen=True, slots=True)
class S3Object:
    """`name` is relative to the dataset, or the whole key. `source`: its bytes, or its path in the lake."""

    name: str
    size: int
    etag: str
    at: float
    source: bytes | str


class TableObjects:
    """Of any dataset of one namespace. Safe to use from many threads."""

    def __init__(self, lake: ObjectStore, namespace: str) -> None:
        self._lake, self._namespace = lake, namespace
        self._nodes = NodeCache(NODE_BYTES)
        self._logs = _MadeLogs(LOG_BYTES)
        self._own = OwnFiles(namespace)

    def since(self, tx: Tx, table: Table, state: State, start: str) -> Iterator[S3Object]:
        """The objects whose names are `start` or come after it, in the order of their names."""
        parts = self._parts(tx, state, part_names.least_key(start))
        both = merge(parts, self._log(tx, table, state), key=lambda found: found.name)
        return (found for found in both if found.name >= start)

    def find(self, tx: Tx, table: Table, state: State, name: str) -> S3Object | None:
        """`state`: that which the address means now. Of the newest, files of all kept states are found as well: a
        reader that listed them goes on with them."""
        if name.startswith(LOG):
            return next((found for found in self._log(tx, table, state) if found.name == name), None)
        if name.startswith(OWN):
            return self._own_file(tx, table, state, name)
        wanted = part_names.parse(name)
        return None if wanted is None else self._part(tx, table, state, name, wanted)

    # --- files of rows

    def _parts(self, tx: Tx, state: State, least: str) -> Iterator[S3Object]:
        entries, number = tree.scan(self._nodes.over(tx), state.root, start=least), FIRST_BATCH
        while batch := list(islice(entries, number)):
            yield from self._of_entries(tx, state, batch)
            number = BATCH

    def _of_entries(self, tx: Tx, state: State, entries: Iterable[Entry]) -> Iterator[S3Object]:
        entries = list(entries)
        fragments = tx.fragments({entry.fragment for entry in entries})
        for entry in entries:
            if entry.fragment not in fragments:  # which the check of the store tells
                continue
            id, files = entry.fragment.hex(), fragments[entry.fragment].files
            found = [_of_part(entry.key, id, number, file, state.at) for number, file in enumerate(files)]
            yield from sorted(found, key=lambda part: part.name)  # 10 comes before 2

    def _part(self, tx: Tx, table: Table, state: State, name: str, wanted: PartName) -> S3Object | None:
        seen: set[bytes] = set()
        nodes = self._nodes.over(tx)
        for one in _states(tx, table, state):
            if one.root in seen:
                continue
            seen.add(one.root)
            entry = tree.lookup(nodes, one.root, [wanted.key]).get(wanted.key)
            if entry is not None and entry.fragment.hex().startswith(wanted.fragment):
                return next((part for part in self._of_entries(tx, one, [entry]) if part.name == name), None)
        return None

    # --- Delta

    def _log(self, tx: Tx, table: Table, state: State) -> Iterator[S3Object]:
        if table.point is not None:
            body = self._logs.get(state, lambda: delta_snapshot.log(state, self._named(tx, state)))
            yield S3Object(delta_snapshot.FILE, len(body), sha256(body).hexdigest()[:32], state.at, body)
        elif table.ref.branch == MAIN:
            yield from self._published_log(table, state)

    def _named(self, tx: Tx, state: State) -> Iterator[Part]:
        entries = tree.scan(self._nodes.over(tx), state.root)
        while batch := list(islice(entries, BATCH)):
            fragments = tx.fragments({entry.fragment for entry in batch})
            for entry in batch:
                for number, file in enumerate(fragments[entry.fragment].files):
                    yield Part(part_name(entry.key, number, entry.fragment.hex()), file)

    def _published_log(self, table: Table, state: State) -> Iterator[S3Object]:
        folder = table_path(self._namespace, MAIN, table.name)
        sizes = self._lake.sizes(f"{folder}/{LOG.rstrip('/')}")
        for path, size in sorted(sizes.items()):
            etag = _etag(f"{path} {size} {state.generation if path.endswith('/_last_checkpoint') else ''}")
            yield S3Object(path.removeprefix(f"{folder}/"), size, etag, state.at, path)

    def _own_file(self, tx: Tx, table: Table, state: State, name: str) -> S3Object | None:
        """What the published log names, if it is a file of this dataset in a state that is kept."""
        if table.point is not None or table.ref.branch != MAIN:
            return None
        size = self._own.size(tx, self._nodes.over(tx), table.name, name)
        path = f"{table_path(self._namespace, MAIN, table.name)}/{name}"
        return None if size is None else S3Object(name, size, _etag(path), state.at, path)


class _MadeLogs:
    """The logs that were asked for last, by state."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._bodies: OrderedDict[tuple[bytes, str, float], bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, state: State, make: Callable[[], bytes]) -> bytes:
        key = (state.root, json.dumps(state.schema), state.at)
        with self._lock:
            if key in self._bodies:
                self._bodies.move_to_end(key)
                return self._bodies[key]
        body = make()
        with self._lock:
            if key not in self._bodies:
                self._size += len(body)
            self._bodies[key] = body
            while self._size > self._most:
                _, forgotten = self._bodies.popitem(last=False)
                self._size -= len(forgotten)
        return body


def _states(tx: Tx, table: Table, state: State) -> Iterator[State]:
    yield state
    for one in kept_states(tx, table.ref.branch, table.name):
        if table.point is None or one.generation == state.generation:
            yield one


def _of_part(key: str, fragment: str, number: int, file: FileEntry, at: float) -> S3Object:
    etag = f"{fragment[: part_names.FRAGMENT_DIGITS]}-{number}"
    return S3Object(part_name(key, number, fragment), file["size"], etag, at, file["path"])


def _etag(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
