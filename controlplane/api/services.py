"""The services of the API: the store, the lake, the wake that waiting claims and streams share,
counters."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from controlplane.api.streams import Streams
from controlplane.api.threads import Threads
from controlplane.api.token_watch import TokenWatch
from controlplane.core.model.access import Token
from controlplane.core.model.alerts import Channel
from controlplane.core.model.namespaces import DEFAULT
from controlplane.operations.context import Context
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.branch_view import Planners
from controlplane.operations.upkeep.collect import Forget
from controlplane.operations.upkeep.fsck import Damages
from controlplane.ports.issuers import Issuers, SignOn
from controlplane.ports.lake import MakeCheckpoint, ObjectStore
from controlplane.ports.records import RenderChanges, RenderRecords, no_changes
from controlplane.ports.row_diff import CompareRows, no_comparison
from controlplane.ports.store import Store
from controlplane.services.examples.port import ExampleRunner, NoExamples
from controlplane.services.queries.queries import Queries
from controlplane.services.s3.reads import ReadCounts
from controlplane.services.sessions.sessions import SparkSessions
from dataplane.contract.kinds import Kind

Log: TypeAlias = Callable[[str, int], str]
"""The last lines of a driver: `DriverPool.log`."""


class Wake(Protocol):
    """Wakes waiting threads at a change. Only shortens waits: a lost notice costs time, nothing
    else."""

    def notify(self) -> None: ...

    def of(self, namespace: str) -> Wake:
        """The one for changes in this namespace."""

    @property
    def count(self) -> int:
        """To be read before looking: `wait` returns at once if a notice came after it."""

    def wait(self, timeout_s: float, seen: int | None = None) -> None: ...


class Counters:
    """Counts of this process: name and label -> number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, label: str = "", n: float = 1) -> None:
        with self._lock:
            self._counts[name, label] += n  # type: ignore[assignment]  # a Counter also adds up seconds

    def snapshot(self) -> dict[tuple[str, str], float]:
        with self._lock:
            return dict(self._counts)


def no_checkpoint(_: bytes) -> bytes:
    """For processes that make no checkpoints."""
    raise OSError("no checkpoints of Delta logs are made here")


KEY_LOCKS = 64


@dataclass(frozen=True, slots=True)
class Services:
    """`stopping` is set when the process begins to end: waiting claims and streams then return at
    once."""

    store: Store
    lake: ObjectStore
    wake: Wake
    render: RenderRecords
    log: Log
    counters: Counters = field(default_factory=Counters)
    stopping: threading.Event = field(default_factory=threading.Event)
    # Why this process does not do its work; empty if it does
    unready: Callable[[], str] = lambda: ""
    # Of the loop, where it runs in this process
    failing_units: FailingUnits = field(default_factory=FailingUnits)
    # False: this process is to be replaced by another one
    is_alive: Callable[[], bool] = lambda: True
    planners: Planners = field(default_factory=Planners)
    packages: Callable[[str], Forget | None] = lambda _: None  # of a namespace
    # Each call of a driver's, before it is answered
    note_call: Callable[[str], None] = lambda _: None
    # A driver reported that Spark's start is over
    has_spark: Callable[[str], None] = lambda _: None
    # A driver called, and which one is unknown
    note_unknown_call: Callable[[], None] = lambda: None
    # Channels of the installation, for `default`: their secrets are its own
    notify: tuple[Channel, ...] = ()
    damages: Damages = lambda _: iter(())
    compare: CompareRows = no_comparison
    render_changes: RenderChanges = no_changes
    streams: Streams = field(default_factory=Streams)
    queries: Queries = field(default_factory=Queries)
    spark_sessions: SparkSessions = field(default_factory=SparkSessions)
    examples: ExampleRunner = field(default_factory=NoExamples)  # answers questions of tests
    kinds: frozenset[Kind] | None = None  # of work that is given out here; None: all
    # Has a driver started where no loop does; why there will be none
    analyser: Callable[[], str] = lambda: ""
    # Of the installation: signs for its keys
    s3_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    exports: bool = False  # events of lineage are sent
    checkpoint: MakeCheckpoint = no_checkpoint  # of Delta logs of the S3 view
    issuers: Issuers | None = None  # of identity tokens; None: this process takes none
    sign_on: SignOn | None = None  # of people, at an issuer
    hosts: frozenset[str] = frozenset()  # names of this service, beside those of this machine
    is_shown_only: bool = False  # pages offer no actions: nothing would carry them out
    threads: Threads = field(default_factory=Threads)
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

    def context(self, token: Token, request_id: str) -> Context:
        """For the operation that a request asks for, in the namespace of its token."""
        namespace = token.namespace
        return Context(
            store=self.store,
            namespace=namespace,
            actor=token.subject or token.name,
            request_id=request_id,
            wake=self.wake.of(namespace).notify,
            wake_of=lambda other: self.wake.of(other).notify(),
            lake=self.lake.uri,
            planners=self.planners,
            failing_units=self.failing_units.of(namespace),
            notify=self.notify if namespace == DEFAULT else (),
            principal=token.principal,
            exports=self.exports,
        )
