"""Metadata, manifest lists and manifests of Iceberg, made on request from the trees of states.

A manifest holds the files of one leaf of a tree, so a commit changes few of them. The ones made last
stay in memory, and nothing is stored. Bytes depend on the state and the folder alone: a list has
the length of a manifest that may be made again when it is read.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import islice
from typing import NamedTuple

from controlplane.core import tree
from controlplane.core.errors import HeadgateError
from controlplane.core.iceberg import manifest_records, table_metadata
from controlplane.core.iceberg.data_files import DataFile, data_file
from controlplane.core.iceberg.iceberg_schema import IcebergSchema, iceberg_schema
from controlplane.core.iceberg.table_metadata import IcebergHead
from controlplane.core.model.addresses import Generation
from controlplane.core.model.branches import MAIN
from controlplane.core.model.states import State
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
_SYNC = bytes(16)  # the marker between blocks: any, but always the same
_NAME = re.compile(r"metadata/(?P<kind>snap-|m-)?(?P<generation>[1-9][0-9]{0,15})-[0-9a-f-]+")
_NUMBER = re.compile(r"-(?P<number>0|[1-9][0-9]{0,8})\.avro", re.ASCII)


class TooManyPartitions(HeadgateError):
    """A table has too many partitions for manifests."""

    code = "too-many-partitions"


class _Made(NamedTuple):
    """A manifest. `files`, `rows`: how many are in it."""

    body: bytes
    files: int
    rows: int


class IcebergFiles:
    """Files of metadata of any dataset of one namespace. Safe to use from many threads."""

    def __init__(self, nodes: NodeCache, namespace: str) -> None:
        self._nodes, self._namespace = nodes, namespace
        self._made = MadeBodies(MADE_BYTES)

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
            body = self._manifest(tx, table, state, leaf).body
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
        key = ("list", table.folder, state.generation, state.root, schema_id(state.schema))

        def made() -> tuple[bytes]:
            made_manifests = (
                self._manifest(tx, table, state, leaf) for leaf in self._leaves(tx, state)
            )
            location = self._location(table)
            records = [
                manifest_records.list_entry(
                    f"{location}/{table_metadata.manifest_file(state, number)}",
                    len(made.body),
                    files=made.files,
                    rows=made.rows,
                )
                for number, made in enumerate(made_manifests)
            ]
            return (_avro(manifest_records.LIST, records, {"format-version": "2"}),)

        return self._made.get(key, made)[0]

    def _leaf_in(self, tx: Tx, state: State, name: str) -> bytes | None:
        """The leaf whose manifest a name means."""
        match = _NUMBER.search(name)
        if match is None or name != table_metadata.manifest_file(state, int(match["number"])):
            return None
        if state.partitions > MOST_PARTITIONS:
            return None
        return next(islice(self._leaves(tx, state), int(match["number"]), None), None)

    def _leaves(self, tx: Tx, state: State) -> Iterator[bytes]:
        if state.root == EMPTY_ROOT:
            return iter(())
        return tree.leaf_digests(self._nodes.over(tx.nodes), state.root)

    def _manifest(self, tx: Tx, table: TableAddress, state: State, leaf: bytes) -> _Made:
        def made() -> tuple[bytes, bytes, bytes]:
            entries = _entries(self._nodes, tx, leaf)
            files = [file for file, _ in self.data_files(tx, table, state, entries)]
            header = _manifest_header(iceberg_schema(state.schema))
            body = _avro(manifest_records.MANIFEST, map(manifest_records.file_entry, files), header)
            return body, b"%d" % len(files), b"%d" % sum(file.rows for file in files)

        key = ("manifest", table.folder, leaf, schema_id(state.schema))
        body, files, rows = self._made.get(key, made)
        return _Made(body, int(files), int(rows))

    def data_files(
        self, tx: Tx, table: TableAddress, state: State, entries: Sequence[Entry]
    ) -> Iterator[tuple[DataFile, FileEntry]]:
        """The files of some partitions of a state. Raises CorruptNode."""
        location, fields = self._location(table), iceberg_schema(state.schema)
        fragments = known_fragments.of(tx, entries)
        for key, fragment, _ in entries:
            for number, file in enumerate(fragments[fragment].files):
                path = f"{location}/{part_name(key, number, fragment.hex())}"
                yield data_file(path, file, state.schema, fields), file


def check_size(table: TableAddress, state: State) -> None:
    """Raises TooManyPartitions."""
    if state.partitions > MOST_PARTITIONS:
        raise TooManyPartitions(
            f"{table.name} has {state.partitions:,} partitions, and manifests are made for up to"
            f" {MOST_PARTITIONS:,}: let the server plan (scan-planning-mode=server)"
        )


def _entries(nodes: NodeCache, tx: Tx, leaf: bytes) -> tuple[Entry, ...]:
    """A leaf is a tree by itself."""
    return tuple(tree.scan(nodes.over(tx.nodes), leaf))


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
