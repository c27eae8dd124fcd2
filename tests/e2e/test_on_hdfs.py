"""The story of a dataflow whose lake is in HDFS, from a crash at its first commit to a late
file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.e2e.conftest import closing, lake_in
from tests.e2e.tables import DERIVED, Truth
from tests.e2e.workspace import Run, Workspace, add_days, day_name, day_text, example
from tests.servers.hdfs import Hdfs

pytestmark = lake_in("hdfs")
DAYS = (1, 2)
PER_FILE = 4  # parse of flights, and one task in each of legs, named and delays
WHOLE = 4  # by_carrier, by_route, daily, trend
OTHERS = 5  # files of weather, airlines, airports and planes, and weather_hours


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    server = Hdfs().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def story(module_folder: Path, monthly: Path, hdfs: Hdfs) -> Iterator[Workspace]:
    workspace = example(module_folder / "flights")
    environment = hdfs.environment() | {"HEADGATE_LAKE": f"{hdfs.url}/lakes/{workspace.mark}"}
    workspace = replace(workspace, environment=environment)
    with closing(workspace):
        add_days(workspace, monthly, *DAYS)
        yield workspace


def assert_true(story: Workspace, run: Run) -> None:
    run.assert_up_to_date()

    def read(table: Path) -> pa.Table:
        return DeltaTable(f"{story.environment['HEADGATE_LAKE']}/{table}").to_pyarrow_table()

    Truth(story.folder / "data").assert_all(Path("default", "flights"), DERIVED, read)


def test_killed_at_a_commit_it_goes_on_and_does_nothing_twice(story: Workspace) -> None:
    story.dies("after-commit", "flights.yaml")
    assert_true(story, story.run())
    counts = story.counted()
    done = counts.get("task.executed", 0) + counts.get("task.recovered", 0)
    assert done == len(DAYS) * PER_FILE + OTHERS + WHOLE


def test_nothing_changed(story: Workspace) -> None:
    run = story.run()
    run.assert_idle()
    assert run.tasks == {}


def test_a_late_file(story: Workspace, monthly: Path) -> None:
    (story.folder / "data" / "flights" / day_name(3)).write_text(day_text(monthly, 3))
    run = story.run()
    assert run.tasks == {"executed": PER_FILE + WHOLE, "written": 1}
    assert_true(story, run)


def test_its_files_are_all_there_and_are_read(story: Workspace) -> None:
    told = json.loads(
        story.call("records", "flights.daily", "--format", "json", "--home", story.home)
    )
    assert len(told) == len(DAYS) + 1
    assert story.ask("fsck", "--files")["findings"] == []
    story.call("gc", "--home", story.home)
    story.run().assert_idle()
