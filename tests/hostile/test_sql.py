"""SQL that tries to read past its inputs: the control plane refuses it, and a driver does too,
whatever it is sent.

Each wall is looked at by itself. Does not belong here: users' Python, which no wall holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from controlplane.core.sql import SqlProblem, analyse, apply_edits, predicate
from dataplane.fragments.attempt import Failed
from dataplane.fragments.spark.row_conditions import condition
from dataplane.spark.plan_guard import check_analysed
from dataplane.spark.spark_session import query_session, task_session
from dataplane.task_failures import TaskFailure
from dataplane.transform.parameters import sql
from tests.hostile.escapes import (
    CONDITIONS,
    LEGITIMATE,
    PLACES,
    UNTOLD,
    WAYS,
    Escape,
    at,
    escapes,
    put,
)
from tests.unit.sql.queries import CORPUS, TPCH
from tests.unit.sql.tpch import tpch_tables

SETTINGS = {"ansi": True, "case_sensitive": False, "timezone": "UTC"}
NOWHERE = "/nowhere/at/all/canary"
KNOWN = {"x", "y"}
SECRET = "what no row may hold"


def kind_of(escape: Escape) -> str:
    return escape.id.split("/")[1]


# --- the control plane ----------------------------------------------------------------------------


def test_the_escapes_are_many() -> None:
    assert len(escapes()) > 400


@pytest.mark.parametrize("escape", escapes(), ids=lambda one: one.id)
def test_the_control_plane_refuses_it_or_sees_an_unknown_name(escape: Escape) -> None:
    try:
        named = {ref.name.lower() for ref in analyse(at(escape.sql, NOWHERE)).references}
    except SqlProblem:
        return
    assert not any("/" in name for name in named)
    assert kind_of(escape) in UNTOLD or named - KNOWN  # an input that there is not


@pytest.mark.parametrize("place", PLACES)
def test_names_behind_what_only_spark_reads_are_inputs(place: str) -> None:
    """The same as where the parser reads it all."""
    parsed, by_tokens = (_named(put(PLACES[place], "other.rows", way)) for way in WAYS.values())
    assert by_tokens == parsed
    assert parsed is None or "other.rows" in parsed


def _named(text: str) -> set[str] | None:
    try:
        return {ref.name for ref in analyse(text).references}
    except SqlProblem:
        return None


@pytest.mark.parametrize("name", CONDITIONS)
def test_no_condition_is_one(name: str) -> None:
    text = at(CONDITIONS[name], NOWHERE)
    if name in UNTOLD:
        assert predicate(text)
    else:
        with pytest.raises(SqlProblem):
            predicate(text)


@pytest.mark.parametrize("text", LEGITIMATE)
def test_ordinary_queries_pass(text: str) -> None:
    assert {ref.name.lower() for ref in analyse(text).references} <= KNOWN


# --- the driver -----------------------------------------------------------------------------------


class Views:
    """A session of a task with its views, as a driver makes them."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        rows = session.createDataFrame([("a",), ("b",)], "c STRING")
        rows.write.mode("overwrite").parquet(str(folder / "given"))
        self.views = {"x": session.read.parquet(str(folder / "given")), "y": rows}
        for name, view in self.views.items():
            view.createTempView(name)

    def run(self, text: str) -> list[object]:
        return [tuple(row) for row in sql(self.session, text, {}, self.views).collect()]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "canary.txt"
    path.write_text(SECRET)
    return path


def how(views: Views, text: str) -> str:
    """What became of a query: the condition of its refusal, `unparsable`, or what is wrong."""
    try:
        return f"rows: {views.run(text)}"
    except TaskFailure as e:
        return e.condition
    except ParseException:
        return "unparsable"
    except AnalysisException as e:
        return f"analysed: {e.getCondition()}"


REFUSED = {"direct-read", "TABLE_OR_VIEW_NOT_FOUND", "unparsable"}
HARMLESS = {"analysed: UNRESOLVED_ROUTINE", "analysed: UNRESOLVED_COLUMN.WITH_SUGGESTION"}
SUBSTITUTED = {"environment", "system-property", "setting"}


def test_a_driver_refuses_before_it_looks_anything_up(spark: SparkSession, tmp_path: Path) -> None:
    """Even where files may be read by their names: of a path that is not there nothing is said."""
    views = Views(task_session(spark, SETTINGS), tmp_path)
    found = {
        one.id: how(views, at(one.sql, NOWHERE))
        for one in escapes()
        if kind_of(one) not in SUBSTITUTED
    }
    refused = {id for id, told in found.items() if told in REFUSED}
    others = {id: told for id, told in found.items() if id not in refused}
    assert {id for id in others if id.split("/")[1] not in UNTOLD} == set(), others
    assert set(others.values()) <= HARMLESS


def test_no_row_of_a_driver_holds_the_secret(
    spark: SparkSession, tmp_path: Path, secret: Path
) -> None:
    views = Views(query_session(spark, SETTINGS), tmp_path)
    for escape in escapes():
        assert SECRET not in how(views, at(escape.sql, str(secret))), escape
    for escape in (one for one in escapes() if kind_of(one) in SUBSTITUTED):
        assert "${" in how(views, escape.sql)  # what was written, and no value in its place


