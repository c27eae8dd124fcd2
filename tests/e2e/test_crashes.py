"""Killed at named places and at random: the next run goes on, loses nothing finished, does nothing
twice."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import LAKES, placed
from tests.e2e.tables import DERIVED, Truth, by_deltalake
from tests.e2e.workspace import Run, Workspace, add_days, ended, until
from tests.slices import in_turn, takes_turns

DAYS = (1, 2)
# Parse and three steps per day; four other files; five datasets as a whole
DISTINCT = len(DAYS) * 4 + 9


@pytest.fixture(params=LAKES)
def days(request: pytest.FixtureRequest, flights: Workspace, monthly: Path) -> Workspace:
    add_days(flights, monthly, *DAYS)
    return placed(request, flights)


def manifests(workspace: Workspace) -> int:
    return len(list(workspace.lake.glob("*/*/*/_frags/*/*/manifest.json")))


def killed(workspace: Workspace, at: int, **environment: str) -> None:
    """A run whose control plane alone is killed once there are so many manifests."""
    process = workspace.start("run", "flights.yaml", "--home", workspace.home, **environment)
    with ended(process):
        until(
            lambda: manifests(workspace) >= at or process.poll() is not None,
            lambda: f"{at} manifests",
        )
        assert process.poll() is None, process.communicate()
        os.kill(process.pid, signal.SIGKILL)
    workspace.assert_alone()  # worker, driver, JVM and publisher end by themselves


def assert_complete(workspace: Workspace, last: Run) -> None:
    """The last run made everything right, and all runs together executed each task once."""
    last.assert_up_to_date()
    Truth(workspace.folder / "data").assert_all(workspace.lake / "default" / "flights", DERIVED)
    counts = workspace.counted()
    assert counts.get("task.executed", 0) + counts.get("task.recovered", 0) == DISTINCT
    assert counts.get("task.failed", 0) == 0
    workspace.assert_tidy()
    workspace.assert_alone()
    again = workspace.run()
    again.assert_idle()
    assert again.tasks == {}


# One of three sweeps at each commit: each place in turn, random places, a random death of the
# driver. A story of a lake in a store dies at a commit in each run (`lake_in`); hostile/test_kills
# kills the loop at each of its transactions.
@takes_turns(0, 3)
def test_killed_at_one_place_after_the_other(days: Workspace) -> None:
    days.dies("after-claim", "flights.yaml")
    killed(days, 1, HEADGATE_FAILPOINTS="driver-after-manifest")
    # Takes up what the manifest proves, and dies after the first commit
    days.dies("after-commit", "flights.yaml")
    days.dies("before-commit-parse", "flights.yaml")  # there is a manifest, but no commit
    days.dies("before-publish", "flights.yaml")  # there is a commit, but no table
    days.dies("after-publish", "flights.yaml")
    recovered = days.counted()["task.recovered"]
    days.dies("before-commit-transform", "flights.yaml")
    last = days.run()
    assert recovered > 0
    assert last.tasks["adopted"] > 0  # the transform's manifest was there
    assert days.counted()["task.recovered"] > recovered
    assert_complete(days, last)


# One at every third commit
RANDOM = [pytest.param(seed, marks=in_turn(3 * seed + 1, 9)) for seed in range(3)]


@pytest.mark.parametrize("seed", RANDOM)  # places differ, and the test above has each kind of them
def test_the_control_plane_killed_at_random(days: Workspace, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        killed(days, manifests(days) + chance.randint(1, 4))
    assert_complete(days, days.run())


@takes_turns(2, 3)
def test_a_driver_killed_at_random_is_replaced(days: Workspace) -> None:
    with ended(
        days.start("run", "flights.yaml", "--home", days.home, "--output", "json")
    ) as process:
        until(lambda: manifests(days) >= 2, lambda: "two manifests")
        (driver,) = (
            pid
            for pid, line in days.processes().items()
            if line.rstrip().endswith("dataplane driver")
        )
        os.kill(driver, signal.SIGKILL)
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert_complete(days, days.run())


def test_a_publisher_that_dies_before_and_after_the_log_entry_commits_once(
    workspace: Workspace,
) -> None:
    workspace.write("data/a.txt", "one\ntwo\n")
    workspace.write("lines.yaml", LINES)
    first = workspace.run("lines.yaml", code=1, HEADGATE_FAILPOINTS="publish-before-log")
    assert (first.value["state"], first.datasets["lines"]["table"]) == ("failed", None)
    assert [e["condition"] for e in first.value["errors"]] == ["cannot-publish"]
    assert workspace.ask("status", code=1)["state"] == "failed"
    assert log_entries(workspace) == []
    deaths = workspace.counted()["dataset.publish_failed"]

    workspace.run("lines.yaml", HEADGATE_FAILPOINTS="publish-after-log").assert_idle()
    assert workspace.counted()["dataset.publish_failed"] == deaths + 1
    assert log_entries(workspace) == [f"{0:020}.json"]
    assert by_deltalake(workspace.lake / "default" / "simple" / "lines").num_rows == 2


def log_entries(workspace: Workspace) -> list[str]:
    log = workspace.lake / "default" / "simple" / "lines" / "_delta_log"
    return [path.name for path in log.glob("*.json")]


LINES = """\
dataflow: simple
components:
  lines:
    read: {connector: files, path: data/*.txt, format: text}
"""
