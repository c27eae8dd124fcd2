"""Listings by a user's own code, and of metadata that another user wrote, each in a process of its
own (`claim_child`): `python -m dataplane.runtime.listing_child`.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

from dataplane.contract.claims import Claim
from dataplane.contract.results import TaskResult
from dataplane.fragments.task_results import task_result
from dataplane.listing.version_cache import Versions
from dataplane.runtime import claim_child
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.worker_tasks import perform_here
from dataplane.secrets import without_secrets
from dataplane.task_failures import TaskFailure, error_of

COMMAND = (sys.executable, "-P", "-m", "dataplane.runtime.listing_child")
LONGEST_S = 900.0
MEMORY_BYTES = 2 << 30

# Connectors: code of users, and metadata whose size in memory is seen when it is unpacked
APART = ("python", "dlt", "iceberg")


def runs_apart(claim: Claim) -> bool:
    return claim["kind"] in ("list", "connect") and claim["job"].get("connector") in APART


def perform(
    claim: Claim, orders: claim_child.Fencing, *, longest_s: float = LONGEST_S
) -> list[TaskResult]:
    """The results of a claim's tasks, also if the process that does them ends early; none once it
    is fenced."""
    try:
        results: list[TaskResult] | None = claim_child.answer_of(COMMAND, claim, orders, longest_s)
        return results or []
    except claim_child.TookTooLong:
        failure = TaskFailure("listing-timeout", "the listing took too long and was ended")
    except claim_child.AnswerTooLarge:
        size_mib = claim_child.ANSWER_BYTES >> 20
        failure = TaskFailure("listing-too-large", f"the listing takes more than {size_mib} MiB")
    except claim_child.EndedEarly as e:
        failure = TaskFailure("listing-died", f"the process of the listing {e}")
    return [task_result(task, error_of(failure)) for task in claim["tasks"]]


def _listed(claim: Claim) -> list[TaskResult]:
    with suppress(ValueError, OSError):  # a lower limit may be in force
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    return without_secrets(perform_here(claim, Versions(), Orders()))


if __name__ == "__main__":
    claim_child.serve(_listed)
