"""What runs after a change of data or code, counted, and that everything is right afterwards. Steps
of one story.

The example on a file per day. Of the graph, with `each` reading one partition and everything else
reading all:

    flights -each-> legs -each-> named -each-> delays -> by_carrier, by_route, daily -> trend
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import LAKES, LASTING, closing, placed, ways
from tests.e2e.tables import DERIVED, Truth, by_deltalake
from tests.e2e.workspace import Json, Run, Workspace, add_days, day_name, day_text, example, until

COPY_OF_LEGS = """
  legs_json:
    write: {connector: files, from: legs, path: out/legs, format: json}
"""
PER_FILE = 4  # parse of flights, and one task in each of legs, named and delays
WHOLE = 4  # by_carrier, by_route, daily, trend: whatever changes in delays, each runs once
# Files whose bytes, after the story of data, are those of another: one task does for both
TWINS = 2
# Files of weather, airlines, airports and planes, and weather_hours, which does not read flights
OTHERS = 5


@pytest.fixture(scope="module", params=ways(12))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=LAKES)
def story(
    request: pytest.FixtureRequest, way: str, module_folder: Path, monthly: Path
) -> Iterator[Workspace]:
    flights = example(module_folder / way / request.param, COPY_OF_LEGS, lasts=way == LASTING)
    with closing(placed(request, flights)) as workspace:
        add_days(workspace, monthly, 1, 2, 3, 4)
        yield workspace


def flights_folder(story: Workspace) -> Path:
    return story.folder / "data" / "flights"


def assert_true(story: Workspace, run: Run, *, copied: bool = True) -> None:
    """All tables hold what a computation from scratch gives, and the copies of legs what legs
    holds."""
    run.assert_up_to_date()
    tables = story.lake / "default" / "flights"
    Truth(story.folder / "data").assert_all(tables, DERIVED)
    rows = sum(
        file.read_text().count("\n") for file in (story.folder / "out" / "legs").glob("*/*.json")
    )
    assert rows == by_deltalake(tables / "legs").num_rows
    folders = {
        path.name
        for path in (story.folder / "out" / "legs").iterdir()
        if path.is_dir() and path.name[0] != "_"
    }
    assert folders == {path.name for path in flights_folder(story).iterdir()}
    story.assert_tidy()


# --- data -----------------------------------------------------------------------------------------


def test_first_run(story: Workspace) -> None:
    run = story.run()
    assert run.tasks == {"executed": 4 * PER_FILE + OTHERS + WHOLE, "written": 4 + 1}
    assert_true(story, run)


def test_nothing_changed(story: Workspace) -> None:
    run = story.run()
    run.assert_idle()
    assert run.tasks == {}


def test_a_late_file_runs_what_is_downstream_of_its_partition(
    story: Workspace, monthly: Path
) -> None:
    (flights_folder(story) / day_name(5)).write_text(day_text(monthly, 5))
    assert story.ask("plan", "flights.yaml", "--no-refresh")["state"] == "nothing"
    plan = until(
        lambda: plan_with_news(story),
        lambda: "a plan uses a listing of the last ten seconds as it is, and no longer",
    )
    (changed,) = (source for source in plan["sources"] if source["objects"])
    assert (changed["dataset"], [o["name"] for o in changed["objects"]]) == (
        "flights.flights",
        [day_name(5)],
    )
    first = plan["items"][0]
    assert (first["dataset"], first["tasks"], first["certain"]) == ("flights.flights", 1, True)
    run = story.run()
    assert run.tasks == {"executed": PER_FILE + WHOLE, "written": 1 + 1}
    assert_true(story, run)


def plan_with_news(story: Workspace) -> Json:
    """The plan if it names objects that its datasets do not have yet, else nothing."""
    plan: Json = story.ask("plan", "flights.yaml")
    return plan if any(source["objects"] for source in plan["sources"]) else {}


def test_a_modified_file_does_the_same(story: Workspace) -> None:
    file = flights_folder(story) / day_name(5)
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-100]))
    run = story.run()
    assert run.tasks == {"executed": PER_FILE + WHOLE, "written": 1 + 1}
    assert_true(story, run)


def test_a_deleted_file_costs_no_task_where_partitions_are_kept_apart(story: Workspace) -> None:
    (flights_folder(story) / day_name(1)).unlink()
    run = story.run()
    # written: one folder less, and the daily figures
    assert run.tasks == {"executed": WHOLE, "written": 1 + 1}
    assert {
        run.datasets[name]["partitions"] for name in ("flights", "legs", "named", "delays")
    } == {4}
    assert_true(story, run)


def test_a_file_that_comes_back_costs_nothing(story: Workspace, monthly: Path) -> None:
    (flights_folder(story) / day_name(1)).write_text(day_text(monthly, 1))
    run = story.run()
    run.assert_idle()
    # Whole datasets come back
    assert run.tasks == {"adopted": 5 * PER_FILE + WHOLE, "written": 1 + 1}
    assert_true(story, run)


def test_renamed_touched_or_replaced_by_equal_bytes(story: Workspace) -> None:
    folder = flights_folder(story)
    (folder / day_name(2)).rename(folder / "second.csv")
    os.utime(folder / day_name(3), (1, 1))
    shutil.copy(folder / day_name(4), folder / "new")
    (folder / "new").replace(folder / day_name(4))
    run = story.run()
    run.assert_idle()
    # A partition under a new key; its folder moves
    assert run.tasks == {"adopted": PER_FILE, "written": 2}
    assert_true(story, run)


def test_a_copy_beside_its_original_is_adopted_and_only_sums_run(story: Workspace) -> None:
    folder = flights_folder(story)
    shutil.copy2(folder / day_name(3), folder / "copy.csv")
    run = story.run()
    assert run.tasks == {"executed": WHOLE, "adopted": PER_FILE, "written": 1 + 1}
    assert_true(story, run)


def test_files_of_equal_size_and_time_are_told_apart_by_their_bytes(story: Workspace) -> None:
    folder = flights_folder(story)
    one, other, changed = folder / "one.csv", folder / "other.csv", folder / day_name(4)
    shutil.copy2(folder / day_name(5), one)
    shutil.copy2(folder / day_name(5), other)
    alter(other, ",UA,", ",AA,")
    before = changed.stat()
    alter(changed, ",UA,", ",AA,")
    assert one.stat().st_size == other.stat().st_size
    assert one.stat().st_mtime_ns == other.stat().st_mtime_ns
    assert (before.st_size, before.st_mtime_ns) == (
        changed.stat().st_size,
        changed.stat().st_mtime_ns,
    )
    run = story.run()
    # `one` is a copy of a day that is known, so adopted; `other` and the changed day are new
    assert run.tasks == {"executed": 2 * PER_FILE + WHOLE, "adopted": PER_FILE, "written": 3 + 1}
    assert_true(story, run)


def alter(file: Path, old: str, new: str) -> None:
    """Other bytes, but the same size and time."""
    status, text = file.stat(), file.read_text()
    assert len(old) == len(new)
    assert old in text
    file.write_text(text.replace(old, new, 1))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


# --- code -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def before(story: Workspace) -> Run:
    """Where the data story ends."""
    run = story.run()
    run.assert_idle()
    return run


def daily_copy(story: Workspace) -> str:
    (file,) = (story.folder / "out" / "daily" / "_").glob("*.csv")
    return "".join(sorted(file.read_text().splitlines(keepends=True)))


def test_whitespace_comments_and_case_of_keywords_and_functions(
    story: Workspace, before: Run
) -> None:
    story.edit(
        "flights.yaml",
        (
            "SELECT make_date(year, month, day) AS date,",
            "select /* the day */ MAKE_DATE(year,month,  day) as date,",
        ),
        (
            "max(precip) > 0 AS rain, min(visib) AS visib",
            "MAX(precip)>0 aS rain, Min(visib) as visib -- it rained",
        ),
        ("description: Legs with names instead of codes.", "description: Legs, named."),
    )
    story.edit(
        "transforms/trend.py",
        ("    return days.select(", "    # one row per day\n    return days.select("),
    )
    run = story.run()
    run.assert_idle()
    assert run.tasks == {}
    assert run.roots == before.roots


def test_an_edit_runs_its_own_tasks_and_what_really_changed(story: Workspace, before: Run) -> None:
    partitions = before.datasets["delays"]["partitions"]
    assert story.ask("plan", "flights.yaml", "--detailed-exitcode")["state"] == "nothing"
    text = story.edit("flights.yaml", ("late_minutes: 15", "late_minutes: 30"))
    story.write("flights-before.txt", text)
    figures = story.write("figures-before.txt", daily_copy(story))
    plan = story.ask("plan", "flights.yaml", "--detailed-exitcode", "--no-spark", code=2)
    first = plan["items"][0]
    assert (first["dataset"], first["cause"], first["tasks"]) == (
        "flights.delays",
        "logic",
        partitions - TWINS,
    )
    # Readers and the copy of daily follow if rows differ.
    assert (plan["certain"], plan["possible"]) == (partitions - TWINS, WHOLE + 1)
    assert {i["dataset"] for i in plan["items"] if i["action"] == "compute"} == {
        f"flights.{name}" for name in ("delays", "by_carrier", "by_route", "daily", "trend")
    }
    run = story.run()
    run.assert_up_to_date()
    assert run.tasks == {"executed": partitions - TWINS + WHOLE, "written": 1}
    changed = {name for name in run.roots if run.roots[name] != before.roots[name]}
    assert changed == {"delays", "by_carrier", "daily", "trend"}  # routes do not tell who was late
    late = Truth(story.folder / "data").rows("SELECT count(*) FROM flights WHERE arr_delay >= 30")
    table = by_deltalake(story.lake / "default" / "flights" / "daily")
    assert [(sum(table.column("late").to_pylist()),)] == late
    assert daily_copy(story) != figures.read_text()


def test_its_revert_runs_nothing_and_the_copy_is_written_again(
    story: Workspace, before: Run
) -> None:
    story.write("flights.yaml", (story.folder / "flights-before.txt").read_text())
    run = story.run()
    run.assert_idle()
    assert run.executed == 0
    assert run.tasks["written"] == 1
    assert run.roots == before.roots
    assert daily_copy(story) == (story.folder / "figures-before.txt").read_text()
    assert [i["generation"] for i in story.ask("history", "flights.trend")["items"]][:2] == [
        run.datasets["trend"]["generation"],
        run.datasets["trend"]["generation"] - 1,
    ]


EDITED = {
    "flights.delays",
    "flights.by_carrier",
    "flights.by_route",
    "flights.daily",
    "flights.trend",
}


def in_branch(story: Workspace, name: str, late_minutes: int) -> Run:
    """Make a branch and run it with an edit. The text is put back."""
    story.ask("branch", "create", name)
    text = story.edit("flights.yaml", ("late_minutes: 15", f"late_minutes: {late_minutes}"))
    run = story.run("flights.yaml", "--branch", name)
    story.write(f"{name}.txt", (story.folder / "flights.yaml").read_text())
    story.write("flights.yaml", text)
    assert {dataset["state"] for dataset in run.datasets.values()} == {"up_to_date"}
    assert {target["state"] for target in run.targets.values()} == {"paused"}  # off in branches
    return run


def merged(story: Workspace, name: str) -> Run:
    """Merge the branch, and run main with the text that it has then."""
    assert story.ask("branch", "merge", name)["taken"] == ["flights.delays"]
    story.write("flights.yaml", (story.folder / f"{name}.txt").read_text())
    return story.run()


def test_a_branch_computes_its_edit_alone_and_a_merge_into_an_unmoved_main_nothing(
    story: Workspace, before: Run
) -> None:
    partitions = before.datasets["delays"]["partitions"]
    figures = daily_copy(story)
    run = in_branch(story, "try", 45)
    assert run.tasks == {"executed": partitions - TWINS + WHOLE}  # and no copy
    assert {name for name in run.roots if run.roots[name] == before.roots[name]} >= {
        "flights",
        "legs",
        "named",
    }
    assert set(story.ask("branch", "show", "try")["dataflows"]) == {"flights"}
    own = story.query("SELECT dataset FROM heads WHERE branch = 'try'")
    assert {dataset for (dataset,) in own} == EDITED
    main = story.run()
    main.assert_idle()
    assert main.tasks == {}
    assert main.roots == before.roots
    assert daily_copy(story) == figures
    main = merged(story, "try")
    main.assert_idle()
    assert main.roots == run.roots
    assert daily_copy(story) != figures


def test_a_revert_of_a_merge_runs_nothing(story: Workspace, before: Run) -> None:
    story.write("flights.yaml", (story.folder / "flights-before.txt").read_text())
    run = story.run()
    run.assert_idle()
    assert run.roots == before.roots


def test_a_merge_computes_what_came_meanwhile_alone(
    story: Workspace, before: Run, monthly: Path
) -> None:
    in_branch(story, "again", 60)
    late = flights_folder(story) / day_name(6)
    late.write_text(day_text(monthly, 6))
    assert story.run().tasks == {"executed": PER_FILE + WHOLE, "written": 1 + 1}
    run = merged(story, "again")
    run.assert_up_to_date()
    assert run.executed == 1 + WHOLE  # delays of that file, and what reads all of them
    late.unlink()
    story.write("flights.yaml", (story.folder / "flights-before.txt").read_text())
    run = story.run()
    run.assert_idle()
    assert run.roots == before.roots


def test_other_code_with_equal_rows_stops_right_there(story: Workspace, before: Run) -> None:
    partitions = before.datasets["legs"]["partitions"]
    story.edit("flights.yaml", ("dep_time IS NULL AS cancelled", "isnull(dep_time) AS cancelled"))
    run = story.run()
    run.assert_up_to_date()
    assert run.tasks == {"executed": partitions - TWINS}
    assert run.roots == before.roots
    assert {n: d["generation"] for n, d in run.datasets.items()} == {
        n: story.ask("history", f"flights.{n}")["items"][0]["generation"] for n in run.datasets
    }


def test_a_copy_in_another_format_takes_the_place_of_the_one_before(
    story: Workspace, before: Run
) -> None:
    text = story.edit(
        "flights.yaml", ("path: out/legs, format: json", "path: out/legs, format: csv")
    )
    for suffix in (".csv", ".json"):
        run = story.run()
        run.assert_idle()
        assert run.tasks == {"written": before.datasets["legs"]["partitions"]}
        assert {path.suffix for path in (story.folder / "out" / "legs").glob("*/part*")} == {suffix}
        story.write("flights.yaml", text)


def test_a_second_dataflow_of_equal_logic_adopts_everything(story: Workspace) -> None:
    again = story.run()
    text = (story.folder / "flights.yaml").read_text()
    story.write(
        "twin.yaml",
        text.replace("dataflow: flights", "dataflow: twin").replace("path: out/", "path: twin/"),
    )
    run = story.run("twin.yaml")
    run.assert_idle()
    partitions = sum(d["partitions"] for d in run.datasets.values())
    assert run.tasks == {"adopted": partitions, "written": again.datasets["legs"]["partitions"] + 1}
    assert run.roots == again.roots
    # With files of its own
    Truth(story.folder / "data").assert_all(story.lake / "default" / "twin")
    assert {d["name"].partition(".")[0] for d in run.value["datasets"]} == {"twin"}


def test_the_folder_of_another_writer_is_left_alone(story: Workspace) -> None:
    figures = daily_copy(story)
    text = (story.folder / "flights.yaml").read_text()
    story.write("rival.yaml", text.replace("dataflow: flights", "dataflow: rival"))
    run = story.run("rival.yaml", code=1)
    assert run.value["state"] == "failed"
    assert {d["state"] for d in run.datasets.values()} == {"up_to_date"}
    assert {t["error"]["condition"] for t in run.targets.values()} == {"target-owned"}
    assert daily_copy(story) == figures
    story.call("delete", "rival", "--home", story.home)
    story.run().assert_idle()
    story.assert_alone()
