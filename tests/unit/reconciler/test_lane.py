"""Slices that workers read in place of drivers: which are requested of them, and what becomes of
those that a worker leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.core.model.tasks import Task
from controlplane.core.plan.source import lane as lane_plan
from controlplane.operations.desired import controls
from controlplane.operations.work import claims, reports, rescue
from dataplane.contract.claims import CONTRACT
from dataplane.contract.kinds import Kind
from dataplane.contract.results import UNDECIDED, infrastructure_error
from dataplane.contract.schemas import Json, struct_of
from tests.there import there
from tests.unit.listing.location import after, each, file, told
from tests.unit.reconciler.test_streams import ERROR, STREAM, Place

DATASET = "stream.messages"
LAKE = "file:///lake"
EMPTY: Json = {"schema": struct_of([]), "content": [0, 0, 0], "files": [], "metrics": {}}
LEFT: Json = {"state": "failed", "error": infrastructure_error(UNDECIDED, "a key twice")}
NESTED = STREAM.replace("schema: n BIGINT", 'schema: "n BIGINT, l ARRAY<INT>"')
LENIENT = STREAM.replace("schema: n BIGINT", "schema: n BIGINT, on_bad_record: drop")
SORTED = STREAM.replace("messages: {read:", "messages: {sort_by: [n], read:")
WIDE = STREAM.replace(
    "schema: n BIGINT", f'schema: "{", ".join(f"n{i} BIGINT" for i in range(100))}"'
)
CHECKING = STREAM.replace(
    "messages: {read:", "messages: {expect: [{name: p, check: n > 0, on_fail: drop}], read:"
)


class Lane(Place):
    """A stream, and workers; `reader_lake`: of those that read slices."""

    reader_lake: str | None = LAKE

    def finds_slices(self, *messages: int) -> None:
        """New slices with so many messages."""
        claim = there(self.asked_to_list())
        if self.reader_lake is not None:
            assert self.work("slice", self.reader_lake) is None
        known = there(claim["job"]["known"])["key"]
        first = int(known or 0) + 1
        names = [f"{first + i:012}" for i in range(len(messages))]
        objects = [file(name, columns=None) for name in names]
        for source, size in zip(objects, messages, strict=True):
            source["size"] = size
        found = told(each(objects), None)
        self.report(claim, {"result": {**found, "after": after(claim)}})
        self.loop.tick()

    def reports(self, kind: Kind, result: Json) -> None:
        """The result of the one task of a claim, and the pass after it."""
        claim = there(self.work(kind))
        self.now += 0.01  # attempts that end at one time have no order
        self.report(claim, result)
        self.loop.tick()

    def drivers_read_all(self) -> None:
        claim = there(self.work("parse"))
        done = [{"task": t["task"], "epoch": t["epoch"], "state": "done"} for t in claim["tasks"]]
        results = [{**task, **EMPTY} for task in done]
        reports.report(self.ctx, "worker", claim["attempt"], results, lake=self.lake)
        self.loop.tick()

    def loses_worker(self) -> None:
        """A worker dies with a slice, which it may do each time."""
        claim = there(self.work("slice"))
        with self.ctx.store.read() as tx:
            attempt = tx.queue.attempts()[claim["attempt"]]
        rescue.abandon(self.ctx, attempt, reason="the worker is gone")

    def events(self) -> set[str]:
        with self.ctx.store.read() as tx:
            return {*tx.events.count("main", 0)}

    def work(self, kind: Kind, lake: str = LAKE) -> Any:
        return claims.claim(self.ctx, "worker", CONTRACT, [kind], lake=lake)

    def tasks(self) -> Sequence[Task]:
        with self.ctx.store.read() as tx:
            return [*tx.queue.demands("main", DATASET).values()]

    def kinds(self) -> list[Kind]:
        return sorted(task.kind for task in self.tasks())

    def committed(self) -> int:
        """Slices of the present generation."""
        with self.ctx.store.read() as tx:
            states = tx.states.newest("main")
        return states[DATASET].partitions if DATASET in states else 0


@pytest.fixture
def lane() -> Lane:
    return Lane()


def test_slices_are_for_workers_that_read_them(lane: Lane) -> None:
    lane.finds_slices(10, 20)
    assert lane.kinds() == ["slice", "slice"]
    assert lane.work("parse") is None
    claim = there(lane.work("slice"))
    assert claim["kind"] == "slice"
    assert claim["job"]["settings"]["topic"] == "t"


def test_one_at_a_time_so_that_a_slow_server_holds_up_no_other_worker(lane: Lane) -> None:
    lane.finds_slices(10, 20)
    assert [len(there(lane.work("slice"))["tasks"]) for _ in range(2)] == [1, 1]


def test_without_such_a_worker_they_are_for_drivers() -> None:
    lane = Lane()
    lane.reader_lake = None
    lane.finds_slices(10)
    assert lane.kinds() == ["parse"]


def test_workers_write_to_no_hdfs() -> None:
    lane = Lane()
    lane.reader_lake = "hdfs://name:8020/lake"
    lane.finds_slices(10)
    assert lane.kinds() == ["parse"]


def test_the_result_of_either_is_the_same_tasks(lane: Lane) -> None:
    lane.finds_slices(10)
    [of_worker] = lane.tasks()
    other = Lane()
    other.reader_lake = None
    other.finds_slices(10)
    [of_driver] = other.tasks()
    assert of_worker.key == of_driver.key
    lane.reports("slice", EMPTY)
    assert (lane.committed(), lane.kinds()) == (1, [])


FAULTS = [infrastructure_error(UNDECIDED, "a key twice"), infrastructure_error("X", "no"), ERROR]


@pytest.mark.parametrize("error", FAULTS)
def test_what_a_worker_leaves_is_a_drivers_from_then_on(lane: Lane, error: Json) -> None:
    """Whatever the reason: a driver reads the slice, or says what is wrong with it."""
    lane.finds_slices(10)
    lane.reports("slice", {"state": "failed", "error": error})
    assert lane.kinds() == ["parse"]
    assert "task.retried" not in lane.events()
    assert lane.work("slice") is None
    lane.reports("parse", {"state": "failed", "error": ERROR})
    controls.retry(lane.ctx, "main", DATASET)
    lane.loop.tick()
    assert lane.kinds() == ["parse"]
    lane.reports("parse", EMPTY)
    assert lane.committed() == 1


def test_what_a_lost_worker_had_is_a_drivers(lane: Lane) -> None:
    lane.finds_slices(10)
    lane.loses_worker()
    assert [(task.kind, task.state, task.failures) for task in lane.tasks()] == [
        ("parse", "queued", 0)
    ]


def test_a_dataset_that_workers_leave_is_the_drivers_for_some_time(lane: Lane) -> None:
    lane.finds_slices(*[10] * (lane_plan.LEFT + 1))
    for _ in range(lane_plan.LEFT - 1):
        lane.reports("slice", LEFT)
    lane.reports("slice", EMPTY)
    lane.reports("slice", LEFT)
    lane.drivers_read_all()
    lane.finds_slices(*[10] * lane_plan.LEFT)
    assert lane.kinds() == ["slice"] * lane_plan.LEFT, "not in a row"
    for _ in range(lane_plan.LEFT):
        lane.reports("slice", LEFT)
    for kind, later in (("parse", 0), ("slice", lane_plan.LEFT_S)):
        lane.drivers_read_all()
        lane.now += later
        lane.finds_slices(10)
        assert lane.kinds() == [kind]


def test_it_is_tried_again_after_many_attempts(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_plan, "LEFT_ATTEMPTS", lane_plan.LEFT + 3)
    lane.finds_slices(*[10] * lane_plan.LEFT)
    for _ in range(lane_plan.LEFT):
        lane.reports("slice", LEFT)
    for kinds in (["parse"], ["slice"]):
        lane.drivers_read_all()
        lane.finds_slices(10)
        assert lane.kinds() == kinds


def test_many_slices_and_large_ones_are_for_drivers(lane: Lane) -> None:
    lane.finds_slices(lane_plan.MOST_MESSAGES - 1, lane_plan.MOST_MESSAGES)
    assert lane.kinds() == ["parse", "slice"]
    wide = Lane()
    wide.apply(WIDE)
    wide.finds_slices(*(lane_plan.MOST_VALUES // 105 + more for more in (0, 1)))
    assert wide.kinds() == ["parse", "slice"]
    many = Lane()
    many.finds_slices(*[1] * (lane_plan.MOST_WAITING + 5))
    assert many.kinds() == ["parse"] * 5 + ["slice"] * lane_plan.MOST_WAITING


@pytest.mark.parametrize("text", [NESTED, LENIENT, CHECKING, SORTED])
def test_other_columns_and_rules_are_for_drivers(lane: Lane, text: str) -> None:
    lane.apply(text)
    lane.finds_slices(10)
    assert lane.kinds() == ["parse"]


def test_slices_that_nobody_reads_any_more_go_to_drivers(lane: Lane) -> None:
    lane.finds_slices(10)
    lane.now += lane_plan.READERS_S + 1
    lane.loop.tick()
    assert lane.kinds() == ["parse"]


@pytest.fixture
def both(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> Lane:
    """Each slice is read by both."""
    monkeypatch.setattr(lane_plan, "CHECKED", 1)
    lane.finds_slices(10)
    lane.reports("slice", EMPTY)
    assert lane.kinds() == ["parse"], "a driver reads it as well"
    return lane


def test_some_slices_are_read_by_both(both: Lane) -> None:
    both.reports("parse", EMPTY)
    assert both.committed() == 1


def test_a_difference_is_an_error_until_somebody_decides(both: Lane) -> None:
    both.reports("parse", {**EMPTY, "content": [0, 2, 3]})
    [task] = both.tasks()
    assert (task.state, there(task.error)["condition"]) == ("failed", "slice-differs")
    assert "0 rows (0000000000000000) and 0 rows (0000000000000002)" in there(task.error)["message"]
    controls.retry(both.ctx, "main", DATASET)
    both.reports("parse", {**EMPTY, "content": [0, 2, 3]})
    assert both.committed() == 1


def test_one_slice_of_a_thousand_is_checked() -> None:
    assert [n for n in range(3_000) if lane_plan.is_checked(n.to_bytes(32))] == [0, 1_000, 2_000]
