"""The story of a dataflow whose lake is on S3, from a crash at its first commit to a revert.

Credentials come in a folder, as a mounted secret does, and are found nowhere else afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.e2e.conftest import LASTING, closing, lake_in, on_s3, ways
from tests.e2e.tables import DERIVED, Truth
from tests.e2e.workspace import Run, Workspace, add_days, day_name, day_text, example
from tests.servers.s3 import CREDENTIALS, S3

pytestmark = lake_in("s3")
DAYS = (1, 2)
PER_FILE = 4  # parse of flights, and one task in each of legs, named and delays
WHOLE = 4  # by_carrier, by_route, daily, trend
OTHERS = 5  # files of weather, airlines, airports and planes, and weather_hours
SECRET = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture(scope="module", params=ways(6))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(module_folder: Path, way: str) -> Path:
    (module_folder / way).mkdir()
    return module_folder / way


@pytest.fixture(scope="module")
def story(folder: Path, way: str, monthly: Path, s3: S3) -> Iterator[Workspace]:
    workspace = on_s3(
        s3, example(folder / "flights", lasts=way == LASTING), secrets=folder / "secrets"
    )
    (folder / "events").mkdir()
    log = {"spark.eventLog.dir": str(folder / "events"), "spark.eventLog.compress": "false"}
    conf = {"spark.eventLog.enabled": "true", **log}
    workspace.environment |= {"HEADGATE_SPARK_CONF": json.dumps(conf)}
    with closing(workspace):
        add_days(workspace, monthly, *DAYS)
        yield workspace


def assert_true(story: Workspace, run: Run) -> None:
    run.assert_up_to_date()
    Truth(story.folder / "data").assert_all(story.lake / "default" / "flights", DERIVED)
    story.assert_tidy()


def test_killed_at_a_commit_it_goes_on_and_does_nothing_twice(story: Workspace) -> None:
    story.dies("after-commit", "flights.yaml")
    run = story.run()
    assert_true(story, run)
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


def test_a_withdrawn_file(story: Workspace) -> None:
    (story.folder / "data" / "flights" / day_name(1)).unlink()
    run = story.run()
    assert run.tasks == {"executed": WHOLE, "written": 1}
    assert_true(story, run)


def test_an_edit_and_its_revert(story: Workspace) -> None:
    before = story.run()
    text = story.edit("flights.yaml", ("late_minutes: 15", "late_minutes: 30"))
    run = story.run()
    run.assert_up_to_date()
    assert run.tasks == {"executed": len(DAYS) + WHOLE, "written": 1}
    story.write("flights.yaml", text)
    after = story.run()
    after.assert_idle()
    assert after.roots == before.roots
    assert_true(story, after)


def test_its_tables_and_rows_are_read(
    story: Workspace, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dataset,) = story.ask("status", "flights.daily")["dataflows"][0]["datasets"]
    table = dataset["table"]
    assert table == f"{story.environment['HEADGATE_LAKE']}/default/flights/daily"
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    rows = DeltaTable(table, storage_options={"allow_http": "true"}).to_pyarrow_table().num_rows
    told = json.loads(
        story.call("records", "flights.daily", "--format", "json", "--home", story.home)
    )
    assert len(told) == rows == len(DAYS)


def test_its_files_are_all_there_and_nothing_else_is_left(story: Workspace) -> None:
    assert story.ask("fsck", "--files")["findings"] == []
    story.call("gc", "--home", story.home)
    story.run().assert_idle()
    story.assert_tidy()


def test_no_secret_is_written_down(story: Workspace, folder: Path) -> None:
    story.end_lasting()
    kept = [
        f for place in ("flights", "events") for f in (folder / place).rglob("*") if f.is_file()
    ]
    assert any(f.parent.name == "logs" for f in kept)
    events = [f for f in kept if folder / "events" in f.parents]
    assert any(b"spark.hadoop.fs.s3a." in f.read_bytes() for f in events)  # in plain words
    assert [f for f in kept if SECRET.encode() in f.read_bytes()] == []


def test_a_lake_that_is_no_lake_is_told_at_once(
    story: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with story.start(
        "run", "flights.yaml", "--home", story.home, HEADGATE_LAKE="s3://nowhere/x"
    ) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert b"s3://nowhere/x: there is no such bucket" in err
