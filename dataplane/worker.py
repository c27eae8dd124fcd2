"""A worker: claims work that needs no JVM, does it, reports it. Starts fast; loads Arrow only where a task needs it.

Does not belong here: HTTP (the client's), Spark (the driver's).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from dataplane.client import WAIT_S, Ended, Fenced, Heartbeat, Reported
from dataplane.connectors import checker, lister, writer
from dataplane.contract import WORKER_KINDS, Claim, Json, Kind, ListingResult, TaskResult, TaskSpec, failpoint, label_of
from dataplane.failure import error_of
from dataplane.lake import open_lake
from dataplane.listing import list_files
from dataplane.secrets import without_secrets_in
from dataplane.sheet import Sheet
from dataplane.versions import Versions, cache_file


class Pulls(Protocol):
    """What a worker needs of `dataplane.client.Client`."""

    def claim(self, kinds: Iterable[Kind], wait_s: float) -> Claim | None: ...

    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat: ...

    def report(self, attempt: str, results: Sequence[TaskResult]) -> Reported: ...


def run(client: Pulls) -> None:
    """Work until told to drain, or until the control plane does not know this worker any more."""
    cache = Versions(cache_file(os.environ.get("HEADGATE_HOME")))
    with suppress(Ended):
        while not step(client, cache):
            pass


def step(client: Pulls, cache: Versions) -> bool:
    """One claim, if there is one, from end to end. True when the worker is to end."""
    claim = client.claim(WORKER_KINDS, WAIT_S)
    if claim is None:
        return False
    with beating(client, claim) as orders:  # to the end: taking in a large listing may outlast a lease
        results = perform(claim, cache, orders)
        failpoint(f"worker-before-report-{claim['kind']}")
        if not orders.fenced:
            with suppress(Fenced):
                client.report(claim["attempt"], results)
    return orders.drain


# --- tasks --------------------------------------------------------------------------------------


class Orders:
    """What heartbeats were answered about one attempt."""

    def __init__(self) -> None:
        self.fenced = False
        self.drain = False


def perform(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The results of a claim's tasks; it stops between tasks once the attempt is fenced."""
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
        case other:
            raise ValueError(f"not the work of a worker: {other}")


def _listed(claim: Claim, connector: str, place: Callable[[], Path]) -> ListingResult:
    """What a connector other than `files` finds. Where the job tells what is known, that much is only added to."""
    job = claim["job"]
    with closing(Sheet(place)) as sheet:
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


# --- heartbeats ---------------------------------------------------------------------------------


@contextmanager
def beating(client: Pulls, claim: Claim) -> Iterator[Orders]:
    """Heartbeats three times a lease while the body runs; their answers go to the orders."""
    orders, done = Orders(), threading.Event()
    thread = threading.Thread(target=_beat, args=(client, claim, orders, done), daemon=True)
    thread.start()
    try:
        yield orders
    finally:
        done.set()
        thread.join()


def _beat(client: Pulls, claim: Claim, orders: Orders, done: threading.Event) -> None:
    while not done.wait(claim["lease_s"] / 3):
        try:
            answer = client.heartbeat([claim["attempt"]])
        except Ended:
            orders.fenced = True
            return
        orders.fenced |= claim["attempt"] in answer.fenced
        orders.drain |= answer.drain
