"""How many tasks a driver gets at once, by what past ones took."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.core import tree
from controlplane.core.model.drivers import Driver
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.operations.context import Context
from controlplane.operations.work import claims
from controlplane.operations.work.batch_sizes import (
    ATTEMPT_S,
    FEW_BYTES,
    FRESH_S,
    LEAST,
    BatchSizes,
    count_within,
    task_seconds,
    took,
)
from controlplane.ports.queue import Candidates
from dataplane.contract.claims import CONTRACT
from tests.store.examples import d, fragment, past, stored_job, task
from tests.stores import new_store

DAILY = "flights.daily"
TABLE_ROWS = 12_000_000  # which count for 1.2 GB
TOGETHER = {"language": "sql", "batch_sql": "SELECT 1"}  # such tasks share a Spark job
SINGLE = {"language": "sql", "batch_sql": None}


def attempt(seconds: float, tasks: int = 1, number: int = 0) -> PastAttempt:
    """An attempt of so many seconds besides its own."""
    of = past(f"p{number}", dataset=DAILY)
    return replace(
        of, kind="transform", outcome="done", seconds=seconds + ATTEMPT_S, tasks=tasks, done=tasks
    )


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0.0),
        ([attempt(-1.0)], 0.0),
        ([attempt(9.0)], 9.0),
        ([attempt(9.0), attempt(10.0, tasks=5)], 2.0),
        ([attempt(9.0), attempt(8.0), attempt(7.0), attempt(1.0)], 7.0),
        ([replace(attempt(9.0), outcome="retried")], 0.0),
    ],
)
def test_a_task_takes_as_long_as_the_middle_one_of_all(
    attempts: list[PastAttempt], seconds: float
) -> None:
    assert task_seconds(took(attempts), task_bytes=0.0, whole_bytes=0) == seconds


def test_time_is_shared_by_what_an_attempt_reads() -> None:
    """Attempts at 2 and 20 tasks that read 60 GB each, and 1 GB a task, say the same of a task."""
    for tasks in (2, 20):
        attempts = took([attempt(6.0 * (60 + tasks), tasks=tasks)])
        assert task_seconds(attempts, task_bytes=1e9, whole_bytes=60 * 10**9) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("sizes", "most", "count"),
    [([10, 10, 10], 25, 2), ([10, 10], 100, 2), ([10, 10], 0, 1), ([10, 15], 25, 2)],
)
def test_the_first_tasks_that_fit_together(sizes: list[int], most: int, count: int) -> None:
    assert count_within(sizes, most) == count


class Claiming:
    """A driver that claims of twenty tasks, a minute's work at a time. `job`: that of the tasks."""

    def __init__(self, size_bytes: int = 0, **job: Any) -> None:
        self.now = 0.0
        job = job or SINGLE
        self.ctx = Context(
            new_store(), batch_sizes=BatchSizes(batch_s=60.0, clock=lambda: self.now)
        )
        with self.ctx.store.begin() as tx:
            tx.traces.put([], [table := fragment(TABLE_ROWS)])
            root = tree.build(tx.nodes, [tree.Entry("all", table.id, table.content)])
            tx.queue.put_job(d(0), stored_job(shared={"table": root.hex()}, **job))
            tasks = [task(n, spec={"slots": {}}, size_bytes=size_bytes) for n in range(1, 21)]
            tx.queue.enqueue("main", DAILY, tasks)

    def past(self, *attempts: PastAttempt) -> None:
        with self.ctx.store.begin() as tx:
            tx.past_attempts.put(attempts)

    def claimed(self) -> int:
        claim = claims.claim(self.ctx, "driver", CONTRACT, ["transform"])
        assert claim is not None
        return len(claim["tasks"])


def test_a_driver_gets_a_minutes_work() -> None:
    claiming = Claiming()
    claiming.past(attempt(10.0))
    assert claiming.claimed() == 6
    claiming.past(*(attempt(600.0, number=number) for number in range(1, 4)))
    claiming.now += FRESH_S
    assert claiming.claimed() == LEAST
    assert claiming.claimed() == LEAST


def test_of_a_dataset_without_a_past_a_driver_gets_all() -> None:
    assert Claiming().claimed() == 20


def test_past_attempts_are_read_once_in_a_while() -> None:
    claiming = Claiming()
    claiming.past(attempt(10.0))
    claiming.claimed()  # nodes that are kept are read by now
    claiming.now += FRESH_S
    counts = []
    for _ in range(2):
        before = claiming.ctx.store.statements
        claiming.claimed()
        counts.append(claiming.ctx.store.statements - before)
    assert counts[0] == counts[1] + 1


@pytest.mark.parametrize(("job", "count"), [(SINGLE, 4), (TOGETHER, 17)])
def test_a_claim_has_as_many_bytes_as_its_tasks_read_whole_together(
    job: dict[str, Any], count: int
) -> None:
    assert Claiming(size_bytes=FEW_BYTES // 4, **job).claimed() == count


@pytest.mark.parametrize(("drivers", "count"), [(0, 16), (1, 16), (3, 6), (9, 4)])
def test_drivers_share_the_bytes_that_wait(drivers: int, count: int) -> None:
    claiming = Claiming(size_bytes=FEW_BYTES // 4)
    with claiming.ctx.store.begin() as tx:
        for n in range(drivers):
            tx.drivers.put(Driver(f"d{n}", "local", "driver", at=0.0, seen=0.0))
        tx.drivers.put(Driver("w", "local", "worker", at=0.0, seen=0.0))
        candidates = Candidates(DAILY, "parse", d(0), [FEW_BYTES // 4] * 20)
        assert claiming.ctx.batch_sizes.limits(tx, "default", candidates).tasks == count


def test_small_batches_do_not_stay_small_by_what_each_reads_whole() -> None:
    """Four tasks of a megabyte took a minute, nearly all of it for the gigabyte."""
    claiming = Claiming(size_bytes=10**6, **TOGETHER)
    claiming.past(attempt(60.0, tasks=4))
    assert claiming.claimed() == 20
    claiming = Claiming(size_bytes=10**6, **SINGLE)
    claiming.past(attempt(60.0, tasks=4))
    assert claiming.claimed() == LEAST


def test_a_lost_node_of_a_table_stops_no_other_work() -> None:
    claiming = Claiming(size_bytes=FEW_BYTES // 4, **TOGETHER)
    with claiming.ctx.store.begin() as tx:
        tx.queue.put_job(d(1), stored_job(shared={"table": d(99).hex()}, **TOGETHER))
        lost = [task(n, job=d(1), size_bytes=FEW_BYTES, priority=9) for n in (50, 51)]
        tx.queue.enqueue("main", DAILY, lost)
    for _ in lost:  # each is given up
        assert claims.claim(claiming.ctx, "driver", CONTRACT, ["transform"]) is None
    assert claiming.claimed() == 17
