"""Build a tree from sorted rows, streaming: memory holds one chunk and one open node per level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import lt

from controlplane.core.tree.codec import NodeColumns, check_columns, leaf_columns
from controlplane.core.tree.shape import boundaries
from controlplane.core.tree.tree_values import Entry, NodeStore
from controlplane.core.tree.tree_writer import NodeRun, Tower, Writer

CHUNK = 8192


def build(nodes: NodeStore, entries: Iterable[Entry]) -> bytes:
    """The root of the map of these entries. Raises ValueError unless their keys strictly ascend."""
    return build_columns(nodes, _chunks(entries))


def build_columns(nodes: NodeStore, chunks: Iterable[NodeColumns]) -> bytes:
    """As `build`, of rows that come by column, some thousand at a time: nothing is done for each
    row but what must be.

    `ids` holds the fragment id of each row, `rest` its content as three unsigned 64-bit numbers,
    little-endian.
    """
    writer = Writer(nodes)
    leaves, tower = NodeRun(0, writer), Tower(0, writer)
    for columns in _ascending(chunks):
        for key, row in leaves.add(columns, boundaries(columns.keys)):
            tower.add(key, row)
    for key, row in leaves.close():
        tower.add(key, row)
    root = tower.root()
    writer.flush()
    return root


def _chunks(entries: Iterable[Entry]) -> Iterator[NodeColumns]:
    source = iter(entries)
    while chunk := list(islice(source, CHUNK)):
        yield leaf_columns(chunk)


def _ascending(chunks: Iterable[NodeColumns]) -> Iterator[NodeColumns]:
    last = None
    for columns in map(check_columns, chunks):
        keys = columns.keys
        if not keys:
            continue
        if not all(map(lt, keys, islice(keys, 1, None))) or (last is not None and last >= keys[0]):
            raise ValueError("the keys of entries must strictly ascend")
        last = keys[-1]
        yield columns
