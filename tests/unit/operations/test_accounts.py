"""What is kept of an attempt that is over. Tasks 1 and 2 are main's, task 3 is dev's, and task 4
both demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.model.past_attempts import PastAttempt
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.upkeep.collect import collect
from controlplane.operations.work import claims, reports, rescue
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.identity import EMPTY
from dataplane.contract.results import TaskResult
from tests.store.examples import SCHEMA, d, error, stored_job, task
from tests.stores import new_store

DAILY = "flights.daily"
DEMANDED = {"main": (1, 2, 4), "dev": (3, 4)}
MEASURES = {
    "seconds": 1.25,
    "bytes_read": 700,
    "spark_jobs": 3,
    "spark_stages": 4,
    "event_log": "file:/logs/app",
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ctx(clock: Clock) -> Context:
    ctx = Context(new_store(clock))
    with ctx.store.begin() as tx:
        tx.queue.put_job(d(0), stored_job(shared={}))
        for branch, tasks in DEMANDED.items():
            tx.queue.enqueue(branch, DAILY, [task(n, spec={}) for n in tasks])
    return ctx


@pytest.fixture
def claim(ctx: Context, clock: Clock) -> Claim:
    clock.now = 1010.0
    claim = claims.claim(ctx, "driver", CONTRACT, ["transform"])
    assert claim is not None
    clock.now = 1013.0
    return claim


def done(number: int, claim: Claim, lake: Path, rows: int = 5) -> TaskResult:
    """With a file of seven bytes."""
    path = f"{claim['prefix']}/{number}.parquet"
    (lake / path).parent.mkdir(parents=True, exist_ok=True)
    (lake / path).write_bytes(b"parquet")
    of: TaskResult = {"task": d(number).hex(), "epoch": 1, "state": "done", "schema": SCHEMA}
    return {
        **of,
        "content": list(EMPTY),
        "files": [{"path": path, "size": 7, "rows": rows, "stats": {}}],
    }


def failed(number: int) -> TaskResult:
    return {
        "task": d(number).hex(),
        "epoch": 1,
        "state": "failed",
        "error": error("no such column"),
    }


def report(
    ctx: Context, claim: Claim, lake: Path, *results: TaskResult, measures: object = None
) -> None:
    reports.report(
        ctx, "driver", claim["attempt"], results, lake=LocalObjects(lake), measures=measures
    )


def kept(ctx: Context, branch: str = "main") -> PastAttempt:
    with ctx.store.read() as tx:
        [found] = tx.past_attempts.newest(branch)
    return found


def test_what_its_driver_measured_and_what_its_files_say(
    ctx: Context, claim: Claim, tmp_path: Path
) -> None:
    report(
        ctx, claim, tmp_path, *(done(n, claim, tmp_path) for n in (1, 2, 3, 4)), measures=MEASURES
    )
    assert kept(ctx) == PastAttempt(
        id=claim["attempt"],
        branch="main",
        kind="transform",
        dataset=DAILY,
        partition="2013-1.csv",
        driver="driver",
        queued_at=1000.0,
        started_at=1010.0,
        ended_at=1013.0,
        seconds=1.25,
        outcome="done",
        tasks=4,
        done=4,
        failed=0,
        rows=20,
        bytes_written=28,
        bytes_read=700,
        spark_jobs=3,
        spark_stages=4,
        spark_ui=None,
        event_log="file:/logs/app",
        error=None,
    )
    assert kept(ctx, "dev").id == claim["attempt"]


def test_a_claim_says_how_much_it_reads(ctx: Context, claim: Claim, tmp_path: Path) -> None:
    """Each file once, however many tasks read it."""
    report(ctx, claim, tmp_path, *(done(n, claim, tmp_path) for n in (1, 2, 3, 4)))
    with ctx.store.begin() as tx:
        fragment = tx.traces.hits([d(1)])[d(1)].outputs[""].hex()
        slots = {"raw": [fragment]}
        tx.queue.enqueue(
            "main",
            "flights.more",
            [task(n, dataset="flights.more", spec={"slots": slots}) for n in (5, 6)],
        )
    following = claims.claim(ctx, "driver", CONTRACT, ["transform"])
    assert following is not None
    assert (len(following["tasks"]), following["reads_bytes"]) == (2, 7)


def test_a_driver_of_an_earlier_version_measures_nothing(
    ctx: Context, claim: Claim, tmp_path: Path
) -> None:
    report(ctx, claim, tmp_path, *(done(n, claim, tmp_path) for n in (1, 2, 3, 4)))
    found = kept(ctx)
    assert (found.seconds, found.bytes_read, found.spark_jobs, found.event_log) == (
        3.0,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    "measures",
    [
        7,
        {"seconds": "long", "bytes_read": -1, "spark_jobs": True, "event_log": "a\nb", "more": {}},
        {"seconds": float("nan"), "bytes_read": 1 << 70, "spark_jobs": 1.5, "spark_ui": "x" * 501},
    ],
    ids=["no object", "wrong", "too large"],
)
def test_measures_that_make_no_sense_are_left_out(
    ctx: Context, claim: Claim, tmp_path: Path, measures: object
) -> None:
    report(
        ctx, claim, tmp_path, *(done(n, claim, tmp_path) for n in (1, 2, 3, 4)), measures=measures
    )
    found = kept(ctx)
    assert (found.outcome, found.seconds) == ("done", 3.0)
    assert (found.bytes_read, found.spark_jobs, found.spark_ui, found.event_log) == (
        None,
        None,
        None,
        None,
    )


def test_one_failed_task_makes_a_failed_attempt(ctx: Context, claim: Claim, tmp_path: Path) -> None:
    report(ctx, claim, tmp_path, done(1, claim, tmp_path), failed(3))
    found = kept(ctx)
    assert (found.outcome, found.tasks, found.done, found.failed) == ("failed", 4, 1, 1)
    assert (found.rows, found.error) == (5, "DIVIDE_BY_ZERO")


def test_an_attempt_without_a_report_took_nobody_knows_how_long(
    ctx: Context, claim: Claim, tmp_path: Path
) -> None:
    with ctx.store.read() as tx:
        attempt = tx.queue.attempts()[claim["attempt"]]
    rescue.adopt(ctx, attempt, LocalObjects(tmp_path), reason="its driver ended")
    found = kept(ctx)
    assert (found.outcome, found.seconds, found.error, found.done) == (
        "retried",
        None,
        "driver-lost",
        0,
    )


def test_collection_forgets_them_after_a_month(ctx: Context, claim: Claim, tmp_path: Path) -> None:
    report(ctx, claim, tmp_path, *(done(n, claim, tmp_path) for n in (1, 2, 3, 4)))
    day_s = 86400.0
    assert collect(ctx.store, "default", now=1013.0 + 29 * day_s).attempts == 0
    assert collect(ctx.store, "default", now=1013.0 + 31 * day_s).attempts == 2
    with ctx.store.read() as tx:
        assert tx.past_attempts.newest("main") == ()
