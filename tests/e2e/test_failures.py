"""One bad partition among many: the rest is kept, the error is shown where it was made, only what
is missing runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Takes turns with expectations: both are errors on their way to a user; see unit/operations,
# spark/test_sql.
pytestmark = in_turn(1, 4)

PLACES = ("amsterdam", "berlin", "cairo", "delhi", "essen", "florence")
BAD = "delhi"
OTHERS = len(PLACES) - 1
BLUEPRINT = """\
dataflow: places
components:
  measured:
    read: {connector: files, path: "data/*.csv", format: csv, options: {header: true}, schema: "place STRING, n INT"}
  doubled:
    transform:
      sql: SELECT place, n * 2 AS n FROM measured
  noted:
    read: {connector: files, path: "data/*.csv", format: csv, options: {header: true}, schema: "place STRING, n STRING"}
  counted:
    transform:
      sql: |
        SELECT place,
               CAST(n AS INT) AS n
        FROM noted
  shares:
    transform:
      python: |
        from pyspark.sql import functions as F

        def share(column):
            return F.raise_error(F.concat(F.lit("cannot share "), column.cast("string")))

        def transform(noted):
            print("about to share")
            return noted.select("place", F.when(F.col("n") == "x", share(F.col("n"))).otherwise("fine").alias("n"))
      inputs: {noted: each}
"""


@pytest.fixture(scope="module", params=ways(2))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def places(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        for number, place in enumerate(PLACES):
            workspace.write(
                f"data/{place}.csv", f"place,n\n{place},{'x' if place == BAD else number}\n"
            )
        workspace.write("places.yaml", BLUEPRINT)
        yield workspace


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(BLUEPRINT.splitlines(), 1) if text in line)


def errors_of(value: dict[str, Any]) -> dict[str, Any]:
    return {e["dataset"].partition(".")[2]: e for e in value["errors"]}


def test_the_rest_is_kept(places: Workspace) -> None:
    run = places.run("places.yaml", code=1)
    assert run.value["state"] == "failed"
    # measured, noted, counted, shares
    assert run.tasks["executed"] == OTHERS + len(PLACES) + OTHERS + OTHERS
    assert run.tasks["failed"] == 3
    assert {n: d["state"] for n, d in run.datasets.items()} == {
        "measured": "failed",
        "doubled": "blocked",
        "noted": "up_to_date",
        "counted": "failed",
        "shares": "failed",
    }


def test_status_shows_condition_message_and_line(places: Workspace) -> None:
    status = places.ask("status", code=1)
    (flow,) = status["dataflows"]
    errors = {d["name"].partition(".")[2]: d["error"] for d in flow["datasets"]}
    assert errors["measured"]["condition"] == "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"
    assert f"data/{BAD}.csv" in errors["measured"]["message"]
    blueprint = str(places.folder / "places.yaml")
    counted = errors["counted"]
    assert (counted["condition"], counted["sqlstate"]) == ("CAST_INVALID_INPUT", "22018")
    assert "'x'" in counted["message"]
    assert (counted["file"], counted["line"], counted["column"]) == (
        blueprint,
        line_of("CAST(n"),
        16,
    )
    shares = errors["shares"]
    assert "cannot share x" in shares["message"]
    assert shares["file"] == blueprint


def test_why_shows_it_for_the_partition(places: Workspace) -> None:
    why = places.ask("why", f"places.counted/{BAD}.csv")
    assert why["state"] == "failed"
    assert why["error"]["condition"] == "CAST_INVALID_INPUT"
    assert why["error"]["line"] == line_of("CAST(n")
    text = places.call("why", f"places.counted/{BAD}.csv", "--home", places.home)
    assert f"places.yaml:{line_of('CAST(n')}:16: CAST_INVALID_INPUT 22018" in text
    assert "measured has failed" in places.call("why", "places.doubled", "--home", places.home)
    table = places.call("status", "--home", places.home, code=1)
    assert "CAST_INVALID_INPUT 22018" in table


def test_logs_give_what_its_code_said(places: Workspace) -> None:
    error = places.ask("why", f"places.shares/{BAD}.csv")["error"]
    # Spark says much
    said = places.call("logs", error["attempt"], "--tail", 10_000, "--home", places.home)
    assert "about to share" in said.splitlines()
    assert f"attempt={error['attempt']}" in said
    last = places.call("logs", error["attempt"], "--tail", 1, "--home", places.home)
    assert last == said.splitlines(keepends=True)[-1]
    text = places.call("why", f"places.shares/{BAD}.csv", "--home", places.home)
    assert f"  log: headgate logs {error['attempt']}" in text.splitlines()


def test_another_run_tries_again_what_failed_and_no_more(places: Workspace) -> None:
    run = places.run("places.yaml", code=1)
    assert run.tasks == {"failed": 3}


def test_after_the_fix_only_what_is_missing_runs(places: Workspace) -> None:
    places.write(f"data/{BAD}.csv", f"place,n\n{BAD},3\n")
    run = places.run("places.yaml")
    run.assert_up_to_date()
    kept = 3 * OTHERS  # of measured, counted and shares: they enter a table only now
    # `doubled` had not begun
    assert run.tasks == {"executed": 1 + len(PLACES) + 1 + 1 + 1, "adopted": kept}
    assert {d["rows"] for d in run.datasets.values()} == {len(PLACES)}
    places.assert_tidy()
    places.assert_alone()
