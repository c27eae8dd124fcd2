"""What the routes of drivers need: the store, the lake, the wake that waiting claims and streams
share, counters.

A `run` serves its worker and driver with this alone, and imports no more.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from controlplane.api.threads import Threads
from controlplane.core.model.access import Token
from controlplane.core.model.alerts import Channel
from controlplane.core.model.namespaces import DEFAULT
from controlplane.operations.context import Context
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.branch_view import Planners
from controlplane.operations.work.batch_sizes import BatchSizes
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store
from dataplane.contract.kinds import Kind


class Wake(Protocol):
    """Wakes waiting threads at a change. Only shortens waits: a lost notice costs time, nothing
    else."""

    def notify(self) -> None: ...

    def of(self, namespace: str) -> Wake:
        """The one for changes in this namespace."""

    @property
    def make_pass(self) -> Callable[[], bool]:
        """See `Context`."""

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


@dataclass(frozen=True, slots=True)
class DriverServices:
    """`stopping` is set when the process begins to end: waiting claims and streams then return at
    once."""

    store: Store
    lake: ObjectStore
    wake: Wake
    counters: Counters = field(default_factory=Counters, kw_only=True)
    stopping: threading.Event = field(default_factory=threading.Event, kw_only=True)
    # Of the loop, where it runs in this process
    failing_units: FailingUnits = field(default_factory=FailingUnits, kw_only=True)
    planners: Planners = field(default_factory=Planners, kw_only=True)
    batch_sizes: BatchSizes = field(default_factory=BatchSizes, kw_only=True)
    # Each call of a driver's, before it is answered
    note_call: Callable[[str], None] = field(default=lambda _: None, kw_only=True)
    # A driver reported that Spark's start is over
    has_spark: Callable[[str], None] = field(default=lambda _: None, kw_only=True)
    # A driver called, and which one is unknown
    note_unknown_call: Callable[[], None] = field(default=lambda: None, kw_only=True)
    # Channels of the installation, for `default`: their secrets are its own
    notify: tuple[Channel, ...] = field(default=(), kw_only=True)
    # Of work that is given out here; None: all
    kinds: frozenset[Kind] | None = field(default=None, kw_only=True)
    exports: bool = field(default=False, kw_only=True)  # events of lineage are sent
    # Names of this service, beside those of this machine
    hosts: frozenset[str] = field(default=frozenset(), kw_only=True)
    threads: Threads = field(default_factory=Threads, kw_only=True)

    def context(self, token: Token, request_id: str) -> Context:
        """For the operation that a request asks for, in the namespace of its token."""
        namespace = token.namespace
        wake = self.wake.of(namespace)
        return Context(
            store=self.store,
            namespace=namespace,
            actor=token.subject or token.name,
            request_id=request_id,
            wake=wake.notify,
            make_pass=wake.make_pass,
            wake_of=lambda other: self.wake.of(other).notify(),
            lake=self.lake.uri,
            planners=self.planners,
            batch_sizes=self.batch_sizes,
            failing_units=self.failing_units.of(namespace),
            notify=self.notify if namespace == DEFAULT else (),
            principal=token.principal,
            exports=self.exports,
        )
