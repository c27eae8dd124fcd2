"""The timeline of a run: each bar lies where its attempt was, and many attempts are few bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from controlplane.core.model.answers.work import PastRunAnswer
from controlplane.operations.inspect.critical_path import critical_path
from controlplane.ui import run_timeline
from controlplane.ui.run_timeline import (
    ATTEMPTS_LISTED,
    MOST_BARS,
    MOST_LANES,
    MOST_STEPS,
    Timeline,
)
from tests.unit.ui.test_budget import ELEMENTS, HTML_BYTES, STATEMENTS, cost
from tests.unit.ui.world import Pages, pages

BEGAN = 1_764_000_000.0


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as filled:
        yield filled


def instant(after_s: float) -> str:
    return datetime.fromtimestamp(BEGAN + after_s, UTC).isoformat()


def attempt(
    dataset: str, queued: float, began: float, ended: float, outcome: str = "done"
) -> dict[str, Any]:
    return {
        "attempt": f"{dataset}-{queued}-{ended}",
        "dataset": dataset,
        "outcome": outcome,
        "queued": instant(queued),
        "began": instant(began),
        "ended": instant(ended),
    }


def run_of(*attempts: Mapping[str, Any], running: object = (), seconds: float = 0) -> PastRunAnswer:
    names = dict.fromkeys(one["dataset"] for one in attempts)
    run = {
        "began": instant(0),
        "seconds": seconds,
        "steps": [{"dataset": name, "state": "done"} for name in names],
        "attempts": list(attempts),
        "running": running,
        "critical": [],
    }
    return cast("PastRunAnswer", run)


def bars(timeline: Timeline) -> list[tuple[float, float, float, int]]:
    return [
        (bar.start, bar.wait, bar.work, bar.y // run_timeline.LANE_PX)
        for row in timeline.rows
        for bar in row.bars
    ]


def test_waiting_and_work_lie_on_one_axis() -> None:
    timeline = run_timeline.of_run(
        run_of(attempt("a", 0, 10, 50), attempt("a", 20, 30, 60), attempt("b", 60, 70, 100))
    )
    assert bars(timeline) == [(0, 10, 40, 0), (20, 10, 30, 1), (60, 10, 30, 0)]
    assert timeline.ticks == [(30.0, "30 s"), (60.0, "1 min 0 s"), (90.0, "1 min 30 s")]
    assert timeline.rows[0].bars[0].words == "done: queued 10 s, ran 40 s"


def test_an_attempt_under_way_lasts_until_now() -> None:
    live = {"attempt": "x", "dataset": "a", "queued": instant(50), "began": instant(60)}
    timeline = run_timeline.of_run(
        run_of(attempt("a", 0, 0, 50, "retried"), running=[live], seconds=100)
    )
    (row,) = timeline.rows
    assert [(bar.state, bar.start, bar.wait, bar.work) for bar in row.bars] == [
        ("retried", 0, 0, 50),
        ("running", 50, 10, 40),
    ]
    assert (row.total, row.unlisted) == (2, 0)


def test_attempts_that_overlap_too_often_are_one_bar() -> None:
    every = [attempt("a", 0, n, 100 - n) for n in range(MOST_LANES)]
    assert len(bars(run_timeline.of_run(run_of(*every)))) == MOST_LANES
    folded = run_timeline.of_run(run_of(*every, attempt("a", 0, 9, 20, "failed")))
    (bar,) = folded.rows[0].bars
    assert (bar.start, bar.wait, bar.work, bar.count) == (0, 0, 100, MOST_LANES + 1)
    assert bar.state == "failed"
    assert bar.attempt == "a-0-20"


@pytest.mark.parametrize("datasets", [1, 20, MOST_BARS + 50])
def test_many_attempts_are_few_bars_and_few_lines(datasets: int) -> None:
    """Each has gaps around it, so folding alone does not do."""
    every = [
        attempt(f"d{n % datasets}", 10 * n, 10 * n + 1, 10 * n + 2, "done") for n in range(2_000)
    ]
    timeline = run_timeline.of_run(run_of(*every))
    assert 0 < len(bars(timeline)) <= MOST_BARS
    assert sum(len(row.attempts) for row in timeline.rows) <= ATTEMPTS_LISTED
    drawn = [bar for row in timeline.rows for bar in row.bars]
    shown_rows = {f"d{n}" for n in range(min(datasets, MOST_STEPS))}
    assert sum(bar.count for bar in drawn) == sum(one["dataset"] in shown_rows for one in every)
    assert sum(row.total for row in timeline.rows) == sum(bar.count for bar in drawn)
    assert timeline.unlisted == datasets - len(timeline.rows)


def test_of_many_steps_the_failed_and_the_critical_ones_are_shown() -> None:
    run = run_of(*(attempt(f"d{n}", n, n + 1, n + 2) for n in range(2 * MOST_STEPS)))
    run["steps"][-1]["state"] = "failed"
    run["critical"] = [run["steps"][-2]["dataset"]]
    shown = [row.step["dataset"] for row in run_timeline.of_run(run).rows]
    last = [f"d{n}" for n in (2 * MOST_STEPS - 2, 2 * MOST_STEPS - 1)]
    assert shown == [*(f"d{n}" for n in range(MOST_STEPS - 2)), *last]


def test_the_failed_step_of_a_dataset_of_many_steps_is_shown() -> None:
    run = run_of(attempt("again", 0, 1, 2))
    done = run["steps"][0]
    run["steps"] = [*[done] * 2 * MOST_STEPS, {**done, "state": "failed"}]
    rows = run_timeline.of_run(run).rows
    assert len(rows) == MOST_STEPS
    assert rows[-1].step["state"] == "failed"


def test_the_critical_path_goes_back_along_the_inputs_that_ended_last() -> None:
    ends = {"a": 10.0, "b": 30.0, "c": 40.0, "d": 35.0, "late": 50.0}
    inputs = {"c": ["a", "b", "c", "gone"], "d": ["a"], "late": []}
    assert critical_path({n: ends[n] for n in "abcd"}, inputs) == ["b", "c"]
    assert critical_path(ends, inputs) == ["late"]
    assert critical_path({}, inputs) == []


def test_a_run_is_shown_with_its_critical_path_and_its_numbers(world: Pages) -> None:
    with world.http() as http:
        ids = [one["id"] for one in http.get("/activity.json").json()["runs"]]
        (run,) = [
            each
            for each in (http.get(f"/activity/{id}.json").json() for id in ids)
            if "shop.grand" in each["critical"]
        ]
        page = http.get(f"/activity/{run['id']}").text
    assert run["critical"] == ["shop.orders", "shop.dear", "shop.spent", "shop.grand"]
    for step in run["steps"]:
        own = [one for one in run["attempts"] if one["dataset"] == step["dataset"]]
        assert step["work"]["rows"] == sum(one["rows"] for one in own)
        assert step["work"]["bytes_written"] == sum(one["bytes_written"] for one in own)
    assert page.count('class="wait" x=') == len(run["attempts"])
    assert "critical</span>" in page


def test_a_run_of_many_attempts_is_a_small_page(
    world: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.http() as http:
        id = http.get("/activity.json").json()["runs"][-1]["id"]
        one = http.get(f"/activity/{id}.json").json()
    many = [{**one["attempts"][0], "attempt": f"{n:032x}"} for n in range(5_000)]
    steps = [{**one["steps"][0], "dataset": f"shop.d{n * 7919 % 10_007}"} for n in range(300)]
    for n, each in enumerate(many):
        each["dataset"] = steps[n % 300]["dataset"]
    monkeypatch.setattr(
        run_timeline.__name__.replace("run_timeline", "work_pages.past_runs.past_run"),
        lambda *_: {**one, "attempts": many, "steps": steps},
    )
    statements, size, elements = cost(world, f"/activity/{id}")
    assert size <= HTML_BYTES
    assert elements <= 7 * ELEMENTS
    assert statements <= STATEMENTS


def test_attempts_under_way_are_in_the_run_of_their_dataset(world: Pages) -> None:
    world.world.put("2025-06-01.csv", (1, 30))
    world.world.refresh()
    world.world.work()
    world.world.once()
    with world.world.store.begin() as tx:
        tx.queue.claim("live1", "d1", ("parse",), max_tasks=9, lease_s=1e6)
    with world.http() as http:
        id = http.get("/activity.json").json()["runs"][0]["id"]
        run = http.get(f"/activity/{id}.json").json()
        page = http.get(f"/activity/{id}").text
    assert [one["attempt"] for one in run["running"]] == ["live1"]
    assert run["running"][0]["queued"] <= run["running"][0]["began"]
    assert "every 3s" in page
    assert 'class="work running"' in page
