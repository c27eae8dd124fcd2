"""Build a tree from sorted entries, streaming: memory holds one chunk and one open node per level."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import lt

from controlplane.core.tree.codec import leaf_columns
from controlplane.core.tree.shape import boundaries
from controlplane.core.tree.values import Entry, NodeStore
from controlplane.core.tree.write import Run, Tower, Writer

CHUNK = 8192


def build(nodes: NodeStore, entries: Iterable[Entry]) -> bytes:
    """The root of the map of these entries. Raises ValueError unless their keys strictly ascend."""
    writer = Writer(nodes)
    leaves, tower = Run(0, writer), Tower(0, writer)
    source, last = iter(entries), None
    while chunk := list(islice(source, CHUNK)):
        columns = leaf_columns(chunk)
        keys = columns.keys
        if not all(map(lt, keys, islice(keys, 1, None))) or (last is not None and last >= keys[0]):
            raise ValueError("the keys of entries must strictly ascend")
        last = keys[-1]
        for key, row in leaves.add(columns, boundaries(keys)):
            tower.add(key, row)
    for key, row in leaves.close():
        tower.add(key, row)
    root = tower.root()
    writer.flush()
    return root
