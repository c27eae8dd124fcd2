"""Metadata, manifest lists and manifests of Iceberg, made on request from the trees of states.

A manifest holds the files of one leaf of a tree, so a commit changes few of them. The ones made last
stay in memory, and nothing is stored. A repaired fragment keeps its id and has other files, so bytes
depend on the folder, the state and the files that its fragments have at the time. The name of a
manifest has a digest of its files: a list leads to manifests of the lengths that it has, or to none.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from itertools import islice
from typing import NamedTuple, TypeAlias

from controlplane.core import tree
from controlplane.core.errors import HeadgateError
from controlplane.core.iceberg import manifest_records, table_metadata
from controlplane.core.iceberg.data_files import DataFile, data_file
from controlplane.core.iceberg.iceberg_schema import IcebergSchema, iceberg_schema
from controlplane.core.iceberg.table_metadata import IcebergHead
from controlplane.core.model.addresses import Generation
from controlplane.core.model.branches import MAIN
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.core.s3.part_names import part_name
from controlplane.core.tree import EMPTY_ROOT, Entry, NodeCache
from controlplane.operations import known_fragments
from controlplane.operations.inspect.datasets import kept_states
from controlplane.ports.store import Tx
from controlplane.services.s3.live_logs import MadeFile
from controlplane.services.s3.made_bodies import MadeBodies
from controlplane.services.s3.s3_addresses import TableAddress
from dataplane.contract.identity import schema_id
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json

MOST_PARTITIONS = 1_000_000  # of a state whose manifests are made
MOST_SNAPSHOTS = 100
MOST_STATES = 400  # that are looked at for snapshots
MADE_BYTES = 64 << 20
LENGTH_BYTES = 256 << 10  # of the lengths of manifests, as digits
FilesOf: TypeAlias = Callable[[Entry, Fragment], Iterator[DataFile]]
_SYNC = bytes(16)  # the marker between blocks: any, but always the same
_NAME = re.compile(r"metadata/(?P<kind>snap-|m-)?(?P<generation>[1-9][0-9]{0,15})-[0-9a-f-]+")
_NUMBER = re.compile(r"-(?P<number>0|[1-9][0-9]{0,8})-[0-9a-f]+\.avro", re.ASCII)


class TooManyPartitions(HeadgateError):
    """A table has too many partitions for manifests."""

    code = "too-many-partitions"


class _Leaf(NamedTuple):
    """A leaf of a tree, and the files of its partitions in order."""

    digest: bytes
    entries: tuple[Entry, ...]
    fragments: Mapping[bytes, Fragment]

    def files(self) -> Iterator[FileEntry]:
        for partition in self.entries:
            yield from self.fragments[partition.fragment].files

    def digest_of_files(self) -> bytes:
        """Another one where a fragment was repaired."""
        return sha256(
            json.dumps(
                [[file["path"], file["size"], file["rows"]] for file in self.files()]
            ).encode()
        ).digest()


class IcebergFiles:
    """Files of metadata of any dataset of one namespace. Safe to use from many threads."""

    def __init__(self, nodes: NodeCache, namespace: str) -> None:
        self._nodes, self._namespace = nodes, namespace
        self._made, self._lengths = MadeBodies(MADE_BYTES), MadeBodies(LENGTH_BYTES)

    def metadata(self, tx: Tx, table: TableAddress, newest: State) -> Json:
        """The metadata of a table whose current snapshot is a state."""
        states = table_metadata.readable_together(_generations(tx, table, newest))
        return table_metadata.metadata(self._head(tx, table), states)

    def find(self, tx: Tx, table: TableAddress, name: str) -> MadeFile | None:
        """A file by its name below the folder of the table. Raises TooManyPartitions."""
        state = _state_in(tx, table, name)
        if state is None:
            return None
        if name == table_metadata.metadata_file(state):
            body = json.dumps(self.metadata(tx, table, state)).encode()
        elif name == table_metadata.list_file(state):
            body = self._list(tx, table, state)
        else:
            leaf = self._leaf_in(tx, state, name)
            if leaf is None:
                return None
            body = self._manifest(table, state, leaf)
        return MadeFile(name, body, state.at)

    def _head(self, tx: Tx, table: TableAddress) -> IcebergHead:
        branch = tx.branches.all().get(table.ref.branch)
        made = branch.at if branch is not None and table.ref.branch != MAIN else 0
        name = f"{self._namespace}/{table.ref.branch}/{made}/{table.name}"
        id = uuid.uuid5(uuid.NAMESPACE_URL, f"headgate:{name}")
        return IcebergHead(str(id), self._location(table))

    def _location(self, table: TableAddress) -> str:
        return f"s3://{self._namespace}/{table.folder.rstrip('/')}"

    def _list(self, tx: Tx, table: TableAddress, state: State) -> bytes:
        check_size(table, state)
        location = self._location(table)
        records = []
        for number, digest in enumerate(self._leaves(tx, state)):
            leaf = _leaf(self._nodes, tx, digest)
            name = table_metadata.manifest_file(state, number, leaf.digest_of_files())
            sizes = [file["rows"] for file in leaf.files()]
            records.append(
                manifest_records.list_entry(
                    f"{location}/{name}",
                    self._length(table, state, leaf),
                    files=len(sizes),
                    rows=sum(sizes),
                )
            )
        return _avro(manifest_records.LIST, records, {"format-version": "2"})

    def _leaf_in(self, tx: Tx, state: State, name: str) -> _Leaf | None:
        """The leaf whose manifest a name means; None where its files are others by now."""
        match = _NUMBER.search(name)
        if match is None or state.partitions > MOST_PARTITIONS:
            return None
        number, leaves = int(match["number"]), self._leaves(tx, state)
        if number >= len(leaves):
            return None
        leaf = _leaf(self._nodes, tx, leaves[number])
        own_name = table_metadata.manifest_file(state, number, leaf.digest_of_files())
        return leaf if name == own_name else None

    def _leaves(self, tx: Tx, state: State) -> tuple[bytes, ...]:
        """The digests of all leaves of a state, in order."""
        if state.root == EMPTY_ROOT:
            return ()
        nodes = self._nodes.over(tx.nodes)
        return self._made.get(
            ("leaves", state.root), lambda: tuple(tree.leaf_digests(nodes, state.root))
        )

    def _length(self, table: TableAddress, state: State, leaf: _Leaf) -> int:
        """The bytes of a manifest. Lengths stay longer than manifests: a list needs no more."""
        key = _manifest_key(table, state, leaf)
        (digits,) = self._lengths.get(
            key, lambda: (b"%d" % len(self._manifest(table, state, leaf)),)
        )
        return int(digits)

    def _manifest(self, table: TableAddress, state: State, leaf: _Leaf) -> bytes:
        def made() -> tuple[bytes]:
            files_of = self.files_of(table, state)
            files = (
                manifest_records.file_entry(file)
                for partition in leaf.entries
                for file in files_of(partition, leaf.fragments[partition.fragment])
            )
            header = _manifest_header(iceberg_schema(state.schema))
            return (_avro(manifest_records.MANIFEST, files, header),)

        return self._made.get(_manifest_key(table, state, leaf), made)[0]

    def files_of(self, table: TableAddress, state: State) -> FilesOf:
        """The files of a partition of a state, in the order of its fragment."""
        location, fields = self._location(table), iceberg_schema(state.schema)

        def files(partition: Entry, fragment: Fragment) -> Iterator[DataFile]:
            for number, file in enumerate(fragment.files):
                path = f"{location}/{part_name(partition.key, number, partition.fragment.hex())}"
                yield data_file(path, file, state.schema, fields)

        return files


def _manifest_key(table: TableAddress, state: State, leaf: _Leaf) -> tuple[str | bytes, ...]:
    return (table.folder, leaf.digest, leaf.digest_of_files(), schema_id(state.schema))


def check_size(table: TableAddress, state: State) -> None:
    """Raises TooManyPartitions."""
    if state.partitions > MOST_PARTITIONS:
        raise TooManyPartitions(
            f"{table.name} has {state.partitions:,} partitions, and manifests are made for up to"
            f" {MOST_PARTITIONS:,}: let the server plan (scan-planning-mode=server)"
        )


def _leaf(nodes: NodeCache, tx: Tx, digest: bytes) -> _Leaf:
    """A leaf is a tree by itself. Raises CorruptNode."""
    entries = tuple(tree.scan(nodes.over(tx.nodes), digest))
    return _Leaf(digest, entries, known_fragments.of(tx, entries))


def _state_in(tx: Tx, table: TableAddress, name: str) -> State | None:
    """The kept state that a name means; of the address's own generation where it has one."""
    match = _NAME.match(name)
    if match is None:
        return None
    generation = int(match["generation"])
    state = tx.states.find(table.ref.branch, table.name, Generation(generation))
    if state is None or table_metadata.file_stem(state) not in name:
        return None
    return state


def _generations(tx: Tx, table: TableAddress, newest: State) -> list[State]:
    """One state of each generation up to this one, newest first: the first of each, since the later
    ones say the same."""
    some = islice(kept_states(tx, table.ref.branch, table.name, newest.seq + 1), MOST_STATES)
    by_generation: dict[int, State] = {newest.generation: newest}
    for state in some:
        if state.generation not in by_generation and len(by_generation) == MOST_SNAPSHOTS:
            break
        by_generation[state.generation] = state
    return list(by_generation.values())


def _manifest_header(fields: IcebergSchema) -> Mapping[str, str]:
    return {
        "schema": json.dumps(fields.as_json(0)),
        "schema-id": "0",
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }


def _avro(schema: Json, records: Iterable[Json], header: Mapping[str, str]) -> bytes:
    import fastavro

    file = BytesIO()
    fastavro.writer(
        file, schema, records, codec="deflate", metadata=dict(header), sync_marker=_SYNC
    )
    return file.getvalue()
