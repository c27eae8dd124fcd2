"""Claims on sources whose packages are on Spark's class path: each has a driver process of its own.

A JVM cannot give up classes that it has loaded, and two versions of a class are not in one class
path. Example: a source reads with `mongo-spark-connector_2.13:10.5.0`, another with `:10.4.0`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypedDict

from dataplane.connectors.spark.spark_listing import check_format
from dataplane.contract.claims import Claim
from dataplane.contract.jobs import ConnectorSettings, connector_of
from dataplane.contract.results import Measures, TaskResult
from dataplane.fragments.attempt import Cancelled
from dataplane.fragments.task_results import task_result
from dataplane.runtime import claim_child
from dataplane.task_failures import TaskFailure, error_of

COMMAND = (sys.executable, "-P", "-m", "dataplane.runtime.package_driver")
PARALLEL = 2  # JVMs beside that of the driver
_PLACES = threading.BoundedSemaphore(PARALLEL)


class PackageAnswer(TypedDict):
    """`measures`: Spark's counts of the process."""

    results: list[TaskResult]
    measures: Measures


def packages_of(claim: Claim) -> Sequence[str]:
    """The packages that a claim's source lists; none for most claims."""
    packages: Sequence[str] = _settings_of(claim).get("packages", ())
    return packages


def _settings_of(claim: Claim) -> ConnectorSettings:
    """The settings of a source of Spark; empty for other claims."""
    if claim["kind"] != "parse" or connector_of(claim["job"]) != "spark":
        return {}
    return claim["job"].get("settings", {})


def perform(claim: Claim, orders: claim_child.Fencing) -> PackageAnswer:
    """The answer of the process. Raises Cancelled once the attempt is fenced."""
    try:
        # A listing may be older than the operator's lists
        check_format(_settings_of(claim), os.environ)
        with _place(claim, orders):
            answer: PackageAnswer | None = claim_child.answer_of(COMMAND, claim, orders)
    except TaskFailure as e:
        return _failed(claim, e)
    except (claim_child.AnswerTooLarge, claim_child.EndedEarly) as e:
        message = f"the driver process of the source's packages {e}"
        return _failed(claim, TaskFailure("package-driver-died", message, "infrastructure"))
    if answer is None:
        raise Cancelled(claim["attempt"])
    return answer


def _failed(claim: Claim, failure: TaskFailure) -> PackageAnswer:
    results = [task_result(task, error_of(failure)) for task in claim["tasks"]]
    return {"results": results, "measures": {}}


@contextmanager
def _place(claim: Claim, orders: claim_child.Fencing) -> Iterator[None]:
    """One of the places for such a process, once it is free."""
    while not _PLACES.acquire(timeout=claim_child.LOOK_S):
        if orders.fenced:
            raise Cancelled(claim["attempt"])
    try:
        yield
    finally:
        _PLACES.release()
