"""Spark Connect servers, each for one user, outside of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controlplane.core.errors import EngineUnavailable
from dataplane.contract.queries import SparkTable


@dataclass(frozen=True, slots=True)
class Server:
    """One that serves. `token`: whoever has it may do what the server's process may; it is not kept elsewhere."""

    id: str
    host: str
    port: int
    token: str
    user: str
    session: str

    @property
    def url(self) -> str:
        """As clients of Spark Connect take it."""
        return f"sc://{self.host}:{self.port}/;token={self.token};user_id={self.user};session_id={self.session}"


class SparkServers(Protocol):
    def open(self, tables: Sequence[SparkTable], ttl_s: float) -> Server:
        """A server with these views, which ends by itself after so long. Raises EngineUnavailable where it does not
        start, and QueriesBusy where there are as many as there may be."""

    def is_alive(self, id: str) -> bool: ...

    def end(self, id: str) -> None:
        """Now, whatever it does; nothing of it is left."""


@dataclass(frozen=True, slots=True)
class NoServers:
    """Where none are offered. `reason`: why, and what to do."""

    reason: str = "this service opens no Spark sessions"

    def open(self, tables: Sequence[SparkTable], ttl_s: float) -> Server:  # noqa: ARG002
        raise EngineUnavailable(self.reason)

    def is_alive(self, id: str) -> bool:  # noqa: ARG002
        return False

    def end(self, id: str) -> None: ...
