"""The services of the API, as its routes are given them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from controlplane.api.driver_services import DriverServices
from controlplane.api.streams import Streams
from controlplane.api.token_watch import TokenWatch
from controlplane.operations.upkeep.collect import Forget
from controlplane.operations.upkeep.fsck import Damages
from controlplane.ports.issuers import Issuers, SignOn
from controlplane.ports.lake import MakeCheckpoint
from controlplane.ports.records import RenderChanges, RenderRecords, no_changes
from controlplane.ports.row_diff import CompareRows, no_comparison
from controlplane.services.examples.port import ExampleRunner, NoExamples
from controlplane.services.queries.queries import Queries
from controlplane.services.s3.reads import ReadCounts
from controlplane.services.sessions.sessions import SparkSessions

Log: TypeAlias = Callable[[str, int], str]
"""The last lines of a driver: `DriverPool.log`."""


def no_checkpoint(_: bytes) -> bytes:
    """For processes that make no checkpoints."""
    raise OSError("no checkpoints of Delta logs are made here")


KEY_LOCKS = 64


@dataclass(frozen=True, slots=True)
class Services(DriverServices):
    """What the routes for people and programs need beside that of drivers."""

    render: RenderRecords
    log: Log
    # Why this process does not do its work; empty if it does
    unready: Callable[[], str] = lambda: ""
    # False: this process is to be replaced by another one
    is_alive: Callable[[], bool] = lambda: True
    packages: Callable[[str], Forget | None] = lambda _: None  # of a namespace
    damages: Damages = lambda _: iter(())
    compare: CompareRows = no_comparison
    render_changes: RenderChanges = no_changes
    streams: Streams = field(default_factory=Streams)
    queries: Queries = field(default_factory=Queries)
    spark_sessions: SparkSessions = field(default_factory=SparkSessions)
    examples: ExampleRunner = field(default_factory=NoExamples)  # answers questions of tests
    # Has a driver started where no loop does; why there will be none
    analyser: Callable[[], str] = lambda: ""
    # Of the installation: signs for its keys
    s3_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    checkpoint: MakeCheckpoint = no_checkpoint  # of Delta logs of the S3 view
    issuers: Issuers | None = None  # of identity tokens; None: this process takes none
    sign_on: SignOn | None = None  # of people, at an issuer
    is_shown_only: bool = False  # pages offer no actions: nothing would carry them out
    token_watch: TokenWatch = field(init=False)
    reads: ReadCounts = field(init=False)  # through the S3 view
    key_locks: tuple[threading.Lock, ...] = field(
        default_factory=lambda: tuple(threading.Lock() for _ in range(KEY_LOCKS))
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", ReadCounts(self.store))
        object.__setattr__(self, "token_watch", TokenWatch(self.store, self.threads.events))

    def turn(self, key: str) -> threading.Lock:
        """Held while a request with this Idempotency-Key is answered; few others have the same."""
        return self.key_locks[hash(key) % KEY_LOCKS]
