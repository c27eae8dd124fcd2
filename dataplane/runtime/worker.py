"""A worker: claims work that needs no JVM, does it, reports it. Starts fast; loads Arrow only where a task needs it.

Listings and tries of connections are done side by side: most of their time is waiting. Writes are done one after the
other, by a thread of their own, as not every target bears two at a time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Protocol, TypeVar

from dataplane.connectors.registry import ListingContext, checker, lister, loads_libraries, writer
from dataplane.contract.claims import (
    Claim,
    ConnectClaim,
    DriverClaim,
    FootersClaim,
    ListClaim,
    NotifyClaim,
    ParseTask,
    TaskSpec,
)
from dataplane.contract.failpoints import failpoint
from dataplane.contract.identity import label_of
from dataplane.contract.jobs import connector_of
from dataplane.contract.kinds import LOOKS, WORKER_KINDS, Kind
from dataplane.contract.listings import ListingResult
from dataplane.contract.results import ConnectAnswer, FootersAnswer, Measures, NotifyAnswer, TaskAnswer, TaskResult
from dataplane.errors import error_of
from dataplane.listing.version_cache import Versions, cache_file
from dataplane.notify.sending import send
from dataplane.runtime import listing_child
from dataplane.runtime.client import WAIT_S, AttemptFenced, Ended, Heartbeat, Reported
from dataplane.runtime.heartbeats import Beats, Orders
from dataplane.runtime.measures import measured
from dataplane.runtime.worker_rest import Rest, rest_of
from dataplane.runtime.worker_slots import Slots
from dataplane.secrets import without_secrets_in
from dataplane.storage.lake import open_lake
from dataplane.storage.refused_places import Places

NOTICES: frozenset[Kind] = frozenset({"notify"})
WAITS = (LOOKS | NOTICES) & WORKER_KINDS  # most of their time is waiting
WRITES = WORKER_KINDS - WAITS
Task = TypeVar("Task", bound=TaskSpec)
SLOTS = 16  # looks at a time, by default; HEADGATE_WORKER_SLOTS
AGAIN_S = 2.0  # the wait of a claim that leaves out a dataflow: its slots may be free before


class Pulls(Protocol):
    """The methods of `dataplane.runtime.client.Client` that a worker needs."""

    def claim(self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()) -> Claim | None: ...

    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat: ...

    def report(self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None) -> Reported: ...


def run(client: Pulls, slots: int = 0) -> None:
    """Work until the order to drain, or until the control plane does not know this worker any more. Work under way is
    finished first. `slots`: looks at a time."""
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    work = Work(client, cache, Slots(slots or _slots()), rest_of())
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
    """The state that the threads of one worker share."""

    def __init__(self, client: Pulls, cache: Versions, slots: Slots, rest: Rest | None = None) -> None:
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

    def look(self) -> None:
        """Listings and tries, as many at a time as there are slots, until the end. Only one claim waits at a time."""
        try:
            while not self.beats.is_over:
                self.slots.wait_for_one()
                without = self.slots.full()
                claim = self.client.claim(WAITS, AGAIN_S if without else self.rest.wait_s(WAIT_S), without)
                if claim is not None:
                    self.slots.start(claim["dataset"].partition(".")[0], partial(self.do, claim))
        except Ended:
            self.beats.end()  # no report is accepted any more: a hanging thread is not waited for
        else:
            self.slots.join()

    def do(self, claim: Claim) -> None:
        """One claim from end to end: its lease is kept until then, as taking in may outlast it."""
        rest = self.rest.broken(is_heavy=_may_load(claim))
        with suppress(Ended), rest, self.beats.kept(claim) as orders:
            began = time.monotonic()
            results = perform(claim, self.cache, orders)
            seconds = time.monotonic() - began
            failpoint(f"worker-before-report-{claim['kind']}")
            if not orders.fenced:
                with suppress(AttemptFenced):
                    self.client.report(claim["attempt"], results, measured(claim, seconds))


def _may_load(claim: Claim) -> bool:
    """Whether it may load Arrow or a connector's library, as all but a listing of files does."""
    return claim["kind"] != "list" or loads_libraries(connector_of(claim["job"]))


# --- tasks --------------------------------------------------------------------------------------


