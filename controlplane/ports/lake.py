"""The lake: objects in it, and tables that are published there.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from controlplane.core.model.projections import TableContent

MakeCheckpoint: TypeAlias = Callable[[bytes], bytes]
"""The Parquet file of a Delta checkpoint that holds what this file of a log says; the same for the
same file. Raises OSError if it cannot be made now."""


class ObjectStore(Protocol):
    """The lake: immutable objects under text paths relative to its root. Readers see whole objects
    only."""

    @property
    def uri(self) -> str: ...

    def read(self, path: str) -> bytes:
        """NotFound if there is none."""

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of an object piece by piece. NotFound if there is none, before the first
        piece."""

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        """Bytes `start` to `end`, which is not among them, piece by piece; fewer where the object
        ends before. NotFound if there is none, before the first piece."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """False, and nothing is changed, if there is another one already. Atomic among any number
        of writers."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path -> size in bytes of every object below a prefix; none is an empty mapping; a failure
        raises."""

    def link(self, source: str, target: str) -> None:
        """Make the same bytes available under a second path (hard link, server-side copy);
        repeating is harmless."""

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix, or the object of that name; nothing there is fine."""

    def folders(self, prefix: str) -> Iterator[str]:
        """Names directly below a prefix."""


class Publisher(Protocol):
    """Writes Delta logs, one writer per table at a time."""

    def publish(self, table: TableContent, on_notice: Callable[[str], None] = ...) -> int:
        """Make the table's content and schema equal `table`; returns the table version that does.
        Repeating changes nothing and returns the same version. A log that no reader can open is
        replaced by a new one; `on_notice` gets the report of that. Raises OSError for storage
        faults (try again later)."""

    def close(self) -> None: ...
