"""The part of a transaction for remembered results: traces, fragments, build traces, memos.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from controlplane.core.model.memos import Memo, Memos
from controlplane.core.model.retention import Files, Stored
from controlplane.core.model.tasks import Fragment, StoredFile, Trace
from dataplane.contract.schemas import Schema


class Traces(Protocol):
    """Traces of one namespace."""

    def hits(self, keys: Sequence[bytes]) -> dict[bytes, Trace]:
        """Hits only: traces all of whose fragments are stored, with the contents of these."""

    def executed(self, keys: Iterable[bytes], after: int) -> dict[bytes, str]:
        """The dataset that each of these traces was executed for, of those newer than `after`."""

    def put(self, traces: Sequence[Trace], fragments: Sequence[Fragment]) -> None:
        """A trace or fragment that is there already (and stored) stays as it is; `seq` is assigned
        here."""

    def last(self) -> int:
        """The newest trace's seq; 0 if none."""

    def fragments(self, ids: Iterable[bytes]) -> dict[bytes, Fragment]: ...

    def stored_files(self, ids: Iterable[bytes]) -> dict[bytes, tuple[StoredFile, ...]]:
        """The files of each of these fragments, in their order: the part of a fragment that is
        needed for very many at a time."""

    def put_profiles(self, bodies: Mapping[bytes, bytes]) -> None:
        """Profiles of fragments, and of tree nodes all of whose fragments are known: both by
        digest, and `contract.profiles.packed`. One that is there already stays as it is."""

    def profiles(self, ids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Missing ones are absent. Those of tree nodes go with their nodes
        (`Upkeep.drop_nodes`)."""

    def remembered(
        self, builds: Iterable[bytes], memos: Iterable[bytes]
    ) -> tuple[dict[bytes, tuple[bytes, Schema]], dict[bytes, Memo]]:
        """(output root, schema) of whole datasets that were built under these keys, and memos, in
        one statement."""

    def put_build(self, key: bytes, root: bytes, schema: Schema) -> None: ...

    def put_builds(self, builds: Mapping[bytes, tuple[bytes, Schema]]) -> None:
        """As `put_build`, of many."""

    def memos(self, keys: Iterable[bytes]) -> dict[bytes, Memo]:
        """Results of inference and analysis: `{"schema": ...}`; results of checks
        (`core.compile.compiled_checks`)."""

    def put_memo(self, key: bytes, value: Memo) -> None: ...

    def put_memos(self, values: Memos) -> None:
        """Insert or replace many at once."""

    def forget_memos(self, keys: Iterable[bytes]) -> None: ...

    def referenced_attempts(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of these attempts that are live, or of which a fragment that is not deleted or a
        leftover has files."""

    def stored(self, fragments: Iterable[bytes]) -> dict[bytes, Stored]:
        """What the rows of these fragments say, without their files."""

    def condemn(self, fragments: Sequence[bytes]) -> None:
        """Stored ones are used for nothing new from now on. Their rows stay, and so do their
        files."""

    def files(self) -> Iterator[Files]:
        """Files of all stored fragments, streamed in the order of their attempts."""

    def loose_outputs(self) -> Iterator[tuple[bytes, bytes]]:
        """(task, fragment) of traces that name a fragment that is not there."""

    def footers(self) -> Iterator[tuple[str, str, Memo]]:
        """(dataset, partition, answer) of looks at footers that are remembered."""
