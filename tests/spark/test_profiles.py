"""Profiles of fragments as Spark writes them: by footers, by the pass over the rows, and by tables
in memory."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from controlplane.core import profile_figures
from dataplane.contract.profiles import WHOLE, Profile, merged, unpacked
from dataplane.contract.results import TaskResult
from dataplane.spark.job_counts import counts
from tests.spark.conftest import Lake, done, query

HOSTILE = "<script>\\u0000\\'\\\"\\u202E"
TYPED = f"""
SELECT CAST(v AS INT) AS i, CAST(v AS BIGINT) * 4000000000 AS l, CAST(v AS DECIMAL(12,2)) / 4 AS d,
  IF(v = 3, CAST('NaN' AS DOUBLE), v / 2D) AS f, CAST(v / 10 AS FLOAT) AS g, v > 2 AS b,
  IF(v = 1, NULL, concat('x', v, '{HOSTILE}')) AS s, repeat('é', 70 + v) AS long, CAST(repeat('b', v) AS BINARY) AS bin,
  DATE'2020-02-29' + CAST(v AS INT) AS day, TIMESTAMP'2020-01-01 00:00:00.000001' + make_interval(0,0,0,0,v) AS at,
  TIMESTAMP_NTZ'1960-01-01 00:00:00' AS ntz, CAST(NULL AS STRING) AS nothing, 1 AS `odd ``name`
