"""Rows that fail what is expected of them: left out where they are written, counted, told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from dataplane.contract.results import CheckAnswer, TaskResult
from dataplane.fragments.spark import checks
from tests.spark.conftest import Lake, done, failed, query, read, schema_of

pytestmark = pytest.mark.usefixtures("compiled")  # as production runs

SPARK = {"ansi": True, "case_sensitive": False, "timezone": "UTC"}


def dropping(*checks: str) -> dict[str, Any]:
    drops = [
        {"id": f"{i:064x}", "name": f"check {i}", "check": text} for i, text in enumerate(checks)
    ]
    return {"expect": {"drop": drops, "spark": SPARK}}


def numbers(lake: Lake, *values: int | None) -> dict[str, Any]:
    return {"slots": {"n": lake.table(pa.table({"x": pa.array(values, pa.int32())}))}}


def doubled(lake: Lake, **job: Any) -> dict[str, Any]:
    inputs = {"n": {"view": "n", "mode": "each", "schema": schema_of(lake.spark, "x INT")}}
    text = "SELECT x * 2 AS y FROM n"
    return query(
        text,
        inputs=inputs,
        batch_input="n",
        batch_sql="SELECT x * 2 AS y, n._fragment FROM n",
        **job,
    )


def test_rows_that_fail_are_left_out_of_a_batch_and_counted(lake: Lake) -> None:
    tasks = [numbers(lake, 1, 2, 3, None), numbers(lake, 3), numbers(lake, 5, 6)]
    first, second, third = lake.run(
        "transform", doubled(lake, **dropping("Y > 2", "y < 12 -- not far")), tasks
    )
    assert lake.rows(first) == [{"y": 4}, {"y": 6}, {"y": None}]
    assert lake.rows(second) == [{"y": 6}]
    assert lake.rows(third) == [{"y": 10}]
    counts = [done(r)["metrics"].get("dropped") for r in (first, second, third)]
    assert counts == [{f"{0:064x}": 1}, None, {f"{1:064x}": 1}]


def test_a_single_task_may_be_left_with_no_row(lake: Lake) -> None:
    (result,) = lake.run("transform", doubled(lake, **dropping("y > 100")), [numbers(lake, 1, 2)])
    assert (done(result)["files"], done(result)["content"]) == ([], [0, 0, 0])
    assert done(result)["metrics"] == {"dropped": {f"{0:064x}": 2}, "dropped_rows": 2}
    left = [p.name for p in lake.root.glob("default/**/_frag*") if p.is_dir() and "=" in p.name]
    assert left == []


def test_python_results_are_sorted_out_too(lake: Lake) -> None:
    code = "def transform(n):\n    return n\n"
    inputs = {"n": {"view": "n", "mode": "each", "schema": schema_of(lake.spark, "x INT")}}
    job = {
        "language": "python", "modules": {"m.py": code}, "main": "m.py", "entrypoint": "transform", "params": {},
        "spark": SPARK, "inputs": inputs, "shared": {}, **dropping("x <> 2"),
    }  # fmt: skip
    (result,) = lake.run("transform", job, [numbers(lake, 1, 2)])
    assert lake.rows(result) == [{"x": 1}]


def test_parsed_rows_are_left_out_by_columns_that_a_file_lacks(lake: Lake) -> None:
    objects = [
        lake.source("a.csv", "k,v\n1,7\n2,8\nx,1\n", ["k", "v"]),
        lake.source("b.csv", "v\n9\n", ["v"]),
    ]
    both, one = schema_of(lake.spark, "k INT, v INT"), schema_of(lake.spark, "v INT")
    tasks = [
        {"objects": [objects[0]], "columns": both},
        {"objects": [objects[1]], "columns": one, "lacking": schema_of(lake.spark, "k INT")},
    ]
    job = read("csv", on_bad_record="drop", **dropping("K <=> 1"))
    first, second = lake.run("parse", job, tasks)
    assert lake.rows(first) == [{"k": 1, "v": 7}]
    assert (lake.rows(second), done(second)["schema"]) == ([], one)
    assert done(first)["metrics"] == {"dropped": {f"{0:064x}": 1}, "dropped_rows": 2}
    assert done(second)["metrics"] == {"dropped": {f"{0:064x}": 1}, "dropped_rows": 1}


def test_a_condition_that_means_nothing_is_an_error_at_its_own_place(lake: Lake) -> None:
    job = doubled(lake, **dropping("y > 1", "y > 1 AND\n  z = 1"))
    for kind in ("analyse", "transform"):
        (result,) = lake.run(kind, job, [numbers(lake, 1)])
        error = failed(result)
        assert (error["condition"], error["file"]) == (
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "expect: check 1",
        )
        assert (error["kind"], error["line"], error["column"]) == ("user", 2, 3)


def test_a_condition_that_fails_on_a_row_is_not_placed_in_the_query(lake: Lake) -> None:
    (result,) = lake.run(
        "transform", doubled(lake, **dropping("1 / (y - 2) > 0")), [numbers(lake, 1)]
    )
    error = failed(result)
    assert (error["condition"], error["line"]) == ("DIVIDE_BY_ZERO", None)


# --- quarantine -----------------------------------------------------------------------------------


def quarantining(*checks: str) -> dict[str, Any]:
    job = dropping(*checks)
    job["expect"]["drop"][0]["quarantine"] = True
    return job


def quarantined(lake: Lake, result: TaskResult) -> list[dict[str, Any]]:
    second = done(result)["quarantine"]
    assert [f["name"] for f in second["schema"]["fields"]][-1] == "_reason"
    assert sum(f["rows"] for f in second["files"]) == second["content"][0]
    return lake.rows({**result, "files": second["files"]})


def test_quarantined_rows_are_a_second_fragment_with_their_reason(lake: Lake) -> None:
    tasks = [numbers(lake, 1, 2, 3), numbers(lake, 3), numbers(lake, 9)]
    first, second, third = lake.run(
        "transform", doubled(lake, **quarantining("y > 2", "y < 12")), tasks
    )
    assert (lake.rows(first), quarantined(lake, first)) == (
        [{"y": 4}, {"y": 6}],
        [{"y": 2, "_reason": "check 0"}],
    )
    assert (lake.rows(second), quarantined(lake, second)) == ([{"y": 6}], [])
    assert (lake.rows(third), quarantined(lake, third)) == ([], [])
    assert done(third)["metrics"]["dropped"] == {f"{1:064x}": 1}


def test_parsed_rows_are_quarantined_also_where_a_file_has_none(lake: Lake) -> None:
    one = schema_of(lake.spark, "v INT")
    objects = [lake.source("a.csv", "v\n9\n-1\n", ["v"]), lake.source("b.csv", "v\n", ["v"])]
    tasks = [{"objects": [o], "columns": one} for o in objects]
    first, second = lake.run("parse", read("csv", **quarantining("v > 0")), tasks)
    assert quarantined(lake, first) == [{"v": -1, "_reason": "check 0"}]
    assert (lake.rows(second), quarantined(lake, second)) == ([], [])
    assert done(first)["content"] != done(first)["quarantine"]["content"]


def test_rows_with_a_reason_of_their_own_cannot_be_quarantined(lake: Lake) -> None:
    job = {**query("SELECT 1 AS _reason"), **quarantining("_reason > 1")}
    assert failed(lake.run("transform", job, [{}])[0])["condition"] == "RESERVED_COLUMN"


# --- looking at rows ------------------------------------------------------------------------------


def looking(lake: Lake, ddl: str, check: str = "", **job: Any) -> dict[str, Any]:
    schema = schema_of(lake.spark, ddl)
    common = {
        "name": "mine",
        "check": check,
        "unique": [],
        "spark": SPARK,
        "schema": schema,
        "shown": schema,
    }
    return {**common, **job}


def given(lake: Lake, **columns: Any) -> dict[str, Any]:
    return {"slots": {"": lake.table(pa.table(columns))}}


def test_rows_that_fail_are_counted_by_partition_with_examples(lake: Lake) -> None:
    tasks = [
        given(lake, x=[1, -2, None, -3, -4], s=["a", "b", "c", "d", "e"]),
        given(lake, x=[5], s=["f"]),
    ]
    job = looking(
        lake, "x BIGINT", "X > 0", shown=schema_of(lake.spark, "x BIGINT, s STRING, gone INT")
    )
    first, second = lake.run("check", job, tasks)
    examples = [
        '{"x":-2,"s":"b","gone":null}',
        '{"x":-3,"s":"d","gone":null}',
        '{"x":-4,"s":"e","gone":null}',
    ]
    assert done(first)["result"] == {"rows": 5, "failing": 3, "examples": examples}
    assert done(second)["result"] == {"rows": 1, "failing": 0, "examples": []}


def test_rows_that_are_shown_are_few_and_have_a_bound(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    answer = checks._answer

    def seen_answer(rows: int, failing: int, examples: Sequence[str], most: int) -> CheckAnswer:
        collected.extend(map(len, examples))
        return answer(rows, failing, examples, most)

    monkeypatch.setattr(checks, "_answer", seen_answer)
    tasks = [
        given(lake, x=list(range(-50, 0)), s=[""] * 50),
        given(lake, x=[-1, -2, -3, -4, -5, -6], s=["long" * 1_000] * 6),
    ]
    schema = schema_of(lake.spark, "x BIGINT, s STRING")
    results = lake.run("check", looking(lake, "x BIGINT", "x > 0", shown=schema), tasks)
    many, long = (cast("CheckAnswer", done(result)["result"]) for result in results)
    assert (many["failing"], len(many["examples"])) == (50, checks.ROWS)
    assert (long["failing"], len(long["examples"])) == (6, 4)
    assert sum(map(len, long["examples"])) <= checks.MOST_OF_TASK
    assert max(collected) == checks.LONGEST + 1  # longer rows never leave Spark


def test_one_bad_partition_does_not_hide_the_others(lake: Lake) -> None:
    tasks = [given(lake, x=[1]), given(lake, x=[0]), given(lake, x=[-1])]
    good, bad, other = lake.run("check", looking(lake, "x BIGINT", "1 / x >\n 0"), tasks)
    assert [cast("CheckAnswer", done(one)["result"])["failing"] for one in (good, other)] == [0, 1]
    error = failed(bad)
    assert (error["condition"], error["file"]) == ("DIVIDE_BY_ZERO", "expect: mine")
    assert (error["line"], error["column"]) == (1, 1)


def test_rows_beyond_the_first_with_the_same_values_are_no_more_unique(lake: Lake) -> None:
    files = lake.table(
        pa.table({"k": [1, 1, 1, 2, None, None], "d": ["a", "a", "b", "a", "x", "x"]})
    )
    job = looking(lake, "k BIGINT, d STRING", unique=["K", "d"], shared={"": files})
    (result,) = lake.run("check", job, [{}])
    assert done(result)["result"] == {"rows": 6, "failing": 1, "examples": ['{"K":1,"d":"a"}']}
    job["unique"] = ["nothing"]
    error = failed(lake.run("check", job, [{}])[0])
    assert (error["condition"], error["file"]) == (
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "expect: mine",
    )


@pytest.mark.parametrize(
    "check", ["count(*) > 1", "x", "explode(array(x)) > 1", "row_number() OVER (ORDER BY x) > 1"]
)
def test_what_is_no_condition_on_a_row_is_the_user_s_error(lake: Lake, check: str) -> None:
    error = failed(lake.run("check", looking(lake, "x BIGINT", check), [given(lake, x=[1])])[0])
    assert (error["kind"], error["file"]) == ("user", "expect: mine")
