"""What goes into a tree and comes out of it, and the port to where nodes are kept. No encoding, no
walking.

The values are named tuples because millions of them pass through; a frozen dataclass takes three
times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from dataplane.contract.identity import EMPTY, Content

NODE_TAG = b"headgate/node/1\n"
KEYS_TAG = b"headgate/node-keys/1\n"

EMPTY_ROOT: bytes = sha256(NODE_TAG).digest()
"""The root of the empty map. No node has this digest, and none is looked up for it."""

EMPTY_KEYS: bytes = sha256(KEYS_TAG).digest()
"""The keys digest of the empty map."""


class Entry(NamedTuple):
    """One partition: its key, its fragment id (32 bytes) and the content of its rows (each number
    below 2^64)."""

    key: str
    fragment: bytes
    content: Content


class EntryChange(NamedTuple):
    """One key whose entry differs between two maps; None where the key is absent. The two are never
    equal."""

    key: str
    before: Entry | None
    after: Entry | None


class KeyChange(NamedTuple):
    """One key that one of two maps has and the other lacks."""

    key: str
    before: bool
    after: bool


class Totals(NamedTuple):
    """How many partitions there are, and the sum of their contents, all mod 2^64."""

    partitions: int
    content: Content


class Summary(NamedTuple):
    """A node's summary of all below it. `keys` is equal for two maps iff they have equal sets of
    keys."""

    keys: bytes
    totals: Totals


EMPTY_SUMMARY = Summary(EMPTY_KEYS, Totals(0, EMPTY))


class NodeStore(Protocol):
    """Where nodes are kept. A node never changes, so both calls may be repeated and reordered
    freely."""

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The bytes of the nodes with these digests (distinct, at most a few thousand); missing
        ones are absent."""
        ...

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """Keep these nodes, by digest. A node that is there already stays as it is."""
        ...
