"""What it costs a task that its driver ended, by what the driver ended of.

Does not belong here: how that is found out (`tests/cluster`, `tests/unit/drivers`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.model import Fault, Task
from controlplane.lake.objects import LocalObjects
from controlplane.operations import work
from controlplane.operations.context import Context
from controlplane.store.memory import MemoryStore
from dataplane.contract import CONTRACT
from tests.store.examples import d, task

LATER_S = max(work.BACKOFF_S) + 1


class Losing:
    """One task, whose driver ends again and again."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.ctx, self.lake = Context(MemoryStore(lambda: self.now)), LocalObjects(folder)
        with self.ctx.store.begin() as tx:
            tx.put_job(d(0), {})
            tx.enqueue("main", "flights.daily", [task(1, spec={})])

    def lose(self, fault: Fault) -> Task:
        """The task after that."""
        self.now += LATER_S
        claim = work.claim(self.ctx, "driver", CONTRACT, ["transform"])
        assert claim is not None
        with self.ctx.store.read() as tx:
            (attempt,) = tx.attempts().values()
        assert not work.adopt(self.ctx, attempt, self.lake, reason=f"its driver ended: {fault}", fault=fault)
        with self.ctx.store.read() as tx:
            return tx.tasks([d(1)])[d(1)]


COUNTED: dict[Fault, str] = {
    "memory": "driver-out-of-memory",
    "deadline": "driver-deadline",
    "crashed": "driver-lost",
    "evicted": "driver-lost",
}


@pytest.mark.parametrize("fault", COUNTED)
def test_what_may_be_the_tasks_doing_ends_it_after_a_few_times(tmp_path: Path, fault: Fault) -> None:
    losing = Losing(tmp_path)
    found = [losing.lose(fault) for _ in range(work.BUDGET)]
    assert [(t.state, t.failures) for t in found[:-1]] == [("queued", n) for n in range(1, work.BUDGET)]
    assert found[-1].state == "failed"
    assert found[-1].error is not None
    assert (found[-1].error["condition"], found[-1].error["message"]) == (COUNTED[fault], f"its driver ended: {fault}")


def test_what_the_cluster_decided_does_not_count(tmp_path: Path) -> None:
    losing = Losing(tmp_path)
    found = [losing.lose("disrupted") for _ in range(work.BUDGET + 1)]
    assert {(t.state, t.failures) for t in found} == {("queued", 0)}
