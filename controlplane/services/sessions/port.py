"""Spark Connect servers, each for one user, outside of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.core.errors import EngineUnavailable
from controlplane.core.model.answers.spark_sessions import SparkSessionEntry
from dataplane.contract.query_protocol import SparkTable


@dataclass(frozen=True, slots=True)
class SessionNote:
    """The owner of a server, and the entry to show for it: kept beside it, so that a reader of the
    one has the other. `token`: the id of the token that it ends with."""

    namespace: str
    token: str
    entry: SparkSessionEntry


@dataclass(frozen=True, slots=True)
class SessionServer:
    """One that serves. `token` grants all rights of the server's process; it is not kept elsewhere.
    `forward`: a command that has to run beside the client for `host` and `port` to be the server's;
    empty for none."""

    host: str
    port: int
    token: str = field(repr=False)
    user: str
    session: str
    forward: str = ""

    @property
    def url(self) -> str:
        """As clients of Spark Connect take it."""
        return f"sc://{self.host}:{self.port}/;token={self.token};user_id={self.user};session_id={self.session}"


class SparkServers(Protocol):
    def open(self, note: SessionNote, tables: Sequence[SparkTable], ttl_s: float) -> SessionServer:
        """A server with these views, which ends by itself after so long. It goes by the id of the
        note's entry. Raises EngineUnavailable where it does not start, and QueriesBusy where there
        are as many as there may be."""

    def notes(self) -> list[SessionNote]:
        """Notes of running servers."""

    def is_alive(self, id: str) -> bool: ...

    def end(self, id: str) -> None:
        """At once, also in the midst of work; nothing of it is left."""


@dataclass(frozen=True, slots=True)
class SessionPod:
    """One that waits for its order at an address of the cluster."""

    name: str
    host: str
    port: int


class SessionPods(Protocol):
    """Pods for servers, which go by the ids of their sessions."""

    def start(self, note: SessionNote, ttl_s: float) -> str:
        """The token by which a new pod and its caller know each other. The pod ends by itself some
        time after `ttl_s`. Raises EngineUnavailable where the cluster does not take it, and
        QueriesBusy where there are as many as there may be."""

    def look(self, id: str) -> SessionPod | str:
        """A pod that was started here, or the reason why it waits. Raises EngineUnavailable where
        it will not be there."""

    def notes(self) -> list[SessionNote]:
        """Notes of all running servers, by any process, as of some seconds ago at most; where the
        cluster does not answer, the last known ones."""

    def end(self, id: str) -> None:
        """Raises PoolUnavailable where the cluster does not answer."""

    def forwarding(self, pod: SessionPod, port: int) -> str:
        """The command that makes a port of its user's machine that of the pod."""

    def close(self) -> None:
        """Sessions go on."""


@dataclass(frozen=True, slots=True)
class NoServers:
    """Where none are offered. `reason`: why, and what to do."""

    reason: str = "this service opens no Spark sessions"

    def open(self, note: SessionNote, tables: Sequence[SparkTable], ttl_s: float) -> SessionServer:  # noqa: ARG002
        raise EngineUnavailable(self.reason)

    def notes(self) -> list[SessionNote]:
        return []

    def is_alive(self, id: str) -> bool:  # noqa: ARG002
        return False

    def end(self, id: str) -> None: ...
