"""The operations of every kind of lake on its files, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

PIECE_BYTES = 1 << 18  # of a stream


class NotInLake(OSError):
    """There is no such file."""


class Refused(OSError):
    """The store refuses, and will refuse again: no bucket, wrong credentials, no rights."""


class MissingPackage(Exception):
    """A lake needs a package that is not installed."""

    def __init__(self, uri: str, package: str | None, extra: str) -> None:
        super().__init__(
            f"a lake at {uri} needs the package {package}: pip install 'headgate[{extra}]'"
        )


class LakeFiles(Protocol):
    """Files by text paths relative to the root of the lake. Readers see whole files only.

    Safe to use from many threads. A path that leaves the lake is a ValueError. A fault of the
    storage is an OSError, and may be tried again unless it is Refused.
    """

    @property
    def uri(self) -> str: ...

    def read(self, path: str) -> bytes:
        """NotInLake if there is none."""

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of a file piece by piece. NotInLake if there is none, before the first
        piece."""

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        """Bytes `start` to `end`, which is not among them, piece by piece; fewer where the file
        ends before. NotInLake if there is none, before the first piece."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """False, and nothing is changed, if there is another one already. Atomic among any number
        of writers.

        A file with the same bytes counts as put: the answer to a put may be lost, and the put
        repeated.
        """

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path -> bytes of every file below a prefix (empty: the whole lake); none is an empty
        mapping."""

    def link(self, source: str, target: str) -> None:
        """Make the same bytes available under a second path. NotInLake if there is no source. May
        be repeated."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; those that are not there are fine."""

    def delete_folder(self, prefix: str) -> None:
        """Remove everything below a prefix, or the file of that name; nothing there is fine."""

    def folders(self, prefix: str) -> Iterator[str]:
        """Names of folders directly below a prefix, in order; none if there is no such folder."""
