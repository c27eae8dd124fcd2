"""Runs and waves over random histories: files, edits and wishes, also while work is under way."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from controlplane.core.model.answers.work import PastRun
from controlplane.operations.desired import controls
from controlplane.operations.explore.waves import wave, waves
from controlplane.operations.inspect import json_views, past_runs
from tests.unit.expectations.world import World

REST = """\
    expect:
      - {{check: 'v < 900', on_fail: quarantine}}
  places: {{read: {{connector: files, path: {home}/places/*.csv, format: csv, options: {{header: true}},
            schema: 'k BIGINT, v BIGINT'}}}}
  doubled: {{transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}}}
  near: {{transform: {{sql: 'SELECT k, v + 1 AS v FROM places'}}}}
  joined: {{transform: {{sql: 'SELECT doubled.k, doubled.v FROM doubled JOIN near ON doubled.k = near.k'}}}}
  total: {{transform: {{sql: 'SELECT sum(v) AS v FROM joined'}}}}
  both: {{transform: {{sql: 'SELECT total.v, doubled.k FROM total CROSS JOIN doubled'}}}}
  copied: {{write: {{connector: files, from: total, path: '{home}/out', format: json}}}}
"""
OTHER = "  mine: {transform: {sql: 'SELECT v FROM shop.total'}}\n"
SOURCES = {"shop.orders", "shop.places", "other.orders"}
TRUE_CAUSES = {
    "the source of shop.orders changed",
    "the source of shop.places changed",
    "the source of other.orders changed",
    "an operator asked for shop.doubled to be computed again (refresh --force)",
    "an operator asked for shop.joined to be computed again (refresh --force)",
}


class History:
    """A world in which something happens at each step. Work that is under way is left so for a
    while."""

    def __init__(self, home: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(home)
        (home / "places").mkdir()
        self.world.put("a.csv", (1, 10), (2, 20))
        self.file("places")
        self.edit(2)
        self.world.apply(OTHER, "other")
        self.world.settle()

    def file(self, folder: str) -> None:
        rows = [f"{self.random.randrange(3)},{self.random.choice([1, 5, 950])}" for _ in range(2)]
        path = self.world.home / folder / f"{self.random.choice('abc')}.csv"
        path.write_text("\n".join(["k,v", *rows]) + "\n")

    def edit(self, factor: int) -> None:
        self.world.apply(REST.format(home=self.world.home, factor=factor))

    def step(self) -> None:
        match self.random.randrange(6):
            case 0 | 1:
                self.file("orders")
            case 2:
                self.file("places")
            case 3:
                self.edit(self.random.choice([2, 3]))
            case 4:
                name = self.random.choice(["shop.doubled", "shop.joined"])
                controls.refresh(self.world.ctx, "main", name, force=True)
            case _:
                self.file("orders")
                self.file("places")
        self.world.refresh()
        for _ in range(self.random.randrange(4)):
            self.world.settling.settle()
            self.world.engine.step()
            self.world.now += 10.0

    def runs(self, target: str | None = None) -> list[PastRun]:
        return past_runs.listing(self.world.ctx, "main", target, 1000)["items"]

    def commits(self) -> Counter[tuple[str, str | None]]:
        """By dataset and time."""
        with self.world.store.read() as tx:
            states = tx.states.recent("main", None, 1000)
        return Counter(
            (state.dataset, json_views.instant(state.at))
            for some in states.values()
            for state in some
        )


def check_causes(runs: list[PastRun]) -> None:
    for run in runs:
        told = [cause["reason"] for cause in run["causes"]]
        assert told
        assert all(
            one in TRUE_CAUSES or re.fullmatch(r"revision \d+ of (shop|other)", one) for one in told
        ), run
    began = [run["began"] for run in runs]
    assert began == sorted(began, reverse=True)


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.soak) for n in range(6, 200))]
)
def test_runs_and_waves_say_the_same_and_only_what_is_true(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(8):
        history.step()
        check_causes(history.runs())
    history.world.settle()
    runs = history.runs()
    check_causes(runs)
    one_by_one = {
        run["id"]: past_runs.past_run(history.world.ctx, "main", run["id"]) for run in runs
    }
    steps = [
        step
        for run in one_by_one.values()
        for step in run["steps"]
        if step["partitions"] is not None
    ]
    assert Counter((step["dataset"], step["at"]) for step in steps) == history.commits()
    for found in waves(history.world.ctx, "main", None, before=None, limit=1000)["items"]:
        run = one_by_one.pop(found["id"])
        assert found["tasks"] == run["tasks"]
        assert {*found["datasets"], *found["exports"]} == set(run["datasets"])
        assert found["causes"] == run["causes"]
        alone = wave(history.world.ctx, "main", found["id"])
        assert (alone["tasks"], alone["datasets"]) == (found["tasks"], found["datasets"])
    assert not one_by_one
    quarantined = [run for run in runs if "shop.orders__quarantine" in run["datasets"]]
    assert all("shop.orders" in run["datasets"] for run in quarantined)
