"""Fragments that partitions name, all of them."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import Entry
from controlplane.ports.store import Tx
from dataplane.contract.results import FileEntry


def of(tx: Tx, entries: Iterable[Entry]) -> dict[bytes, Fragment]:
    """By id. Raises CorruptNode where the database does not know one: its partition cannot be
    read."""
    keys = {entry.fragment: entry.key for entry in entries}
    by_id = tx.traces.fragments(keys)
    for id, key in keys.items():
        if id not in by_id:
            raise CorruptNode(
                f"partition {key!r} names fragment {id.hex()}, which is not known: run `headgate fsck`"
            )
    return by_id


def files(tx: Tx, root: bytes) -> list[FileEntry]:
    """All files of a state, in order of keys, in time proportional to its partitions. Raises
    CorruptNode."""
    entries = list(tree.scan(tx.nodes, root))
    fragments = of(tx, entries)
    return [file for entry in entries for file in fragments[entry.fragment].files]


def paths(tx: Tx, root: bytes) -> list[str]:
    """The paths of the same."""
    return [file["path"] for file in files(tx, root)]
