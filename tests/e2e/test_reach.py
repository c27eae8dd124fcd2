"""Joins that read neighbouring hours, and rows without their duplicates, through processes: rows as
DuckDB has them from the files, and what a late row redoes, counted. Steps of one story.

clicks -by hour-, views -by hour, an hour before- -> attributed; clicks -by bucket-> unique
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.tables import by_duckdb
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn

# Its plans are asked of property, its rows of spark/test_distinct. Here they go through processes.
pytestmark = in_turn(2, 4)

FLOW = """
dataflow: ads
components:
  clicks:
    read:
      connector: files
      path: clicks/*.csv
      format: csv
      options: {header: true}
      schema: "ad INT, at TIMESTAMP, n INT"
  views:
    read:
      connector: files
      path: views/*.csv
      format: csv
      options: {header: true}
      schema: "ad INT, at TIMESTAMP, campaign STRING"
  attributed:
    transform:
      sql: |
        SELECT c.ad, c.at, c.n, v.campaign
        FROM clicks c LEFT JOIN views v ON c.ad = v.ad AND c.at BETWEEN v.at AND v.at + INTERVAL 1 HOUR
      partition_by: [{at: hour}]
      inputs: {clicks: by, views: {mode: by, reach: {before: 1h}}}
  counted:
    transform:
      python: |
        from pyspark.sql import functions as F
        def transform(clicks, views):
            near = views.select(F.col("at").alias("seen"), "campaign")
            is_near = F.expr("seen >= at - INTERVAL 90 MINUTES AND seen <= at + INTERVAL 10 MINUTES")
            return clicks.join(near, is_near, "left").groupBy("at", "n").agg(F.count("seen").alias("views"))
      partition_by: [{at: hour}]
      inputs: {clicks: by, views: {mode: by, reach: {before: 90m, after: 10m}}}
  unique:
    distinct: {from: clicks, keys: [ad], order_by: [at, n], within: 1h, buckets: 4}
"""
ORACLES = {
    "attributed": """
        SELECT c.ad, epoch(c."at"), c.n, v.campaign FROM clicks c
        LEFT JOIN views v ON c.ad = v.ad AND c."at" BETWEEN v."at" AND v."at" + INTERVAL 1 HOUR ORDER BY ALL
    """,
    "counted": """
        SELECT epoch(c."at"), c.n, count(v."at") FROM clicks c
        LEFT JOIN views v ON v."at" BETWEEN c."at" - INTERVAL 90 MINUTES AND c."at" + INTERVAL 10 MINUTES
        GROUP BY ALL ORDER BY ALL
    """,
    "unique": """
        SELECT ad, epoch("at"), n FROM (
            SELECT *, lag("at") OVER (PARTITION BY ad ORDER BY "at", n) AS before FROM clicks
        ) WHERE before IS NULL OR "at" > before + INTERVAL 1 HOUR ORDER BY ALL
    """,
}
COLUMNS = {
    "attributed": 'ad, epoch("at"), n, campaign',
    "counted": 'epoch("at"), n, views',
    "unique": 'ad, epoch("at"), n',
}
START = datetime.fromisoformat("2026-11-27T20:00:00")
HOURS = 8


@pytest.fixture(scope="module", params=ways(23))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def story(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("ads.yaml", FLOW)
        for hour in range(HOURS):
            clicks(workspace, f"{hour}", *((ad, 60 * hour + 13 * ad) for ad in range(4)))
            views(workspace, f"{hour}", *((ad, 60 * hour + 7 * ad) for ad in range(3)))
        yield workspace


def clicks(workspace: Workspace, name: str, *rows: tuple[int, int]) -> None:
    """Rows of (ad, minute)."""
    lines = (f"{ad},{_time(minute)},{minute % 7}" for ad, minute in rows)
    workspace.write(f"clicks/{name}.csv", "\n".join(["ad,at,n", *lines, ""]))


def views(workspace: Workspace, name: str, *rows: tuple[int, int]) -> None:
    lines = (f"{ad},{_time(minute)},{name}-{minute}" for ad, minute in rows)
    workspace.write(f"views/{name}.csv", "\n".join(["ad,at,campaign", *lines, ""]))


def _time(minute: int) -> str:
    return f"{(START + timedelta(minutes=minute)).isoformat()}Z"


def settled(story: Workspace) -> Run:
    """A run, after which all is as DuckDB has it from the files."""
    run = story.run("ads.yaml")
    run.assert_up_to_date()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in ("clicks", "views"):
            path = story.folder / name / "*.csv"
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_csv('{path}')")
        for name, oracle in ORACLES.items():
            rows = by_duckdb(story.lake / "default" / "ads" / name)
            connection.register("made", rows)
            made = f"SELECT {COLUMNS[name]} FROM made ORDER BY ALL"
            assert connection.sql(made).fetchall() == connection.sql(oracle).fetchall(), name
            connection.unregister("made")
    story.assert_tidy()
    return run


INDEXES = 2  # of a file of clicks: by hour, which both joins share, and by bucket


def test_first_run(story: Workspace) -> None:
    run = settled(story)
    assert run.datasets["attributed"]["partitions"] == HOURS
    assert run.datasets["counted"]["partitions"] == HOURS


def test_a_late_view_redoes_the_hours_that_reach_it(story: Workspace) -> None:
    views(story, "late", (2, 60 * 3 + 5), (3, 60 * 3 + 59))
    # attributed: hours 3 and 4. counted: 2, which reaches ten minutes forward, to 5
    assert settled(story).tasks == {"executed": 1 + 1 + 2 + 4}


def test_a_withdrawn_view_redoes_nothing_that_is_known(story: Workspace) -> None:
    (story.folder / "views" / "late.csv").unlink()
    settled(story).assert_idle()


def test_a_late_click_redoes_its_own_hour(story: Workspace) -> None:
    clicks(story, "late", (2, 60 * 3 + 1))
    run = settled(story)
    assert run.tasks == {"executed": 1 + INDEXES + 1 + 1 + 1}


def test_views_alone_make_no_hour(story: Workspace) -> None:
    views(story, "alone", (1, 60 * 40))
    run = settled(story)
    assert run.tasks == {"executed": 1 + 1}
    assert run.datasets["attributed"]["partitions"] == HOURS
