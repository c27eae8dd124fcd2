"""The objects of one dataset: files of its rows in the order of their names, and its Delta log.

A Delta log is one of three: main's newest state has the published table's, passed through, whose
entries name files by where they lie (`_frags/...`); a generation, and a ref with a time, have one
that is made of the state; the newest state of another branch has one of its kept generations
(`live_logs`). Metadata of Iceberg is found by its names, and not listed (`iceberg_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from controlplane.core import tree
from controlplane.core.iceberg.table_metadata import FOLDER as METADATA
from controlplane.core.model.branches import MAIN
from controlplane.core.model.roll_ups import file_batches
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.model.tasks import StoredFile
from controlplane.core.s3 import delta_snapshot, part_names
from controlplane.core.s3.delta_actions import TableFile
from controlplane.core.s3.live_log import FOLDER
from controlplane.core.s3.part_names import PartName, part_name
from controlplane.core.tree import Entry, NodeCache
from controlplane.operations import known_fragments
from controlplane.operations.inspect.datasets import kept_states
from controlplane.ports.lake import MakeCheckpoint, ObjectStore
from controlplane.ports.store import Tx
from controlplane.services.s3.iceberg_files import IcebergFiles
from controlplane.services.s3.live_logs import LiveLogs, MadeFile
from controlplane.services.s3.made_bodies import MadeBodies
from controlplane.services.s3.own_files import OwnFiles
from controlplane.services.s3.s3_addresses import TableAddress
from dataplane.contract.delta_log import HINT, LOG
from dataplane.contract.identity import schema_id

OWN = "_frags/"
NODE_BYTES = 64 << 20
LOG_BYTES = 64 << 20  # of logs that were made, kept until there are others
BATCH = 1000  # fragments that are read at a time


class S3Object(NamedTuple):  # which is made faster than a dataclass
    """`name` is relative to the dataset, or the whole key. `source`: its bytes, or its path in the
    lake."""

    name: str
    size: int
    etag: str
    at: float
    source: bytes | str


class TableObjects:
    """Objects of any dataset of one namespace. Safe to use from many threads."""

    def __init__(self, lake: ObjectStore, namespace: str, make_checkpoint: MakeCheckpoint) -> None:
        self._lake, self._namespace = lake, namespace
        self._nodes = NodeCache(NODE_BYTES)
        self._logs = MadeBodies(LOG_BYTES)
        self._live = LiveLogs(self._nodes, self._logs, make_checkpoint)
        self._own = OwnFiles(namespace)
        self._iceberg = IcebergFiles(self._nodes, namespace)

    def since(
        self, tx: Tx, table: TableAddress, state: State, start: str, ahead: int
    ) -> Iterator[S3Object]:
        """The objects whose names are `start` or come after it, in the order of their names.
        `ahead`: of how many partitions the files are looked up at first."""
        parts = self._parts(tx, state, part_names.least_key(start), ahead)
        log = self._log(tx, table, state) if start < FOLDER or start.startswith(FOLDER) else ()
        return (s3_object for s3_object in _merged(parts, log) if s3_object.name >= start)

    def find(self, tx: Tx, table: TableAddress, state: State, name: str) -> S3Object | None:
        """`state`: the present meaning of the address. For the newest one, files of all kept states
        are found as well: a reader that listed them goes on with them."""
        if name.startswith(FOLDER) and _is_live(table):
            made = self._live.find(tx, table.ref.branch, state, name)
            return None if made is None else _of_log(made)
        if name.startswith(FOLDER):
            return next(
                (s3_object for s3_object in self._log(tx, table, state) if s3_object.name == name),
                None,
            )
        if name.startswith(OWN):
            return self._own_file(tx, table, state, name)
        if name.startswith(METADATA):
            made = self._iceberg.find(tx, table, name)
            return None if made is None else _of_log(made)
        part = part_names.parse(name)
        return None if part is None else self._part(tx, table, state, name, part)

    def find_part(self, tx: Tx, state: State, name: str) -> S3Object | None:
        """A file of the rows of this state, and nothing else: always a short look-up."""
        part = part_names.parse(name)
        return None if part is None else self._part_of(tx, state, name, part)

    # --- files of rows

    def _parts(self, tx: Tx, state: State, least: str, ahead: int) -> Iterator[S3Object]:
        entries = tree.scan(self._nodes.over(tx.nodes), state.root, start=least)
        first = islice(entries, ahead)
        for batch in chain(file_batches(first, BATCH), file_batches(entries, BATCH)):
            yield from self._of_entries(tx, state, batch)

    def _of_entries(self, tx: Tx, state: State, entries: Iterable[Entry]) -> Iterator[S3Object]:
        entries = list(entries)
        files = tx.traces.stored_files({entry.fragment for entry in entries})
        for entry in entries:
            # None where a fragment is missing, which `fsck` reports
            mine = files.get(entry.fragment, ())
            id = entry.fragment.hex()
            parts = [
                _of_part(entry.key, id, number, file, state.at) for number, file in enumerate(mine)
            ]
            # 10 comes before 2
            yield from sorted(parts, key=attrgetter("name")) if len(parts) > 1 else parts

    def _part(
        self, tx: Tx, table: TableAddress, state: State, name: str, part: PartName
    ) -> S3Object | None:
        roots: set[bytes] = set()
        for earlier in _states(tx, table, state):
            if earlier.root in roots:
                continue
            roots.add(earlier.root)
            if s3_object := self._part_of(tx, earlier, name, part):
                return s3_object
        return None

    def _part_of(self, tx: Tx, state: State, name: str, named: PartName) -> S3Object | None:
        entry = tree.lookup(self._nodes.over(tx.nodes), state.root, [named.key]).get(named.key)
        if entry is None or not entry.fragment.hex().startswith(named.fragment):
            return None
        return next(
            (part for part in self._of_entries(tx, state, [entry]) if part.name == name), None
        )

    # --- Delta

    def _log(self, tx: Tx, table: TableAddress, state: State) -> Iterator[S3Object]:
        if table.point is not None:
            key = (state.root, schema_id(state.schema), state.at)
            (body,) = self._logs.get(
                key, lambda: (delta_snapshot.log(state, self._named(tx, state)),)
            )
            yield _of_log(MadeFile(delta_snapshot.FILE, body, state.at))
        elif _is_live(table):
            yield from map(_of_log, self._live.files(tx, table.ref.branch, state))
        else:
            yield from self._published_log(table, state)

    def _named(self, tx: Tx, state: State) -> Iterator[TableFile]:
        entries = tree.scan(self._nodes.over(tx.nodes), state.root)
        for batch in file_batches(entries, BATCH):
            fragments = known_fragments.of(tx, batch)
            for entry in batch:
                for number, file in enumerate(fragments[entry.fragment].files):
                    yield TableFile(part_name(entry.key, number, entry.fragment.hex()), file)

    def _published_log(self, table: TableAddress, state: State) -> Iterator[S3Object]:
        folder = table_path(self._namespace, MAIN, table.name)
        sizes = self._lake.sizes(f"{folder}/{LOG}")
        for path, size in sorted(sizes.items()):
            etag = _etag(f"{path} {size} {state.generation if path.endswith(f'/{HINT}') else ''}")
            yield S3Object(path.removeprefix(f"{folder}/"), size, etag, state.at, path)

    def _own_file(self, tx: Tx, table: TableAddress, state: State, name: str) -> S3Object | None:
        """What the published log names, if it is a file of this dataset in a state that is kept."""
        if table.point is not None or table.ref.branch != MAIN:
            return None
        size = self._own.size(tx, self._nodes.over(tx.nodes), table.name, name)
        path = f"{table_path(self._namespace, MAIN, table.name)}/{name}"
        return None if size is None else S3Object(name, size, _etag(path), state.at, path)


def _merged(parts: Iterable[S3Object], log: Iterable[S3Object]) -> Iterator[S3Object]:
    """In the order of names. The log is made when a listing comes to it."""
    rest = iter(log)
    for part in parts:
        if part.name > FOLDER:
            yield from rest
        yield part
    yield from rest


def _states(tx: Tx, table: TableAddress, state: State) -> Iterator[State]:
    yield state
    for kept_state in kept_states(tx, table.ref.branch, table.name):
        if table.point is None or kept_state.generation == state.generation:
            yield kept_state


def _of_part(key: str, fragment: str, number: int, file: StoredFile, at: float) -> S3Object:
    etag = f"{fragment[: part_names.FRAGMENT_DIGITS]}-{number}"
    return S3Object(part_name(key, number, fragment), file.size, etag, at, file.path)


def _of_log(made: MadeFile) -> S3Object:
    return S3Object(
        made.name, len(made.body), sha256(made.body).hexdigest()[:32], made.at, made.body
    )


def _is_live(table: TableAddress) -> bool:
    """True if the table moves, and is not published for the view."""
    return table.point is None and table.ref.branch != MAIN


def _etag(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