def test_a_name_of_a_file_reads_nothing_in_a_session_of_queries(
    spark: SparkSession, secret: Path
) -> None:
    with pytest.raises(AnalysisException) as caught:
        query_session(spark, SETTINGS).sql(f"SELECT * FROM text.`{secret}`")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_an_analysed_plan_holds_only_what_was_given(
    spark: SparkSession, tmp_path: Path, secret: Path
) -> None:
    """By itself, where nothing before it refused."""
    views = Views(task_session(spark, SETTINGS), tmp_path)
    refused, passed = 0, set()
    for escape in (one for one in escapes() if "/parsed/0" in one.id):
        try:
            rows = views.session.sql(at(escape.sql, str(secret)))
        except AnalysisException:
            continue
        try:
            check_analysed(rows, views.views.values())
            passed.add(escape.id)
        except TaskFailure as e:
            refused += e.condition == "direct-read"
    assert passed <= {"cte-unused/parsed/0"}  # which is not in the plan
    assert refused > 40


@pytest.mark.parametrize(
    "name",
    [
        "reflect",
        "java_method",
        "try_reflect",
        "xsd",
        "xsd-concat",
        "file-name",
        "default-json",
        "default-csv",
    ],
)
def test_an_analysed_plan_calls_no_class(spark: SparkSession, tmp_path: Path, name: str) -> None:
    views = Views(task_session(spark, SETTINGS), tmp_path)
    (escape,) = (one for one in escapes() if one.id == f"expression/{name}/parsed")
    rows = views.session.sql(at(escape.sql, NOWHERE))
    with pytest.raises(TaskFailure) as caught:
        check_analysed(rows, views.views.values())
    assert caught.value.condition == "direct-read"


def test_a_condition_of_a_driver_reads_one_row(spark: SparkSession, tmp_path: Path) -> None:
    rows = Views(query_session(spark, SETTINGS), tmp_path).views["y"]
    for name, text in CONDITIONS.items():
        if name in SUBSTITUTED:  # a text like others, as it is written
            assert "${" in str(condition(rows, {"id": "", "name": name, "check": text}))
            continue
        with pytest.raises(Failed) as caught:
            condition(rows, {"id": "", "name": name, "check": at(text, NOWHERE)})
        told = caught.value.error["condition"]
        is_none = name in UNTOLD | {"closed"}  # which Spark itself does not take for a condition
        assert told == "direct-read" or is_none, (name, told)


@pytest.mark.parametrize("function", ["xpath", "xpath_string", "xpath_boolean", "xpath_double"])
def test_xml_reads_no_other_file(spark: SparkSession, tmp_path: Path, function: str) -> None:
    """The document may come from data: no look at a query would tell."""
    there = tmp_path / "there.dtd"
    there.write_text(f'<!ENTITY x "{SECRET}">')
    told = set()
    for place in (there.as_uri(), f"file:{NOWHERE}", "http://127.0.0.1:9/x.dtd"):
        document = f'<!DOCTYPE a SYSTEM "{place}"><a>&x;</a>'
        rows = spark.createDataFrame([(document,)], "d STRING").selectExpr(
            f"{function}(d, 'a/text()')"
        )
        with pytest.raises(Exception, match="Error loading expression") as caught:
            rows.collect()
        assert SECRET not in str(caught.value)
        told.add("accessExternalDTD" in str(caught.value))
    assert told == {True}  # refused as such, whether it is there or not


def test_ordinary_queries_run(spark: SparkSession, tmp_path: Path) -> None:
    views = Views(query_session(spark, SETTINGS), tmp_path)
    for text in LEGITIMATE:
        sql(views.session, text, {}, views.views)


def test_known_queries_are_not_refused(spark: SparkSession) -> None:
    """Those of TPC-H are analysed as well; of others Spark may say that it knows no such column."""
    session = query_session(spark, SETTINGS)
    tables = {name: _table(session, table.columns) for name, table in tpch_tables(1).items()}
    for name, rows in tables.items():
        rows.createTempView(name)
    for one in TPCH:
        sql(session, one["sql"], {}, tables)
    for one in CORPUS:
        told = _told(session, one["sql"], one.get("parameters", ()))
        assert not told.startswith("direct-read"), (one["sql"], told)


def _table(session: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    text = ", ".join(
        f"{name} {kind.replace('VARCHAR', 'STRING')}" for name, kind in columns.items()
    )
    return session.createDataFrame([], text)


def _told(session: SparkSession, text: str, parameters: list[str]) -> str:
    """The driver renames inputs: no name of a view has a dot, or quotes."""
    query = analyse(text)
    names = {ref.name: f"v{i}" for i, ref in enumerate(query.references)}
    views = {view: _table(session, {"a": "INT", "x": "INT"}) for view in names.values()}
    for view, rows in views.items():
        rows.createOrReplaceTempView(view)
    try:
        sql(
            session,
            apply_edits(text, query.rename_edits(names)),
            dict.fromkeys(parameters, 1),
            views,
        )
    except TaskFailure as e:
        return f"{e.condition}: {e}"
    except AnalysisException as e:
        return str(e.getCondition())
    return "done"
