"""The part of a transaction that is about tasks, who demands them, and attempts at them.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.tasks import SIZES, Attempt, Demand, RaisedSize, Size, Task, TaskState
from dataplane.contract.kinds import PLACEMENTS, Kind, Placement
from dataplane.contract.results import TaskError


class Candidates(NamedTuple):
    """Queued tasks of one job that a driver could get at once, in order."""

    dataset: str
    kind: Kind
    job: bytes
    sizes_bytes: Sequence[int]


class Queue(Protocol):
    """Tasks, demands and attempts of one namespace."""

    def lock(self) -> None:
        """Transactions that change demands run one at a time from here on. Repeating it is free.
        Methods that change demands call it."""

    def jobs(self, digests: Iterable[bytes]) -> dict[bytes, StoredJob]: ...

    def put_job(self, digest: bytes, body: StoredJob) -> None: ...

    def put_jobs(self, jobs: Mapping[bytes, StoredJob]) -> None:
        """As `put_job`, in one statement."""

    def enqueue(
        self, branch: str, dataset: str, tasks: Sequence[Task], *, after_s: float = 0.0
    ) -> int:
        """Insert missing tasks (a `done` one that is requested again is queued again) and this
        dataset's demand for all of them; priority and size become the maximum (one that needs a
        larger driver gets the placement as well), and a task that failed at a smaller size is
        queued again. So is a running write without any demand: something else may have been written
        since it was claimed. What becomes queued stands in the order of claims as if queued
        `after_s` later, and waits for nothing. Returns how many became queued that were not there,
        done, or such writes."""

    def demands(self, branch: str, dataset: str) -> dict[bytes, Task]:
        """The tasks that this dataset demands, in every state."""

    def demanded(self, branch: str, datasets: Iterable[str]) -> dict[str, dict[bytes, Demand]]:
        """As `demands`, of many datasets, but only how the tasks stand."""

    def demand_counts(self, branch: str) -> dict[str, dict[TaskState, int]]:
        """How many tasks each dataset of a branch demands, by their states; in one statement."""

    def drop_demands(self, branch: str, dataset: str, keep: Iterable[bytes] = ()) -> int:
        """End this dataset's demands but those in `keep`; returns how many ended. Queued or failed
        tasks that are left without a demand are deleted."""

    def end_demands(self, branch: str, datasets: Iterable[str]) -> int:
        """As `drop_demands` of each of these, and nothing is kept."""

    def demanding(self, task: bytes) -> tuple[tuple[str, str], ...]:
        """(branch, dataset) of all who demand a task."""

    def branches_of(self, tasks: Iterable[bytes]) -> dict[bytes, tuple[str, ...]]:
        """The branches that demand each task, sorted; a task that none demands is left out."""

    def tasks(self, keys: Iterable[bytes]) -> dict[bytes, Task]: ...

    def backlog(
        self, sizes: Sequence[Size] = SIZES, placements: Collection[Placement] = PLACEMENTS
    ) -> dict[Kind, int]:
        """Queued (and due) plus running tasks of these sizes and placements by kind, without those
        that wait (`wait_until`)."""

    def waiting_since(self, placements: Collection[Placement]) -> float | None:
        """When the oldest queued task of these placements that is due became so; None if there is
        none."""

    def claim(
        self,
        attempt: str,
        driver: str,
        kinds: Sequence[Kind],
        *,
        max_tasks: int,
        lease_s: float,
        sizes: Sequence[Size] = SIZES,
        placements: Collection[Placement] = PLACEMENTS,
        without: Sequence[str] = (),
        count_of: Callable[[Candidates], int] | None = None,
    ) -> Attempt | None:
        """Take the due queued task of highest priority (oldest first) of these kinds, sizes and
        placements, and more of the same job, dataset, size and placement; the fewer, the more often
        that task failed. `count_of`: how many of the first ones, called where there are several;
        None: all of them. Each becomes running with a raised epoch and this attempt. `without`: of
        none of these dataflows. None: nothing to do.

        The prefix is `<namespace>/<flow>/<dataset>/_frags/<first two characters of the
        attempt>/<attempt>`."""

    def wait_until(self, attempt: Attempt, time: float) -> None:
        """The running tasks of this attempt, which this transaction claimed, are no work before
        that time: their worker waits for something new."""

    def waiting_attempts(self) -> frozenset[str]:
        """Attempts whose tasks wait (`wait_until`)."""

    def attempts(self, ids: Iterable[str] | None = None) -> dict[str, Attempt]:
        """Live attempts (all, or those named)."""

    def extend(self, driver: str, attempts: Sequence[str], lease_s: float) -> frozenset[str]:
        """Renew leases of live attempts of this driver; returns the ids that are (still) live."""

    def finish(self, attempt: str, done: Sequence[bytes]) -> frozenset[bytes]:
        """Running tasks that this attempt holds at its epochs become done; returns which. Others
        are left alone."""

    def fail(self, attempt: str, task: bytes, error: TaskError) -> bool:
        """A running task of this attempt becomes failed, with its error; False if the attempt no
        longer holds it."""

    def release(
        self,
        tasks: Sequence[bytes],
        *,
        attempt: str,
        not_before: float,
        error: TaskError | None,
        burn: bool,
    ) -> int:
        """Running tasks that this attempt holds go back to queued (`burn`: counting one
        infrastructure failure), or are deleted where they have no demand left. Returns how many it
        held."""

    def raised_sizes(self) -> dict[str, RaisedSize]:
        """By dataset. Some may not hold any longer."""

    def put_raised_size(self, raised: RaisedSize, kind: Kind) -> None:
        """Insert or replace; smaller queued tasks of this dataset and kind get the size, and a
        fresh budget."""

    def drop_raised_sizes(self, before: float) -> int:
        """Those of before this time; how many went."""

    def hand_over(self, attempt: str, tasks: Sequence[Task], kind: Kind) -> frozenset[bytes]:
        """Running tasks that this attempt holds become queued as tasks of another kind, for the
        processes that run it; their keys, and those of the tasks that it held."""

    def hand_over_queued(self, kind: Kind, to: Kind) -> int:
        """All queued tasks of a kind become tasks of another one. Returns how many."""

    def end_attempt(self, attempt: str) -> bool:
        """The attempt's row goes; its tasks are finished, failed or released in this transaction.
        False if the attempt is not live."""

    def retry(
        self, branch: str, datasets: Iterable[str], tasks: Collection[bytes] | None = None
    ) -> int:
        """Failed tasks that these datasets demand become queued with a fresh budget; `tasks`: only
        those of them. Returns how many."""
