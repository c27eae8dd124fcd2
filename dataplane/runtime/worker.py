"""A worker: claims work that needs no JVM, does it, reports it. Starts fast; loads Arrow only where
a task needs it.

Listings and tries of connections are done side by side: most of their time is waiting. Writes are
done one after the other, by a thread of their own, as not every target bears two at a time. So are
slices of topics: none of the three waits for another.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from importlib.util import find_spec
from typing import Protocol

from dataplane.connectors.registry import awaiter, loads_libraries
from dataplane.contract.claims import Claim
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import connector_of
from dataplane.contract.kinds import KINDS, PROBE_KINDS, WORKER_KINDS, Kind
from dataplane.contract.results import Measures, TaskResult
from dataplane.listing.version_cache import Versions, cache_file
from dataplane.runtime import listing_child
from dataplane.runtime.client import WAIT_S, AttemptFenced, CallRefused, Ended, Heartbeat, Reported
from dataplane.runtime.heartbeats import Beats, Orders
from dataplane.runtime.manifest import write_manifest
from dataplane.runtime.measures import measured
from dataplane.runtime.worker_rest import Rest, rest_of
from dataplane.runtime.worker_slots import Slots
from dataplane.runtime.worker_tasks import perform_here
from dataplane.storage.lake import open_lake
from dataplane.task_failures import TaskFailure

NOTICES: frozenset[Kind] = frozenset({"notify"})
WAITS = (PROBE_KINDS | NOTICES) & WORKER_KINDS  # most of their time is waiting
SLICES: frozenset[Kind] = frozenset({"slice"})
WRITES = WORKER_KINDS - WAITS - SLICES
SLOTS = 16  # looks at a time, by default; HEADGATE_WORKER_SLOTS
log = logging.getLogger(__name__)
REFUSED_S = WAIT_S  # after a claim that the control plane does not know
AGAIN_S = 2.0  # the wait of a claim that leaves out a dataflow: its slots may be free before


class Pulls(Protocol):
    """The methods of `dataplane.runtime.client.Client` that a worker needs."""

    def claim(
        self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()
    ) -> Claim | None: ...

    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat: ...

    def report(
        self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None
    ) -> Reported: ...


def run(client: Pulls, slots: int = 0) -> None:
    """Work until the order to drain, or until the control plane does not know this worker any more.
    Work under way is finished first. `slots`: looks at a time."""
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    work = WorkerState(client, cache, Slots(slots or _slots()), rest_of())
    with closing(work.beats):
        threads = [threading.Thread(target=work.write, name="writing", daemon=True)]
        if reads_slices():
            threads.append(threading.Thread(target=work.read_slices, name="slices", daemon=True))
        for thread in threads:
            thread.start()
        work.look()
        for thread in threads:
            thread.join()


def reads_slices() -> bool:
    """Whether this worker has the client of Kafka."""
    return find_spec("confluent_kafka") is not None


def _slots() -> int:
    text = os.environ.get("HEADGATE_WORKER_SLOTS") or str(SLOTS)
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise SystemExit(
            f"HEADGATE_WORKER_SLOTS is a number of listings at a time from 1 to 256, not {text[:40]!r}"
        )
    return int(text)


class WorkerState:
    """The state that the threads of one worker share."""

    def __init__(
        self, client: Pulls, cache: Versions, slots: Slots, rest: Rest | None = None
    ) -> None:
        self.client, self.cache, self.slots, self.beats = client, cache, slots, Beats(client)
        self.rest = rest or Rest()

    def write(self) -> None:
        """Write attempts, one after the other, until the end."""
        try:
            while not self.beats.is_over:
                claim = self.client.claim(WRITES, self.rest.wait_s(WAIT_S))
                if claim is not None:
                    self.do(claim)
                elif self.rest.is_over():
                    self.beats.is_over = True
        except Ended:
            """The other thread gets the same order."""
        finally:
            self.beats.is_over = True  # a worker that does not write is none

    def read_slices(self) -> None:
        """Read slices of topics, one after the other, until the end."""
        with suppress(Ended):
            while not self.beats.is_over:
                claim = self._claim_slices()
                if claim is not None:
                    self._read_slices_of(claim)

    def _claim_slices(self) -> Claim | None:
        try:
            return self.client.claim(SLICES, self.rest.wait_s(WAIT_S))
        except CallRefused as e:  # a control plane of the version before knows no slices
            log.warning("slices are not handed out; the next try is in %d s: %s", REFUSED_S, e)
            time.sleep(REFUSED_S)
            return None

    def _read_slices_of(self, claim: Claim) -> None:
        try:
            self.do(claim)
        except Exception:
            log.exception("slices could not be brought to their end: their lease runs out")

    def look(self) -> None:
        """Listings and tries, as many at a time as there are slots, until the end. Only one claim
        waits at a time."""
        try:
            while not self.beats.is_over:
                self.slots.wait_for_one()
                without = self.slots.full()
                claim = self.client.claim(
                    WAITS, AGAIN_S if without else self.rest.wait_s(WAIT_S), without
                )
                if claim is not None:
                    self._start(claim)
        except Ended:
            self.beats.end()  # no report is accepted any more: a hanging thread is not waited for
        else:
            self.slots.join()

    def _start(self, claim: Claim) -> None:
        """In a thread. What may not wait, as too much does already, is listed at once."""
        flow = claim["dataset"].partition(".")[0]
        if may_wait(claim) and self.slots.may_wait():
            self.slots.start_long_poll(flow, partial(self.do, claim, is_held=True))
        else:
            self.slots.start(flow, partial(self.do, claim))

    def do(self, claim: Claim, *, is_held: bool = False) -> None:
        """One claim from end to end: its lease is kept until then, as taking in may outlast it.
        `is_held`: the listing waits for something new first."""
        rest = self.rest.broken(is_heavy=_may_load(claim))
        with suppress(Ended), rest, self.beats.lease_kept(claim) as orders:
            if is_held:
                self._await_news(claim, orders)
            began = time.monotonic()
            results = perform(claim, self.cache, orders)
            seconds = time.monotonic() - began
            failpoint(f"worker-before-report-{claim['kind']}")
            if not orders.fenced:
                if KINDS[claim["kind"]].has_manifest:
                    write_manifest(open_lake(claim["lake"]), claim, results)
                    failpoint(f"worker-after-manifest-{claim['kind']}")
                with suppress(AttemptFenced):
                    self.client.report(claim["attempt"], results, measured(claim, seconds))

    def _await_news(self, claim: Claim, orders: Orders) -> None:
        """Hold a listing until there is something new. The listing says what goes wrong."""
        assert claim["kind"] == "list"
        job = claim["job"]
        with suppress(TaskFailure):
            awaiter(connector_of(job))(job, lambda: orders.fenced or self.beats.is_over)


def may_wait(claim: Claim) -> bool:
    """Whether it is a listing that waits for something new."""
    return claim["kind"] == "list" and "wait_s" in claim["job"]


def _may_load(claim: Claim) -> bool:
    """Whether it may load Arrow or a connector's library, as all but a listing of files does."""
    return claim["kind"] != "list" or loads_libraries(connector_of(claim["job"]))


def perform(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The results of a claim's tasks; some listings are made in a process of their own."""
    if listing_child.runs_apart(claim):
        return listing_child.perform(claim, orders)
    return perform_here(claim, cache, orders)
