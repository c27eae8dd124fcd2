"""The tasks of a worker, done in this process: listings, footers, tries of connections, messages
and writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, cast

from dataplane.connectors.registry import ListingContext, checker, lister, writer
from dataplane.contract.claims import (
    Claim,
    ConnectClaim,
    DriverClaim,
    FootersClaim,
    ListClaim,
    NotifyClaim,
    ParseClaim,
    ParseTask,
    SliceClaim,
    TaskSpec,
)
from dataplane.contract.identity import label_of
from dataplane.contract.jobs import connector_of
from dataplane.contract.results import (
    UNDECIDED,
    ChannelAnswer,
    ConnectAnswer,
    FootersAnswer,
    TaskAnswer,
    TaskError,
    TaskResult,
    infrastructure_error,
)
from dataplane.contract.source_objects import ListingResult
from dataplane.fragments.task_results import VOID, task_result
from dataplane.listing.version_cache import Versions
from dataplane.notify.sending import send
from dataplane.runtime.heartbeats import Orders
from dataplane.secrets import without_secrets_in
from dataplane.storage.lake import open_lake
from dataplane.storage.refused_places import Places
from dataplane.task_failures import error_of

Task = TypeVar("Task", bound=TaskSpec)


def perform_here(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    """The results of a claim's tasks; it stops between tasks once the attempt is fenced."""
    try:
        return _performed(claim, cache, orders)
    except Exception as e:  # noqa: BLE001  # what cannot be opened is the result of all tasks
        return [task_result(task, error_of(e)) for task in claim["tasks"]]


def _performed(claim: Claim, cache: Versions, orders: Orders) -> list[TaskResult]:
    if claim["kind"] == "list":
        return _each(claim["tasks"], partial(_listed, claim, cache), orders)
    if claim["kind"] == "footers":
        return [_look_at_footers(claim, task) for task in claim["tasks"] if not orders.fenced]
    if claim["kind"] == "connect":
        return _each(claim["tasks"], partial(_tried, claim), orders)
    if claim["kind"] == "notify":
        return _each(claim["tasks"], partial(_sent, claim), orders)
    if claim["kind"] == "slice":
        return [_read_slice(claim, task) for task in claim["tasks"] if not orders.fenced]
    if claim["kind"] == "write":
        with writer(connector_of(claim["job"]))(claim["job"], open_lake(claim["lake"])) as write:
            return _each(claim["tasks"], write, orders)
    raise _not_mine(claim)


def _not_mine(claim: DriverClaim) -> ValueError:
    """mypy names the kind of a worker that `_performed` has forgotten."""
    return ValueError(f"not the work of a worker: {claim['kind']}")


def _each(
    tasks: Sequence[Task], work: Callable[[Task], TaskAnswer], orders: Orders
) -> list[TaskResult]:
    return [result_of(task, work) for task in tasks if not orders.fenced]


def result_of(task: Task, work: Callable[[Task], TaskAnswer]) -> TaskResult:
    try:
        return {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": work(task)}
    except Exception as e:  # noqa: BLE001  # whatever goes wrong with one task is that task's result
        return task_result(task, error_of(e))


def _listed(claim: ListClaim, cache: Versions, task: TaskSpec) -> ListingResult:
    """The listing of a place. One that is too large for a report goes to a file of the attempt."""
    job = claim["job"]
    path = f"{claim['prefix']}/{label_of(bytes.fromhex(task['task']))}.jsonl.gz"
    with open_lake(claim["lake"]).new_file(path) as file:
        dataset = claim["prefix"].partition("/_frags/")[0]
        context = ListingContext(cache, lambda: file, claim["lake"], dataset)
        return lister(connector_of(job))(job, context)


def _look_at_footers(claim: FootersClaim, task: ParseTask) -> TaskResult:
    """Columns of a task's files that an earlier version may have misread; void if the files have
    changed."""
    # Arrow is loaded for it, and for no listing
    from dataplane.connectors.files.earlier_fragments import are_others

    result = result_of(task, partial(_misread, claim))
    try:
        is_void = are_others(claim["job"], task["objects"])
    except Exception as e:  # noqa: BLE001  # a store that does not answer is this task's result
        return task_result(task, error_of(e))
    return task_result(task, VOID) if is_void else result


def _misread(claim: FootersClaim, task: ParseTask) -> FootersAnswer:
    from dataplane.connectors.files.earlier_fragments import misread_columns

    Places.of(os.environ, claim["lake"]).check_objects(task["objects"])
    return {"misread": misread_columns(claim["job"], task)}


def _read_slice(claim: SliceClaim, task: ParseTask) -> TaskResult:
    # Arrow is loaded for it, and for no listing
    from dataplane.connectors.kafka.slice_reader import read_slice
    from dataplane.connectors.kafka.slice_values import Undecided

    as_drivers = cast("ParseClaim", {**claim, "kind": "parse"})
    try:
        Places.of(os.environ, claim["lake"]).check_objects(task["objects"])
        return task_result(task, read_slice(as_drivers, task, open_lake(claim["lake"])))
    except Undecided as e:
        return task_result(task, infrastructure_error(UNDECIDED, str(e)))
    except Exception as e:  # noqa: BLE001  # whatever goes wrong with one task is that task's result
        return task_result(task, error_of(e))


def _tried(claim: ConnectClaim, task: TaskSpec) -> ConnectAnswer:  # noqa: ARG001  # there is one task, and no spec
    """Try a connection. A failure is an answer, not an error that would be tried again."""
    job = claim["job"]
    error = _error_of(lambda: checker(job["connector"])(job))
    return {"connector": job["connector"], "place": job["place"], "error": error}


def _sent(claim: NotifyClaim, task: TaskSpec) -> ChannelAnswer:  # noqa: ARG001  # there is one task, and no spec
    """Why the channel did not take a message, if it did not: an answer, and the control plane asks
    again later."""
    return {"error": _error_of(lambda: send(claim["job"]))}


def _error_of(attempt: Callable[[], None]) -> TaskError | None:
    try:
        attempt()
    except Exception as e:  # noqa: BLE001  # any failure is the answer
        return without_secrets_in(error_of(e))
    return None
