"""The partition tree: an ordered map key -> (fragment, content) as immutable nodes addressed by
digest.

A Merkle tree in which a hash of the keys alone decides where nodes end (`shape`). So equal maps
have equal roots after any history, and maps that differ little share nearly all nodes. Every
function takes a `NodeStore` and reads nodes in batches; large results are streamed. Over a
`NodeCache` a node is read and decoded once; `warm` reads ahead for many trees at a time. Keys are
any text without lone surrogates, ordered by code point, which is the order of their UTF-8 bytes. A
missing node, or one with wrong bytes, raises `CorruptNode`.

Nothing here depends on the use of a partition, on where nodes are kept, or on when they may be
deleted.
"""

from controlplane.core.tree.build import build, build_columns
from controlplane.core.tree.codec import NodeColumns
from controlplane.core.tree.edit import edit
from controlplane.core.tree.node_cache import NodeCache
from controlplane.core.tree.tree_diff import diff, diff_keys, diff_keys_many, diff_many
from controlplane.core.tree.tree_integrity import audit, spread
from controlplane.core.tree.tree_reads import (
    before,
    by_leaf,
    heads,
    last,
    leaf_digests,
    leaf_totals,
    lookup,
    reachable,
    scan,
    summaries,
    totals,
    warm,
)
from controlplane.core.tree.tree_values import (
    EMPTY_ROOT,
    Entry,
    EntryChange,
    KeyChange,
    NodeStore,
    Summary,
    Totals,
)
from controlplane.core.tree.walk import after

__all__ = [
    "EMPTY_ROOT",
    "Entry",
    "EntryChange",
    "KeyChange",
    "NodeCache",
    "NodeColumns",
    "NodeStore",
    "Summary",
    "Totals",
    "after",
    "audit",
    "before",
    "build",
    "build_columns",
    "by_leaf",
    "diff",
    "diff_keys",
    "diff_keys_many",
    "diff_many",
    "edit",
    "heads",
    "last",
    "leaf_digests",
    "leaf_totals",
    "lookup",
    "reachable",
    "scan",
    "spread",
    "summaries",
    "totals",
    "warm",
]
