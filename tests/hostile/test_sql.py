"""A query reads the inputs of its component. Two walls stand before anything else, and each holds by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from controlplane.core.sql import SqlProblem, analyse, predicate
from dataplane.attempt import Failed
from dataplane.expectations import condition
from dataplane.failure import TaskFailure
from dataplane.session import task_session
from dataplane.transform.parameters import sql
from tests.hostile.escapes import AMBIENT, escapes, honest

SETTINGS = {"ansi": True, "case_sensitive": False, "timezone": "UTC"}
NOWHERE = "/nowhere/canary.txt"
INPUTS = {"x", "z"}


def test_there_are_more_than_150_escapes() -> None:
    assert len({text for _, text in escapes(NOWHERE)}) > 150


@pytest.mark.parametrize(("name", "text"), list(escapes(NOWHERE)), ids=[name for name, _ in escapes(NOWHERE)])
def test_the_control_plane_refuses_it_or_knows_what_it_reads(name: str, text: str) -> None:
    try:
        query = analyse(text)
    except SqlProblem:
        return
    assert {
        ref.name.lower() for ref in query.references
    } - INPUTS  # which is no dataset, and so a problem: missing-input


@pytest.mark.parametrize("text", list(honest()))
def test_the_control_plane_takes_what_only_looks_so(text: str) -> None:
    assert {ref.name.lower() for ref in analyse(text).references} <= INPUTS


@pytest.mark.parametrize("text", AMBIENT)
def test_results_depend_on_inputs_alone(text: str) -> None:
    with pytest.raises(SqlProblem):
        analyse(text)


def test_names_beside_a_path_into_a_variant_are_edges_of_the_graph() -> None:
    text = "SELECT x.v:a.b[0]['c'] AS q, (SELECT max(value) FROM z) FROM x TABLESAMPLE (3 ROWS), other.w"
    assert [ref.name for ref in analyse(text).references] == ["z", "x", "other.w"]


@pytest.mark.parametrize(
    "text",
    [
        f"a > (SELECT count(*) FROM text.`{NOWHERE}`)",
        f"EXISTS (FROM text.`{NOWHERE}`)",
        f"a IN (TABLE text.`{NOWHERE}`)",
        f"EXISTS (WITH t AS (FROM text.`{NOWHERE}`) SELECT 1 FROM t)",
        "a > (SELECT max(a) FROM z)",
        "reflect('java.lang.System', 'getenv', 'HOME') = ''",
        f"a = 1) UNION ALL (SELECT value FROM text.`{NOWHERE}`",
    ],
)
def test_a_condition_reads_its_row_alone(text: str, spark: SparkSession) -> None:
    with pytest.raises(SqlProblem):
        predicate(text)
    rows = task_session(spark, SETTINGS).range(3).selectExpr("id AS a")
    with pytest.raises(Failed):
        condition(rows, {"name": "c", "check": text})


# --- the wall in the driver -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session as a task has it, with two inputs read from files; `y` is a table that somebody else left."""
    found, folder = task_session(spark, SETTINGS), tmp_path_factory.mktemp("inputs")
    spark.range(4).selectExpr("id AS a", "id % 2 AS b").write.parquet(str(folder / "x"))
    spark.range(4).selectExpr("id AS a", "'v' AS value").write.parquet(str(folder / "z"))
    found.read.parquet(str(folder / "x")).createTempView("x")
    found.read.parquet(str(folder / "z")).createTempView("z")
    found.range(1).selectExpr("'left' AS value").createTempView("y")
    return found


def outcome(session: SparkSession, text: str) -> Any:
    """The rows, which are not computed yet, or what was raised."""
    try:
        return sql(session, text, {}, ["x", "z"])
    except (TaskFailure, PySparkException) as e:
        return e


def test_spark_reads_nothing_but_the_inputs(session: SparkSession, tmp_path: Path) -> None:
    """Each escape past the first wall, with a file that is there, and with one that is not: neither is looked for."""
    canary = tmp_path / "canary.txt"
    canary.write_text("hg_canary\n")
    told = {name: outcome(session, text) for name, text in escapes(str(canary))}
    assert [name for name, found in told.items() if not isinstance(found, Exception)] == []
    assert [name for name, found in told.items() if "hg_canary" in str(found).replace(str(canary), "")] == []
    missing = {name: outcome(session, text) for name, text in escapes(NOWHERE) if not name.endswith("-plain")}
    assert [name for name, found in missing.items() if "PATH_NOT_FOUND" in str(found)] == []


def test_spark_reads_the_inputs(session: SparkSession) -> None:
    failed = {text: found for text in honest() if isinstance(found := outcome(session, text), Exception)}
    assert failed == {}


def test_a_schema_path_that_is_put_together_is_seen(session: SparkSession) -> None:
    text = f"SELECT from_xml('<a/>', 'a INT', map('rowValidation' || 'XSDPath', '{NOWHERE}')) FROM x"
    found = outcome(session, text)
    assert isinstance(found, TaskFailure)
    assert "rowValidationXSDPath" in found.message


def test_parameters_are_values_and_no_names(session: SparkSession) -> None:
    with pytest.raises((TaskFailure, PySparkException)):
        sql(session, "SELECT * FROM IDENTIFIER(:t)", {"t": f"text.`{NOWHERE}`"}, ["x"])
    assert sql(session, "SELECT '${env:HOME}' AS v", {}, []).collect()[0].v == "${env:HOME}"
    assert len(sql(session, "SELECT * FROM x WHERE a = :n", {"n": 1}, ["x"]).collect()) == 1