def perform(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The results of a claim's tasks; it stops between tasks once the attempt is fenced."""
    if listing_child.is_users_code(claim):
        return listing_child.perform(claim, orders)
    return perform_here(claim, cache, orders)


def perform_here(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The same, in this process whatever it is."""
    try:
        return _performed(claim, cache, orders)
    except Exception as e:  # noqa: BLE001  # what cannot be opened is the result of all tasks
        return [_failed(task, e) for task in claim["tasks"]]


def _performed(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    if claim["kind"] == "list":
        return _each(claim["tasks"], partial(_listed, claim, cache), orders)
    if claim["kind"] == "footers":
        return [_look_at_footers(claim, task) for task in claim["tasks"] if not orders.fenced]
    if claim["kind"] == "connect":
        return _each(claim["tasks"], partial(_tried, claim), orders)
    if claim["kind"] == "notify":
        return _each(claim["tasks"], partial(_sent, claim), orders)
    if claim["kind"] == "write":
        with writer(connector_of(claim["job"]))(claim["job"], open_lake(claim["lake"])) as write:
            return _each(claim["tasks"], write, orders)
    raise _not_mine(claim)


def _not_mine(claim: DriverClaim) -> ValueError:
    """mypy names the kind of a worker that `_performed` has forgotten."""
    return ValueError(f"not the work of a worker: {claim['kind']}")


def _each(tasks: Sequence[Task], work: Callable[[Task], TaskAnswer], orders: Orders) -> list[TaskResult]:
    return [result_of(task, work) for task in tasks if not orders.fenced]


def result_of(task: Task, work: Callable[[Task], TaskAnswer]) -> TaskResult:
    try:
        return {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": work(task)}
    except Exception as e:  # noqa: BLE001  # whatever goes wrong with one task is that task's result
        return _failed(task, e)


def _failed(task: TaskSpec, error: BaseException) -> TaskResult:
    return {"task": task["task"], "epoch": task["epoch"], "state": "failed", "error": error_of(error)}


def _listed(claim: ListClaim, cache: Versions, task: TaskSpec) -> ListingResult:
    """The listing of a place. One that is too large for a report goes to a file of the attempt."""
    job = claim["job"]
    path = f"{claim['prefix']}/{label_of(bytes.fromhex(task['task']))}.jsonl.gz"
    with open_lake(claim["lake"]).new_file(path) as file:
        return lister(connector_of(job))(job, ListingContext(cache, lambda: file, claim["lake"]))


def _look_at_footers(claim: FootersClaim, task: ParseTask) -> TaskResult:
    """Columns of a task's files that an earlier version may have misread; void if the files have changed."""
    from dataplane.connectors.files.earlier import are_others  # Arrow is loaded for it, and for no listing

    result = result_of(task, partial(_misread, claim))
    try:
        is_void = are_others(claim["job"], task["objects"])
    except Exception as e:  # noqa: BLE001  # a store that does not answer is this task's result
        return _failed(task, e)
    return {"task": task["task"], "epoch": task["epoch"], "state": "void"} if is_void else result


def _misread(claim: FootersClaim, task: ParseTask) -> FootersAnswer:
    from dataplane.connectors.files.earlier import misread_columns

    Places.of(os.environ, claim["lake"]).check_objects(task["objects"])
    return {"misread": misread_columns(claim["job"], task)}


def _tried(claim: ConnectClaim, task: TaskSpec) -> ConnectAnswer:  # noqa: ARG001  # there is one task, and no spec
    """Try a connection. A failure is an answer, not an error that would be tried again."""
    job, error = claim["job"], None
    try:
        checker(job["connector"])(job)
    except Exception as e:  # noqa: BLE001  # whatever it is, it is the answer
        error = without_secrets_in(error_of(e))
    return {"connector": job["connector"], "place": job["place"], "error": error}


def _sent(claim: NotifyClaim, task: TaskSpec) -> NotifyAnswer:  # noqa: ARG001  # there is one task, and no spec
    """Why the channel did not take a message, if it did not: an answer, and the control plane asks again later."""
    error = None
    try:
        send(claim["job"])
    except Exception as e:  # noqa: BLE001  # whatever it is, it is the answer
        error = without_secrets_in(error_of(e))
    return {"error": error}