FROM VALUES (1), (2), (3), (4) AS t(v)
"""
NESTED = f"SELECT *, array(i, NULL) AS list, IF(i = 2, NULL, struct(i AS a)) AS st, map('k', i) AS m FROM ({TYPED})"


def profile_of(result: TaskResult) -> Profile:
    body = base64.b64decode(done(result)["profile"])
    rows = result["content"][0]
    found = unpacked(body, rows)
    assert "unprofiled" not in found
    return found


def run(lake: Lake, sql: str, **job: Any) -> TaskResult:
    [result] = lake.run("transform", query(sql, **job), [{"slots": {}}])
    return result


@pytest.mark.parametrize("sql", [TYPED, NESTED], ids=["in memory", "by Spark"])
def test_each_type_is_told_as_it_is(lake: Lake, sql: str) -> None:
    result = run(lake, sql)
    found = profile_of(result)
    assert (found["sample"]["below"], found["sample"]["of"]) == (WHOLE, 4)
    columns = {
        f["name"]: profile_figures.column(found, f, with_values=True)
        for f in result["schema"]["fields"]
    }
    ends = {
        name: (c["values"]["min"], c["values"]["max"], c["values"]["bounds"])
        for name, c in columns.items()
    }
    assert ends["i"] == (1, 4, "exact")
    assert ends["l"] == (4_000_000_000, 16_000_000_000, "exact")
    assert ends["d"][2] == "exact"
    assert [float(str(one)) for one in ends["d"][:2]] == [0.25, 1.0]
    assert ends["f"] == (0.5, 2.0, "exact")
    assert columns["f"]["values"]["nan"] == 0.25
    assert [round(float(str(one)), 6) for one in ends["g"][:2]] == [0.1, 0.4]
    assert sorted(found["sample"]["values"]["g"], key=str) == [0.1, 0.2, 0.3, 0.4]
    assert ends["b"] == (False, True, "exact")
    assert ends["s"][0] == "x2<script>\0'\"\u202e"
    assert (columns["s"]["nulls"], columns["s"]["distinct"], columns["s"]["nulls_basis"]) == (
        1,
        3,
        "exact",
    )
    assert columns["long"]["values"]["lengths"] == {"min": 71, "mean": 72.5, "max": 74}
    assert str(columns["long"]["values"]["top"][0]["value"]) == "é" * 64 + "…"
    assert columns["bin"]["values"]["lengths"] == {"min": 1, "mean": 2.5, "max": 4}
    assert ends["day"] == ("2020-03-01", "2020-03-04", "exact")
    assert ends["at"] == ("2020-01-01 01:00:00.000001", "2020-01-01 04:00:00.000001", "exact")
    assert ends["ntz"] == ("1960-01-01 00:00:00", "1960-01-01 00:00:00", "exact")
    assert (columns["nothing"]["nulls"], columns["nothing"]["distinct"], ends["nothing"][:2]) == (
        4,
        0,
        (None, None),
    )
    assert ends["odd `name"] == (1, 1, "exact")
    if sql == NESTED:
        assert columns["list"]["values"]["lengths"] == {"min": 2, "mean": 2.0, "max": 2}
        assert (columns["st"]["nulls"], columns["m"]["nulls"]) == (1, 0)


@pytest.mark.parametrize("more", ["", ", array(id) AS a"], ids=["by Arrow", "by Spark"])
def test_the_sample_of_many_rows_is_fair_and_takes_no_further_job(lake: Lake, more: str) -> None:
    sql = f"SELECT id, IF(id % 4 = 0, NULL, id % 10) AS k {more} FROM range(0, 300000, 1, 3)"
    jobs = {}
    for mode in ("off", "full"):
        claim = lake.claim("transform", query(sql, profile=mode), [{"slots": {}}])
        [result] = lake.executor.run(claim)
        jobs[mode] = counts(lake.spark, claim["attempt"])["spark_jobs"]
        if mode == "off":
            assert "profile" not in result
    assert jobs["full"] == jobs["off"]
    found = profile_of(result)
    sample = found["sample"]
    assert sample["of"] == 300_000
    assert 10_000 <= len(sample["marks"]) <= 10_240
    assert max(sample["marks"]) < sample["below"] < WHOLE
    ids = [int(str(one)) for one in sample["values"]["id"]]
    assert len(set(ids)) == len(ids)
    assert abs(sum(ids) / len(ids) - 150_000) < 4_500  # over five standard errors
    assert abs(sum(one is None for one in sample["values"]["k"]) / len(ids) - 0.25) < 0.03
    columns = {
        f["name"]: profile_figures.column(found, f, with_values=False)
        for f in result["schema"]["fields"]
    }
    assert (columns["k"]["distinct"], columns["k"]["distinct_basis"]) == (10, "exact")
    assert columns["id"]["distinct_basis"] == "estimated"
    assert abs((columns["id"]["distinct"] or 0) - 300_000) < 6_000
    assert (found["columns"]["k"]["nulls"], found["columns"]["id"]["bounds"]) == (
        75_000,
        [0, 299_999],
    )


def test_equal_rows_are_drawn_evenly_and_a_second_pass_compiles_nothing(lake: Lake) -> None:
    """Code that Spark has not seen costs as much as hashing 200,000 rows."""
    sql = "SELECT 7 AS id, array(7) AS a FROM range(0, 20000, 1, 1)"
    tasks: list[dict[str, Any]] = [{"slots": {}}, {"slots": {}}]
    jvm: Any = lake.spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    lake.run("transform", query(sql), tasks)
    before = compiled.getCount()
    drawn = [profile_of(one)["sample"] for one in lake.run("transform", query(sql), tasks)]
    assert compiled.getCount() == before
    # A sixteenth of 40,000 rows, half each
    assert all(1_050 <= len(sample["marks"]) <= 1_450 for sample in drawn)


@pytest.mark.parametrize("more", ["", ", array(1) AS a"], ids=["in memory", "by Spark"])
def test_bytes_that_are_no_text_and_far_years_fail_nothing(lake: Lake, more: str) -> None:
    sql = f"SELECT CAST(X'FF41' AS STRING) AS s, DATE'+12000-01-01' AS day, 9e300D AS big {more}"
    result = run(lake, sql)
    found = profile_of(result)
    assert (result["content"][0], found["rows"], found["columns"]["s"]["nulls"]) == (1, 1, 0)
    for field in result["schema"]["fields"]:
        profile_figures.column(found, field, with_values=True)


def test_basic_has_no_sample(lake: Lake) -> None:
    found = profile_of(run(lake, TYPED, profile="basic"))
    assert found["sample"]["of"] == 0
    assert found["columns"]["i"]["bounds"] == [1, 4]


def test_one_file_and_several_files_come_to_the_same_counts(lake: Lake) -> None:
    parts = [
        profile_of(run(lake, f"SELECT * FROM ({TYPED}) WHERE i {which}"))
        for which in ("< 3", ">= 3")
    ]
    whole, both = profile_of(run(lake, TYPED)), merged(parts)
    # Beside NaN, footers tell no extremes: which file has it does not matter
    for one in (both, whole):
        del one["columns"]["f"]
    assert both["columns"] == whole["columns"]
    assert sorted(map(str, both["sample"]["values"]["s"])) == sorted(
        map(str, whole["sample"]["values"]["s"])
    )


def test_sketches_of_many_values_are_the_same(lake: Lake) -> None:
    """Texts are longer than a table of them may be wide."""
    sql = """SELECT id, id * 1.5D AS d, concat(id, 'é') AS s, repeat(id, 1 + 200 * INT(id % 999 = 0)) AS t,
      CAST(id AS DECIMAL(12,2)) / 4 AS c, IF(id % 3 = 0, NULL, timestamp_micros(id)) AS at"""
    files = "FROM range(0, 120000, 1, 2)"
    by_arrow = profile_of(run(lake, f"{sql} {files}"))["columns"]
    by_spark = profile_of(run(lake, f"{sql}, array(1) AS list {files}"))["columns"]
    assert all(by_arrow[name]["distinct"][0] == "b" for name in by_arrow)
    assert {name: by_spark[name]["distinct"] for name in by_arrow} == {
        name: column["distinct"] for name, column in by_arrow.items()
    }


def test_sketches_of_both_ways_are_the_same(lake: Lake) -> None:
    """A partition that Spark measured merges with one that was measured in memory."""
    plain = profile_of(run(lake, TYPED))["columns"]
    by_spark = profile_of(run(lake, f"SELECT *, array(1) AS list FROM ({TYPED})"))["columns"]
    sketches = {name: one["distinct"] for name, one in plain.items() if "distinct" in one}
    assert len(sketches) == len(plain) - 1, "all but the binary one"
    assert {name: by_spark[name]["distinct"] for name in sketches} == sketches
