"""What a plan is thought to take, by what tasks of its datasets took."""

from __future__ import annotations

from controlplane.core.model.past_attempts import Cost
from controlplane.core.plan import Item, Keys
from controlplane.operations.planning import costs

TASK = Cost(seconds_p10=1.0, seconds=2.0, seconds_p90=5.0, rows=10.0, bytes=100.0, attempts=3)


def item(dataset: str, tasks: int) -> Item:
    return Item(dataset, "compute", "logic", certain=True, tasks=tasks, keys=Keys())


def test_tasks_take_what_their_dataset_took_and_the_rest_is_unknown() -> None:
    items = [item("a.b", 12), item("a.c", 1), item("a.d", 0), item("a.e", 1)]
    found = [costs.of_item(one, {"a.b": TASK, "a.e": TASK}) for one in items]
    assert found[0] == {
        "seconds": {"low": 12.0, "median": 24.0, "high": 60.0},
        "bytes": 1200,
        "rows": 120,
        "unknown": [],
    }
    assert found[2] is None
    assert costs.total(found) == {
        "seconds": {"low": 13.0, "median": 26.0, "high": 65.0},
        "bytes": 1300,
        "rows": 130,
        "unknown": ["a.c"],
    }


def test_of_work_without_a_past_no_time_is_told() -> None:
    assert costs.total([costs.of_item(item("a.b", 2), {})])["seconds"] is None
