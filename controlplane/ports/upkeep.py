"""The part of a transaction that collects and checks.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from controlplane.core.model.pack_origins import Origin, PendingDeletion
from controlplane.core.model.retention import HOLDERS, Expired, Pointer, PointerKind, Span


class Upkeep(Protocol):
    """The part of a transaction that collects unreferenced rows, and checks the remaining ones.

    Rows are dropped in bounded pieces: the methods return how many rows went, 0 once nothing is
    left.
    """

    def collections(self) -> int:
        """The number of collections of tree nodes that have started. In a writing transaction none
        begins from here to its end. A writer of roots from an earlier snapshot compares the two
        numbers first: if they differ, nodes that were reachable then may be gone, and it has to
        look again."""

    def begin_collection(self) -> int:
        """Count a collection, once all writers that read that number have ended; the new number. To
        be called first in a transaction: a snapshot that is opened before its end sees all that
        those writers committed."""

    def changes_since_collection(self) -> int:
        """Roughly how many transactions superseded tree nodes since the last collection began:
        commits and marks."""

    def pointers(self, holders: Iterable[PointerKind] = HOLDERS) -> Iterator[Pointer]:
        """Everything that holds on to a tree (all holders by default), streamed. Empty trees may be
        among it."""

    def node_digests(self, after: bytes, limit: int) -> tuple[bytes, ...]:
        """Digests of stored tree nodes, in order."""

    def drop_nodes(self, digests: Sequence[bytes], before: float) -> int:
        """Delete those that were last put before this time; one that another transaction is putting
        now stays."""

    def spans(self) -> Iterator[Span]:
        """The span of each dataset that has states, streamed."""

    def drop_states(self, expired: Sequence[Expired]) -> int:
        """Never drops the newest state, even if it is listed."""

    def builds(self, before: float) -> Iterator[tuple[bytes, bytes]]:
        """(key, root) of the build traces that were last put before this time, streamed."""

    def drop_builds(self, keys: Sequence[bytes], before: float) -> int:
        """Those of these build traces that were not put again since."""

    def drop_done(self, limit: int) -> int:
        """Drop done tasks without a demand, and jobs that neither a task nor an attempt names."""

    def loose_heads(self) -> Iterator[tuple[str, str, int]]:
        """(branch, dataset, seq) of newest states that are not there."""

    def put_origins(self, origins: Sequence[Origin]) -> None:
        """Insert or replace, by pack."""

    def origins(self) -> Iterator[Origin]:
        """All of them, streamed."""

    def drop_packs(self, packs: Sequence[bytes]) -> None:
        """Their origins, and their fragments."""

    def put_leftovers(self, leftovers: Sequence[PendingDeletion]) -> None:
        """Insert or replace, by folder."""

    def leftovers(self, due: float, limit: int) -> tuple[PendingDeletion, ...]:
        """Those that are due by then."""

    def drop_leftovers(self, folders: Sequence[str]) -> None: ...
