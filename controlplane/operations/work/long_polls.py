"""Long polls: listings of continuous sources, which a worker holds until there is something new.

A worker may hold a listing only while nothing but the loop's own period asks for it. Every other
request ends the poll: its attempt is fenced, so its report changes nothing. The task goes back to
the queue, and is deleted where nothing demands it any more.

A held listing is no work under way, and its worker is not busy by it: it may end at any time.

Example: `headgate refresh` asks for a listing that a worker holds. The task is claimed again at
once, and is not held this time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from controlplane.core.blueprint import Read
from controlplane.core.model.sources import Listing
from controlplane.core.model.tasks import Attempt, Task
from controlplane.ports.store import Tx
from dataplane.contract.jobs import ListJob

LONG_POLL_S = 10.0  # the longest wait for something new
MOST_LISTINGS = 5  # within the bound of a source's latency
RETRY_S = 2.0  # between listings that fail
UNHELD_S = 60.0  # between listings of a folder that fail, or wait for a loss to be confirmed
DEMAND = "#listing"  # ends the name of the loop's demand


def period_s(read: Read, listing: Listing | None) -> float | None:
    """Seconds from one listing to the next; None where there is none without a request."""
    if read.within_s is None:
        return read.refresh_s
    pause_s = read.within_s / MOST_LISTINGS
    if listing is None or _is_calm(listing):
        return pause_s
    if read.is_watched:
        return UNHELD_S
    return max(pause_s, RETRY_S) if listing.error else pause_s


def expected_s(read: Read) -> float | None:
    """Seconds after which a listing without news is overdue; None where none is expected."""
    if read.within_s is None or read.is_watched:
        return read.refresh_s
    return read.within_s + LONG_POLL_S


def hold_s(reads: Iterable[Read]) -> float | None:
    """The longest wait for something new at a place of files. Their listing without news repairs a
    lost notice, and is that of reads with an interval. None for topics: the usual wait."""
    periods_s = [r.refresh_s for r in reads if r.is_watched or r.within_s is None]
    return min((p for p in periods_s if p is not None), default=None)


def wait_s(tx: Tx, listing: Listing, job: ListJob, tasks: Iterable[Task]) -> float | None:
    """How long a worker may hold this listing; None where a request waits for it."""
    is_calm = listing.at is not None and _is_calm(listing)
    demands = [name for task in tasks for _, name in tx.queue.demanding(task.key)]
    is_periodic = all(name.endswith(DEMAND) for name in demands)
    return job.get("hold_s", LONG_POLL_S) if is_calm and is_periodic else None


def _is_calm(listing: Listing) -> bool:
    return listing.error is None and not listing.held


def begin(tx: Tx, attempt: Attempt, job: ListJob) -> None:
    """Leave a claimed listing that may be held out of the work under way, for so long that the
    worker can list after its wait."""
    if "wait_s" in job:
        tx.queue.wait_until(attempt, tx.now() + 2 * job["wait_s"])


def end(tx: Tx, keys: Collection[bytes]) -> None:
    """End the long polls among these listing tasks; other tasks go on."""
    running = [task for task in tx.queue.tasks(keys).values() if task.attempt is not None]
    jobs = tx.queue.jobs({task.job for task in running})
    held = [task for task in running if "within_s" in jobs.get(task.job, {})]
    for task in held:
        _fence(tx, task)


def _fence(tx: Tx, task: Task) -> None:
    assert task.attempt is not None
    tx.queue.release([task.key], attempt=task.attempt, not_before=tx.now(), error=None, burn=False)
    tx.queue.end_attempt(task.attempt)


def withdraw(tx: Tx, branch: str, demand: str) -> None:
    """End a demand for listings, and the long polls that nothing else demands."""
    demanded = tx.queue.demanded(branch, [demand]).get(demand, {})
    tx.queue.drop_demands(branch, demand)
    end_undemanded(tx, [key for key, task in demanded.items() if task.state == "running"])


def end_undemanded(tx: Tx, keys: Iterable[bytes]) -> None:
    """As `end`, where nothing demands the task any more."""
    if undemanded := [key for key in keys if not tx.queue.demanding(key)]:
        end(tx, undemanded)
