"""The contents of the catalogue for a token: warehouses, namespaces, tables and their metadata."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.iceberg import table_metadata
from controlplane.core.model.addresses import Moment
from controlplane.core.model.states import State
from controlplane.core.scopes import Scope
from controlplane.core.tree import NodeCache
from controlplane.operations.inspect.time_travel import state_of
from controlplane.ports.store import Store, Tx
from controlplane.services.iceberg.http.iceberg_refusals import (
    NO_NAMESPACE,
    NO_TABLE,
    IcebergRefused,
)
from controlplane.services.s3 import levels, s3_addresses
from controlplane.services.s3.iceberg_files import IcebergFiles
from controlplane.services.s3.key_scope import OutOfScope, Reader
from controlplane.services.s3.s3_addresses import TableAddress
from dataplane.contract.schemas import Json

NODE_BYTES = 64 << 20
WHOLE = (Scope(),)  # a token's rights alone say what it reads


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """`location`: of its metadata, as a URL."""

    address: TableAddress
    metadata: Json
    location: str


class IcebergCatalogue:
    """The catalogue of one namespace of ours. Safe to use from many threads."""

    def __init__(self, store: Store, namespace: str) -> None:
        self.nodes = NodeCache(NODE_BYTES)
        self.files = IcebergFiles(self.nodes, namespace)
        self._store, self._namespace = store, namespace

    def check_warehouse(self, reader: Reader, ref: str) -> None:
        """Raises IcebergRefused."""
        with self._store.read(self._namespace) as tx:
            _check_ref(tx, reader, ref)

    def dataflows(self, reader: Reader, ref: str) -> list[str]:
        """Raises IcebergRefused."""
        with self._store.read(self._namespace) as tx:
            _check_ref(tx, reader, ref)
            return _below(tx, reader, f"{ref}/")

    def datasets(self, reader: Reader, ref: str, dataflow: str) -> list[str]:
        """Raises IcebergRefused."""
        with self._store.read(self._namespace) as tx:
            _check_ref(tx, reader, ref)
            names = _below(tx, reader, f"{ref}/{dataflow}/")
        if not names:
            raise IcebergRefused(404, f"there is no dataflow {dataflow} in {ref}", NO_NAMESPACE)
        return names

    def table(self, reader: Reader, ref: str, dataflow: str, dataset: str) -> LoadedTable:
        """Raises IcebergRefused, OutOfScope, NotFound, GenerationGone."""
        with self._store.read(self._namespace) as tx:
            address, state = self.state(tx, reader, ref, dataflow, dataset)
            metadata = self.files.metadata(tx, address, state)
        location = f"{metadata['location']}/{table_metadata.metadata_file(state)}"
        return LoadedTable(address, metadata, location)

    def state(
        self, tx: Tx, reader: Reader, ref: str, dataflow: str, dataset: str
    ) -> tuple[TableAddress, State]:
        """The state that an address means. Raises as `table` does."""
        _check_ref(tx, reader, ref)
        address = s3_addresses.table(ref, dataflow, dataset)
        if address is None:
            raise IcebergRefused(404, f"{dataset[:100]!r} is no name of a table", NO_TABLE)
        if not reader.may_read(address):
            raise OutOfScope("this token may not read this table")
        return address, state_of(tx, address.ref.branch, address.name, address.point)


def _check_ref(tx: Tx, reader: Reader, text: str) -> None:
    ref = s3_addresses.ref(text)
    like = "write a branch, or a branch and a time in UTC that has come: main@20261124T070000Z"
    if ref is None or (ref.time is not None and not _has_come(tx, ref.time)):
        raise IcebergRefused(404, f"{text[:100]!r} is no warehouse; {like}", NO_NAMESPACE)
    if not reader.may_see_part_of(ref):
        raise OutOfScope("this token reads nothing in this warehouse")
    if not levels.is_there(tx, ref):
        raise IcebergRefused(404, f"there is no branch {ref.branch}", NO_NAMESPACE)


def _has_come(tx: Tx, time: Moment) -> bool:
    return time.end <= tx.now()


def _below(tx: Tx, reader: Reader, prefix: str) -> list[str]:
    return [name.removeprefix(prefix).rstrip("/") for name in levels.names(tx, reader, prefix)]
