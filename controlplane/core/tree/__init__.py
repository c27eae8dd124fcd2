"""The partition tree: an ordered map key -> (fragment, content) as immutable nodes addressed by digest.

A Merkle tree in which a hash of the keys alone decides where nodes end (`shape`). So equal maps have equal roots,
whatever their history, and maps that differ little share nearly all nodes. Every function takes a `NodeStore` and
reads nodes in batches; what is large is streamed. Keys are any text without lone surrogates, ordered by code point,
which is the order of their UTF-8 bytes. A node that is missing, or whose bytes are not what they should be, raises
`CorruptNode`.

Nothing here knows what a partition is used for, where nodes are kept, or when they may be deleted.
"""

from controlplane.core.tree.build import build
from controlplane.core.tree.diff import diff, diff_many
from controlplane.core.tree.edit import edit
from controlplane.core.tree.memory import MemoryNodes
from controlplane.core.tree.query import keys_digest, lookup, reachable, scan, summaries, totals, verify
from controlplane.core.tree.values import EMPTY_ROOT, Change, Entry, NodeStore, Summary, Totals

__all__ = [
    "EMPTY_ROOT",
    "Change",
    "Entry",
    "MemoryNodes",
    "NodeStore",
    "Summary",
    "Totals",
    "build",
    "diff",
    "diff_many",
    "edit",
    "keys_digest",
    "lookup",
    "reachable",
    "scan",
    "summaries",
    "totals",
    "verify",
]
