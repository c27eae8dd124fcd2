"""The part of a transaction that is about tree nodes (the NodeStore of `core.tree`).

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Nodes(Protocol):
    """Tree nodes of one namespace."""

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]: ...

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """Nodes that are there already are left alone."""
