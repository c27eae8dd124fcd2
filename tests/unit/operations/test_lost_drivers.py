"""What it costs a task that its driver ended, by what the driver ended of.

Does not belong here: how that is found out (`tests/cluster`, `tests/unit/drivers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.model.drivers import Fault
from controlplane.core.model.tasks import Attempt, Size, Task
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.work import claims, recording, reports, rescue
from dataplane.contract.claims import CONTRACT
from dataplane.contract.results import MANIFEST, FileEntry, TaskResult
from tests.store.examples import SCHEMA, d, stored_job, task
from tests.stores import new_store

LATER_S = max(recording.BACKOFF_S) + 1


class Losing:
    """One task, whose driver ends again and again."""

    def __init__(self, folder: Path, size: Size = "standard") -> None:
        self.now = 0.0
        self.ctx, self.lake = Context(new_store(lambda: self.now)), LocalObjects(folder)
        with self.ctx.store.begin() as tx:
            tx.queue.put_job(d(0), stored_job(shared={}))
            tx.queue.enqueue("main", "flights.daily", [task(1, spec={"slots": {}}, size=size)])

    def claim(self) -> Attempt:
        self.now += LATER_S
        assert claims.claim(self.ctx, "driver", CONTRACT, ["transform"]) is not None
        with self.ctx.store.read() as tx:
            (attempt,) = tx.queue.attempts().values()
        return attempt

    def lose(self, fault: Fault) -> Task:
        """The task after that."""
        attempt = self.claim()
        assert not rescue.adopt(
            self.ctx, attempt, self.lake, reason=f"its driver ended: {fault}", fault=fault
        )
        with self.ctx.store.read() as tx:
            return tx.queue.tasks([d(1)])[d(1)]


COUNTED: dict[Fault, str] = {
    "memory": "driver-out-of-memory",
    "deadline": "driver-deadline",
    "crashed": "driver-lost",
    "evicted": "driver-lost",
}


@pytest.mark.parametrize("fault", COUNTED)
def test_what_may_be_the_tasks_doing_ends_it_after_a_few_times(
    tmp_path: Path, fault: Fault
) -> None:
    losing = Losing(tmp_path, "large")
    found = [losing.lose(fault) for _ in range(recording.BUDGET)]
    assert [(t.state, t.failures) for t in found[:-1]] == [
        ("queued", n) for n in range(1, recording.BUDGET)
    ]
    assert found[-1].state == "failed"
    assert found[-1].error is not None
    assert (found[-1].error["condition"], found[-1].error["message"]) == (
        COUNTED[fault],
        f"its driver ended: {fault}",
    )


def test_a_task_that_runs_out_of_memory_twice_goes_to_larger_drivers(tmp_path: Path) -> None:
    losing = Losing(tmp_path, "small")
    tries = [losing.lose("memory") for _ in range(7)]
    assert [(t.size, t.failures) for t in tries[:6]] == [
        ("small", 1),
        ("standard", 0),
        ("large", 0),
        ("large", 1),
        ("large", 2),
        ("large", 3),
    ]
    assert tries[-1].state == "failed"


def test_one_loss_of_memory_may_be_the_doing_of_other_work(tmp_path: Path) -> None:
    losing = Losing(tmp_path)
    faults: list[Fault] = ["memory", "crashed", "memory"]
    assert [losing.lose(fault).size for fault in faults] == ["standard"] * 3
    with losing.ctx.store.read() as tx:
        assert tx.queue.raised_sizes() == {}


def test_what_the_cluster_decided_does_not_count(tmp_path: Path) -> None:
    losing = Losing(tmp_path)
    found = [losing.lose("disrupted") for _ in range(recording.BUDGET + 1)]
    assert {(t.state, t.failures) for t in found} == {("queued", 0)}


class Reporting(LocalObjects):
    """While somebody finds no manifest, the driver, which was only slow, hands in its work."""

    def __init__(self, root: Path, losing: Losing, attempt: Attempt) -> None:
        super().__init__(root)
        self.losing, self.attempt = losing, attempt
        self.file = f"{attempt.prefix}/0.parquet"
        self.put_if_absent(self.file, b"rows")

    def stream(self, path: str) -> Iterator[bytes]:
        try:
            yield from super().stream(path)
        finally:
            if path.endswith(MANIFEST):
                reports.report(
                    self.losing.ctx, "driver", self.attempt.id, [self._result()], lake=self
                )

    def _result(self) -> TaskResult:
        files: list[FileEntry] = [{"path": self.file, "size": 4, "rows": 1, "stats": {}}]
        of: TaskResult = {"task": d(1).hex(), "epoch": 1, "state": "done", "schema": SCHEMA}
        return {**of, "content": [1, 2, 3], "files": files}


def test_what_a_driver_reports_while_it_is_given_up_stays(tmp_path: Path) -> None:
    losing = Losing(tmp_path)
    attempt = losing.claim()
    lake = Reporting(tmp_path, losing, attempt)
    assert not rescue.adopt(losing.ctx, attempt, lake, reason="its driver fell silent")
    with losing.ctx.store.read() as tx:
        (fragment,) = tx.traces.fragments(tx.traces.hits([d(1)])[d(1)].outputs.values()).values()
    assert [lake.read(file["path"]) for file in fragment.files] == [b"rows"]


def test_what_is_nobodys_doing_waits_longer_each_time(tmp_path: Path) -> None:
    """A task that takes the whole machine down each time leaves the others their turn."""
    losing = Losing(tmp_path)
    waits = [
        losing.lose("disrupted").not_before - losing.now
        for _ in range(len(recording.BACKOFF_S) + 1)
    ]
    assert waits == [*recording.BACKOFF_S, recording.BACKOFF_S[-1]]
