"""The flights data, a quarter or the whole year: every dataset is right, whoever reads it, and a
second run does nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import closing
from tests.e2e.tables import (
    DATASETS,
    Rows,
    Truth,
    all_by_spark,
    by_deltalake,
    by_duckdb,
    by_parquet,
    by_polars,
)
from tests.e2e.workspace import Run, Workspace, example
from tests.openlineage import spec
from tests.openlineage.service import Service, serving
from tests.slices import TURN, in_turn, part_of

QUARTER, YEAR = 3, 12
ROWS = {QUARTER: 80_789, YEAR: 336_776}
FULL, IN = 2, 4  # months are alike: the whole year has its turn at one in four commits
INSTEAD = [pytest.mark.sweep, *([pytest.mark.soak] if TURN % IN == FULL else [])]
ROW_WISE = ("legs", "named", "delays")  # one task per file of flights in each
# One task over everything in each
WHOLE = ("weather_hours", "by_carrier", "by_route", "daily", "trend")
DIMENSIONS = ("airlines", "airports", "planes")  # one file each


@pytest.fixture(
    scope="module",
    params=[pytest.param(YEAR, marks=in_turn(FULL, IN)), pytest.param(QUARTER, marks=INSTEAD)],
)
def months(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def lineage() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture(scope="module")
def flights(
    module_folder: Path, monthly: Path, months: int, lineage: Service
) -> Iterator[Workspace]:
    lineage.taken.clear()  # of the flights of fewer months
    with closing(example(module_folder / f"flights-{months}")) as workspace:
        later = [f"2013-{month:02}.csv" for month in range(months + 1, YEAR + 1)]
        shutil.copytree(monthly, workspace.folder / "data", ignore=shutil.ignore_patterns(*later))
        workspace.environment["HEADGATE_OPENLINEAGE"] = lineage.url
        yield workspace


@pytest.fixture(scope="module")
def first(flights: Workspace) -> Run:
    return flights.run()


@pytest.fixture(scope="module")
def truth(flights: Workspace) -> Truth:
    return Truth(flights.folder / "data")


def test_the_first_run_executes_each_task_once(first: Run, months: int) -> None:
    first.assert_up_to_date()
    parsed = 2 * months + len(DIMENSIONS)  # flights and weather come in a file per month
    assert first.tasks == {"executed": parsed + len(ROW_WISE) * months + len(WHOLE), "written": 1}
    assert first.value["spark_started"] is True
    assert {d["generation"] for d in first.datasets.values()} == {1}
    assert {n for n, d in first.datasets.items() if d["partitions"] == months} == {
        "flights",
        "weather",
        *ROW_WISE,
    }
    assert first.datasets["flights"]["rows"] == ROWS[months]


def test_all_of_it_is_sent_to_openlineage(flights: Workspace, first: Run, lineage: Service) -> None:
    events = [spec.valid(event) for event in lineage.taken]
    ended = {event["job"]["name"]: event for event in events if event["eventType"] == "COMPLETE"}
    assert ended.keys() >= {f"flights.{name}" for name in first.datasets}
    [output] = ended["flights.daily"]["outputs"]
    assert output["facets"]["symlinks"]["identifiers"][0]["name"] == str(
        flights.lake / "default/flights/daily"
    )
    of_date = output["facets"]["columnLineage"]["fields"]["date"]["inputFields"]
    assert ("flights.delays", "date") in {(one["name"], one["field"]) for one in of_date}


@pytest.mark.parametrize("read", [by_deltalake, by_duckdb, by_polars])
def test_tables_equal_what_duckdb_computes_from_the_raw_files(
    flights: Workspace, first: Run, truth: Truth, read: Rows
) -> None:
    assert set(first.datasets) == set(DATASETS)
    for name, dataset in first.datasets.items():
        assert dataset["table"] == (flights.lake / "default" / "flights" / name).as_uri()
    truth.assert_all(flights.lake / "default" / "flights", read=read)


# A third of the tables at each commit: one writer makes them, and the readers above read each
@pytest.mark.sweep
def test_spark_itself_reads_the_same(
    flights: Workspace, first: Run, truth: Truth, tmp_path: Path
) -> None:
    tables = {name: flights.lake / "default" / "flights" / name for name in part_of(DATASETS, 3)}
    for name, folder in all_by_spark(tables, tmp_path).items():
        truth.assert_equal(name, by_parquet(folder))


def test_the_copy_holds_the_same(flights: Workspace, first: Run, truth: Truth) -> None:
    (file,) = (flights.folder / "out" / "daily" / "_").glob("*.csv")
    lines = file.read_text().splitlines()
    assert (
        lines[0].replace('"', "")
        == "date,flights,cancelled,late,in_rain,mean_dep_delay,mean_arr_delay"
    )
    found = sorted((line.split(",")[0].strip('"'), int(line.split(",")[1])) for line in lines[1:])
    assert found == [
        (str(d), n) for d, n in truth.rows("SELECT date, flights FROM daily ORDER BY date")
    ]


def test_a_second_run_does_nothing(flights: Workspace, first: Run) -> None:
    again = flights.run()
    again.assert_idle()
    assert again.tasks == {}
    assert again.roots == first.roots
    assert flights.ask("plan", "flights.yaml", "--detailed-exitcode")["state"] == "nothing"
    flights.assert_tidy()
    flights.assert_alone()


def test_a_plan_without_a_service_has_spark_analyse_an_edit_and_its_readers(
    flights: Workspace, first: Run
) -> None:
    """Only Spark can tell what Python code does with columns. Its driver ends with the command."""
    text = (flights.folder / "flights.yaml").read_text()
    assert text.count("count_if(late) AS late") == 1
    flights.write(
        "changed.yaml", text.replace("count_if(late) AS late", "count_if(late) AS delayed")
    )
    plan = flights.ask("plan", "changed.yaml", "--no-refresh", code=1)
    daily = next(change for change in plan["changes"] if change["component"] == "flights.daily")
    assert (daily["schema_from"], daily["columns"]["removed"]) == ("spark", ["late"])
    [broken] = [one for one in plan["breaks"] if one["component"] == "flights.trend"]
    assert (broken["code"], broken["by"]) == ("edit-breaks-reader", "flights.daily")
    assert (Path(broken["file"]).name, broken["line"]) == ("trend.py", 13)
    assert "UNRESOLVED_COLUMN" in broken["message"]
    flights.assert_tidy()
    flights.assert_alone()
