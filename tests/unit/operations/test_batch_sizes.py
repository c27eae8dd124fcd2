"""How many tasks a driver gets at once, by what past ones took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.model.past_attempts import PastAttempt
from controlplane.operations.context import Context
from controlplane.operations.work import claims
from controlplane.operations.work.batch_sizes import (
    ATTEMPT_S,
    FRESH_S,
    LEAST,
    BatchSizes,
    task_seconds,
)
from dataplane.contract.claims import CONTRACT
from tests.store.examples import d, past, stored_job, task
from tests.stores import new_store

DAILY = "flights.daily"


def took(seconds: float, tasks: int = 1, number: int = 0) -> PastAttempt:
    """An attempt of so many seconds besides its own."""
    of = past(f"p{number}", dataset=DAILY)
    return replace(
        of, kind="transform", outcome="done", seconds=seconds + ATTEMPT_S, tasks=tasks, done=tasks
    )


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0.0),
        ([took(-1.0)], 0.0),
        ([took(9.0)], 9.0),
        ([took(9.0), took(10.0, tasks=5)], 2.0),
        ([took(9.0), took(8.0), took(7.0), took(1.0)], 7.0),
        ([replace(took(9.0), outcome="retried")], 0.0),
    ],
)
def test_a_task_takes_as_long_as_the_middle_one_of_all(
    attempts: list[PastAttempt], seconds: float
) -> None:
    assert task_seconds(attempts) == seconds


class Claiming:
    """A driver that claims of twenty tasks, a minute's work at a time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ctx = Context(
            new_store(), batch_sizes=BatchSizes(batch_s=60.0, clock=lambda: self.now)
        )
        with self.ctx.store.begin() as tx:
            tx.queue.put_job(d(0), stored_job(shared={}))
            tasks = [task(n, spec={"slots": {}}) for n in range(1, 21)]
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
    claiming.past(took(10.0))
    assert claiming.claimed() == 6
    claiming.past(*(took(600.0, number=number) for number in range(1, 4)))
    claiming.now += FRESH_S
    assert claiming.claimed() == LEAST
    assert claiming.claimed() == LEAST


def test_of_a_dataset_without_a_past_a_driver_gets_all() -> None:
    assert Claiming().claimed() == 20


def test_past_attempts_are_read_once_in_a_while() -> None:
    claiming = Claiming()
    claiming.past(took(10.0))
    counts = []
    for _ in range(2):
        before = claiming.ctx.store.statements
        claiming.claimed()
        counts.append(claiming.ctx.store.statements - before)
    assert counts[0] == counts[1] + 1
