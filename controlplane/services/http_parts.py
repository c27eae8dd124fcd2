"""The parts of the API that a service over HTTP is given: `controlplane.api.services.Services` has
them."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Protocol, TypeAlias

from anyio import CapacityLimiter

from controlplane.core.rights import Principal
from controlplane.ports.lake import MakeCheckpoint, ObjectStore
from controlplane.ports.store import Store

Piece: TypeAlias = bytes | str | memoryview


class Counts(Protocol):
    def add(self, name: str, label: str = "", n: float = 1) -> None: ...


class S3Threads(Protocol):
    @property
    def s3_keys(self) -> CapacityLimiter: ...

    @property
    def s3(self) -> CapacityLimiter: ...

    @property
    def s3_bodies(self) -> CapacityLimiter: ...


class TokenWatching(Protocol):
    def while_live(
        self, token: str, parts: AsyncIterable[Piece], principal: Principal, /
    ) -> AsyncIterator[Piece]:
        """The pieces of a stream, until its token has ended or has other rights than `principal`.
        Raises where the stream is then cut."""


class HttpParts(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def lake(self) -> ObjectStore: ...

    @property
    def counters(self) -> Counts: ...

    @property
    def threads(self) -> S3Threads: ...

    @property
    def token_watch(self) -> TokenWatching: ...

    @property
    def s3_secret(self) -> bytes:
        """Of the installation: it signs for access keys and for links."""

    @property
    def checkpoint(self) -> MakeCheckpoint:
        """Makes checkpoints of Delta logs."""
