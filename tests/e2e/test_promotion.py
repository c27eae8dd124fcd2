"""Queries of flights that become transforms: their columns are Spark's, their rows those of the
query, before and after they are applied.

Does not belong here: what a proposal's text is (`unit.queries.test_promotion`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import Headgate
from tests.e2e.conftest import closing
from tests.e2e.workspace import Service, Workspace, add_days, example
from tests.slices import in_turn

# Proposals are asked of unit/queries/test_promotion, columns that Spark tells of spark/test_sql.
pytestmark = in_turn(0, 6)

DAYS = range(1, 9)
QUERIES = {
    "busy": """
        SELECT carrier, count(*) AS flights, avg(arr_delay) AS mean, max(distance) AS farthest
        FROM flights.legs GROUP BY carrier""",
    "rainy": """
        SELECT l.origin, w.rain, count(*) AS flights, sum(CAST(l.dep_delay AS DOUBLE)) / count(*) AS delay
        FROM flights.legs AS l JOIN flights.weather_hours AS w ON w.origin = l.origin AND w.time_hour = l.time_hour
        GROUP BY l.origin, w.rain""",
    "latest": """
        SELECT date, carrier, flight, arr_delay FROM (
            SELECT *, row_number() OVER (ORDER BY arr_delay DESC NULLS LAST, date, carrier, flight) AS place
            FROM flights.legs WHERE dest = 'IAH'
        ) WHERE place <= 100""",
}


@pytest.fixture(scope="module")
def service(module_folder: Path, monthly: Path) -> Iterator[tuple[Workspace, Service]]:
    with closing(example(module_folder / "flights")) as workspace:
        add_days(workspace, monthly, *DAYS)
        with workspace.serving() as service:
            workspace.ask("apply", "flights.yaml", "--wait")
            yield workspace, service


@pytest.fixture(scope="module")
def promoted(service: tuple[Workspace, Service]) -> dict[str, Any]:
    """Each query, proposed beside those before it, compared with DuckDB's rows, and applied."""
    found = {}
    with service[1].client() as client:
        for name, sql in QUERIES.items():
            told = client.promote(
                sql, f"flights.{name}", analyse=True, compare="duckdb", timeout_s=300
            )
            files = client.dataflow("flights")["files"]
            client.apply([{"name": told["file"], "text": told["text"], "files": files}])
            found[name] = told
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_spark_tells_the_columns(promoted: dict[str, Any], name: str) -> None:
    analysis = promoted[name]["analysis"]
    assert (analysis["schema_from"], analysis["breaks"]) == ("spark", [])
    assert analysis["columns"]


@pytest.mark.parametrize("name", QUERIES)
def test_the_transform_has_the_query_s_rows(promoted: dict[str, Any], name: str) -> None:
    comparison = promoted[name]["comparison"]
    assert comparison["equal"], comparison
    assert comparison["query_rows"] == comparison["transform_rows"] > 2


def test_the_first_run_makes_those_rows(
    service: tuple[Workspace, Service], promoted: dict[str, Any]
) -> None:
    workspace, running = service
    workspace.call("wait", "flights", "--home", workspace.home)
    with running.client() as client:
        for name, sql in QUERIES.items():
            made, asked = (
                stored(client, f"flights.{name}"),
                client.query(sql, engine="spark", timeout_s=300),
            )
            columns = [column["name"] for column in asked["columns"]]
            assert columns == [column["name"] for column in promoted[name]["analysis"]["columns"]]
            assert sorted(map(repr, made)) == sorted(
                repr(dict(zip(columns, row, strict=True))) for row in asked["rows"]
            )


def stored(client: Headgate, dataset: str) -> list[dict[str, Any]]:
    with client.records(dataset) as parts:
        found: list[dict[str, Any]] = json.loads(b"".join(parts))
    return found


def test_what_spark_refuses_is_told_at_its_place(service: tuple[Workspace, Service]) -> None:
    with service[1].client() as client:
        told = client.promote(
            "SELECT nothing FROM flights.legs", "flights.x", analyse=True, timeout_s=300
        )
        assert told["analysis"] is not None
        [found] = told["analysis"]["breaks"]
        assert found["what"] == "itself"
        assert "nothing" in found["message"]
        assert told["text"].splitlines()[found["line"] - 1].strip().startswith("SELECT nothing")


def test_rows_that_differ_are_told(service: tuple[Workspace, Service]) -> None:
    """The engines count days of the week from another day."""
    sql = "SELECT DISTINCT dayofweek(date) AS day FROM flights.legs"
    with service[1].client() as client:
        found = client.promote(sql, "flights.days", compare="duckdb", timeout_s=300)["comparison"]
        assert found is not None
        assert (found["equal"], found["only_in_query"], found["only_in_transform"]) == (False, 1, 1)
        assert (found["samples_of_query"], found["samples_of_transform"]) == ([[0]], [[7]])
