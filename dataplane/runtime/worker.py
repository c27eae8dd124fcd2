"""A worker: claims work that needs no JVM, does it, reports it. Starts fast; loads Arrow only where a task needs it.

Listings and tries of connections are done side by side: most of their time is waiting. Writes are done one after the
other, by a thread of their own, as not every target bears two at a time. Does not belong here: HTTP (the client's),
how slots are shared between dataflows (slots), Spark (the driver's), a user's own code (aside).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, assert_never

from dataplane.connectors.registry import checker, lister, writer
from dataplane.contract.claims import Claim, TaskSpec
from dataplane.contract.failpoints import failpoint
from dataplane.contract.identity import label_of
from dataplane.contract.kinds import WORKER_KINDS, Kind
from dataplane.contract.listings import ListingResult
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json
from dataplane.errors import error_of
from dataplane.listing.files import list_files
from dataplane.listing.result_file import ListingWriter
from dataplane.listing.version_cache import Versions, cache_file
from dataplane.runtime import listing_child
from dataplane.runtime.client import WAIT_S, AttemptFenced, Ended, Heartbeat, Reported
from dataplane.runtime.heartbeats import Beats, Orders
from dataplane.runtime.worker_slots import Slots
from dataplane.secrets import without_secrets_in
from dataplane.storage.lake import open_lake

LOOKS: frozenset[Kind] = frozenset({"list", "connect"})
WRITES = WORKER_KINDS - LOOKS
SLOTS = 16  # looks at a time, by default; HEADGATE_WORKER_SLOTS
AGAIN_S = 2.0  # the wait of a claim that leaves out a dataflow: its slots may be free before


class Pulls(Protocol):
    """What a worker needs of `dataplane.runtime.client.Client`."""

    def claim(self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()) -> Claim | None: ...

    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat: ...

    def report(self, attempt: str, results: Sequence[TaskResult]) -> Reported: ...


def run(client: Pulls, slots: int = 0) -> None:
    """Work until told to drain, or until the control plane does not know this worker any more. What is under way is
    finished first. `slots`: looks at a time."""
    work = Work(client, Versions(cache_file(os.environ.get("HEADGATE_HOME"))), Slots(slots or _slots()))
    with closing(work.beats):
        writing = threading.Thread(target=work.write, name="writing", daemon=True)
        writing.start()
        work.look()
        writing.join()


def _slots() -> int:
    text = os.environ.get("HEADGATE_WORKER_SLOTS") or str(SLOTS)
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise SystemExit(f"HEADGATE_WORKER_SLOTS is a number of listings at a time from 1 to 256, not {text[:40]!r}")
    return int(text)


class Work:
    """What the threads of one worker share."""

    def __init__(self, client: Pulls, cache: Versions, slots: Slots) -> None:
        self.client, self.cache, self.slots, self.beats = client, cache, slots, Beats(client)

    def write(self) -> None:
        """Write attempts, one after the other, until the end."""
        try:
            while not self.beats.is_over:
                if claim := self.client.claim(WRITES, WAIT_S):
                    self.do(claim)
        except Ended:
            """The other thread is told the same."""
        finally:
            self.beats.is_over = True  # a worker that does not write is none

    def look(self) -> None:
        """Listings and tries, as many at a time as there are slots, until the end. Only one claim waits at a time."""
        try:
            while not self.beats.is_over:
                self.slots.wait_for_one()
                without = self.slots.full()
                claim = self.client.claim(LOOKS, AGAIN_S if without else WAIT_S, without)
                if claim is not None:
                    self.slots.start(claim["dataset"].partition(".")[0], partial(self.do, claim))
        except Ended:
            self.beats.end()  # nobody takes a report any more: what hangs is not waited for
        else:
            self.slots.join()

    def do(self, claim: Claim) -> None:
        """One claim from end to end."""
        with suppress(Ended), self.beats.kept(claim) as orders:  # to the end: taking in may outlast a lease
            results = perform(claim, self.cache, orders)
            failpoint(f"worker-before-report-{claim['kind']}")
            if not orders.fenced:
                with suppress(AttemptFenced):
                    self.client.report(claim["attempt"], results)


# --- tasks --------------------------------------------------------------------------------------


def perform(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The results of a claim's tasks; it stops between tasks once the attempt is fenced."""
    if listing_child.is_users_code(claim):
        return listing_child.perform(claim, orders)
    return perform_here(claim, cache, orders)


def perform_here(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The same, in this process whatever it is."""
    try:
        with _work(claim, cache) as work:
            return [result_of(task, work) for task in claim["tasks"] if not orders.fenced]
    except Exception as e:  # noqa: BLE001  # what cannot be opened is the result of all tasks
        return [_failed(task, e) for task in claim["tasks"]]


def result_of(task: TaskSpec, work: Callable[[TaskSpec], Json]) -> TaskResult:
    try:
        return {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": work(task)}
    except Exception as e:  # noqa: BLE001  # whatever goes wrong with one task is that task's result
        return _failed(task, e)


def _failed(task: TaskSpec, error: BaseException) -> TaskResult:
    return {"task": task["task"], "epoch": task["epoch"], "state": "failed", "error": error_of(error)}


def _work(claim: Claim, cache: Versions) -> AbstractContextManager[Callable[[TaskSpec], Json]]:
    job = claim["job"]
    connector = job.get("connector", "files")
    match claim["kind"]:
        case "list" if connector == "files":
            return nullcontext(
                lambda task: _placed(claim, task, lambda place: list_files(job, cache, place, claim["lake"]))
            )
        case "list":
            return nullcontext(lambda task: _placed(claim, task, lambda place: _listed(claim, connector, place)))
        case "connect":
            return nullcontext(lambda _: _tried(job, connector))
        case "write":
            return writer(connector)(job, open_lake(claim["lake"]))
        case "infer" | "analyse" | "check" | "index" | "parse" | "transform" | "pack":
            raise ValueError(f"not the work of a worker: {claim['kind']}")
        case other:
            assert_never(other)


def _listed(claim: Claim, connector: str, place: Callable[[], Path]) -> ListingResult:
    """What a connector other than `files` finds. Where the job tells what is known, that much is only added to."""
    job = claim["job"]
    with closing(ListingWriter(place)) as sheet:
        for partition in lister(connector)(job):
            sheet.add(partition)
        found = sheet.result()
    return {**found, "after": job["known"]["key"]} if "known" in job else found


def _tried(job: Json, connector: str) -> Json:
    """What is in the way of a connection, if anything is: an answer, not a failure that would be tried again."""
    error = None
    try:
        checker(connector)(job)
    except Exception as e:  # noqa: BLE001  # whatever it is, it is the answer
        error = without_secrets_in(error_of(e))
    return {"connector": connector, "place": job["place"], "error": error}


def _placed(claim: Claim, task: TaskSpec, work: Callable[[Callable[[], Path]], ListingResult]) -> ListingResult:
    """A listing that is too large for a report goes to a file of the attempt."""
    path = f"{claim['prefix']}/{label_of(bytes.fromhex(task['task']))}.jsonl.gz"
    with open_lake(claim["lake"]).new_file(path) as file:
        return work(lambda: file)
