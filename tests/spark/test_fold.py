"""Tasks that read the partition before: its rows under the declared columns, and no other columns
come out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dataplane.contract.identity import Content, slot_id
from dataplane.contract.results import TaskResult
from tests.spark.conftest import Lake, done, failed, query, schema_of, told_schema

DDL = "v BIGINT"
SUM = "SELECT sum(v) AS v FROM (SELECT v FROM self UNION ALL SELECT v FROM x)"
PYTHON = """
def transform(self, x):
    return self.unionByName(x).groupBy().sum("v").toDF("v")
"""


def job(lake: Lake, sql: str = SUM, **more: Any) -> dict[str, Any]:
    kinds = {"self": "previous", "x": "each"}
    inputs = {
        n: {"view": n, "mode": mode, "schema": schema_of(lake.spark, DDL)}
        for n, mode in kinds.items()
    }
    return {**query(sql), "inputs": inputs, "returns": schema_of(lake.spark, DDL), **more}


def python(text: str) -> dict[str, Any]:
    return {
        "language": "python",
        "modules": {"m.py": text},
        "main": "m.py",
        "entrypoint": "transform",
    }


def run(lake: Lake, job: dict[str, Any]) -> list[TaskResult]:
    """The first partition, and one after a partition that holds 5."""
    x, before = (lake.table(pa.table({"v": pa.array([v], pa.int64())})) for v in (2, 5))
    return lake.run("transform", job, [{"slots": {"self": own, "x": x}} for own in ([], before)])


def test_the_first_partition_reads_no_rows_of_the_declared_columns(lake: Lake) -> None:
    for more in ({}, python(PYTHON)):
        first, second = run(lake, job(lake, **more))
        assert (lake.rows(first), lake.rows(second)) == ([{"v": 2}], [{"v": 7}])


def test_other_columns_are_an_error_that_names_both(lake: Lake) -> None:
    wrong = PYTHON.replace('toDF("v")', 'toDF("w")')
    for more in ({"sql": SUM.replace("AS v", "AS w")}, python(wrong)):
        for result in run(lake, job(lake, **more)):
            error = failed(result)
            assert (error["condition"], error["kind"]) == ("SCHEMA_DIFFERS", "user")
            assert "w BIGINT; `schema` says v BIGINT" in error["message"]


def test_they_are_found_before_any_task_runs(lake: Lake) -> None:
    [right] = lake.run("analyse", job(lake), [{}])
    assert told_schema(done(right)) == schema_of(lake.spark, DDL)
    for more in (
        {"sql": "SELECT CAST(1 AS INT) AS v FROM self, x"},
        python("def transform(self, x): return x.toDF('w')"),
    ):
        [wrong] = lake.run("analyse", job(lake, **more), [{}])
        assert failed(wrong)["condition"] == "SCHEMA_DIFFERS"


def chain(lake: Lake, *was: list[int] | None, sql: str = SUM, **more: Any) -> TaskResult:
    """A task that reads 1, and those after it, which read 2, 4, ..."""
    files = [lake.table(pa.table({"v": pa.array([2**n], pa.int64())})) for n in range(len(was))]
    fold = {"name": "self", "logic": bytes(32).hex(), "shared": {}}
    ids = [slot_id(Content(1, n, n), schema_of(lake.spark, DDL)).hex() for n in range(len(was))]
    steps = [
        {"partition": str(n), "slots": {"x": x}, "ids": {"x": id}, "was": known}
        for n, (x, id, known) in enumerate(zip(files, ids, was, strict=True))
    ]
    head = {**steps[0], "slots": {"x": files[0], "self": []}, "then": steps[1:]}
    [found] = lake.run("transform", {**job(lake, sql), "fold": fold, **more}, [head])
    return found


def values(lake: Lake, result: TaskResult) -> list[list[dict[str, Any]]]:
    return [lake.rows({**result, **one}) for one in (result, *result.get("then", ()))]


def test_a_run_goes_on_to_the_tasks_after_it_each_on_what_was_written_before(lake: Lake) -> None:
    for more in ({}, python(PYTHON)):
        found = done(chain(lake, None, None, None, **more))
        assert values(lake, found) == [[{"v": 1}], [{"v": 3}], [{"v": 7}]]
        assert [one["partition"] for one in found["then"]] == ["1", "2"]
        assert len({found["task"], *(one["task"] for one in found["then"])}) == 3


def test_a_run_ends_where_something_came_out_as_it_was(lake: Lake) -> None:
    whole = done(chain(lake, None, None, None))
    second = whole["then"][0]["content"]
    assert len(done(chain(lake, [0, 0, 0], second, None))["then"]) == 1
    assert "then" not in done(chain(lake, whole["content"], None, None))


def test_what_fails_in_a_run_is_left_to_be_asked_for(lake: Lake) -> None:
    sql = SUM.replace(
        "sum(v)", "CAST(CASE WHEN sum(v) < 5 THEN sum(v) ELSE raise_error('five') END AS BIGINT)"
    )
    found = done(chain(lake, None, None, None, None, sql=sql))
    assert values(lake, found) == [[{"v": 1}], [{"v": 3}]]
    assert failed(run(lake, job(lake, sql))[1])["message"].count("five")


def test_no_rows_are_rows_of_the_partition_before(lake: Lake) -> None:
    found = done(chain(lake, None, None, None, sql="SELECT v FROM self WHERE false"))
    assert values(lake, found) == [[], [], []]
    assert found["then"][0]["task"] != found["then"][1]["task"]
