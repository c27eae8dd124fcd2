"""Records that do not fit the schema: quarantined with their text, their file and a reason."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.connectors.files.file_parsing import LIST_CHARACTERS
from dataplane.contract.jobs import DropRule
from dataplane.contract.results import TaskResult
from dataplane.fragments.spark.row_conditions import RECORD_CHARACTERS
from tests.spark.conftest import Lake, done, failed, read, schema_of
from tests.spark.test_expectations import SPARK
from tests.spark.test_folder_columns import listed

pytestmark = pytest.mark.usefixtures("compiled")  # as production runs

OF_RECORDS: DropRule = {
    "id": f"{7:064x}",
    "name": "bad_record",
    "check": "",
    "quarantine": True,
    "record_columns": ["_record", "_file"],
}
POSITIVE: DropRule = {"id": f"{8:064x}", "name": "positive", "check": "a > 0", "quarantine": True}
SMALL: DropRule = {"id": f"{9:064x}", "name": "small", "check": "a < 100"}


def quarantining(format: str, *others: DropRule, **job: Any) -> dict[str, Any]:
    expect = {"drop": [OF_RECORDS, *others], "spark": SPARK}
    return read(format, on_bad_record="quarantine", expect=expect, **job)


def quarantined(lake: Lake, result: TaskResult) -> list[dict[str, Any]]:
    second = done(result)["quarantine"]
    names = [field["name"] for field in second["schema"]["fields"]]
    assert names[-3:] == ["_reason", "_record", "_file"]
    rows = lake.rows({**result, "files": second["files"]})
    assert all(list(row) == names for row in rows)
    return rows


def test_bad_lines_of_csv_stand_beside_rows_that_fail_an_expectation(lake: Lake) -> None:
    text = "a,b\n1,x\nzz,y\n-5,n\n2\n500,l\n3,z\n"
    objects = [
        lake.source("bad.csv", text, ["a", "b"]),
        lake.source("fine.csv", "a,b\n4,x\n", ["a", "b"]),
    ]
    columns = schema_of(lake.spark, "a INT, b STRING")
    tasks = [{"columns": columns, "objects": [source]} for source in objects]
    bad, fine = lake.run("parse", quarantining("csv", POSITIVE, SMALL), tasks)
    assert lake.rows(bad) == [{"a": 1, "b": "x"}, {"a": 3, "b": "z"}]
    place = {"_reason": "bad_record", "_file": "bad.csv"}
    assert quarantined(lake, bad) == [
        {"a": -5, "b": "n", "_reason": "positive", "_record": None, "_file": None},
        {"a": 2, "b": None, **place, "_record": "2"},
        {"a": None, "b": "y", **place, "_record": "zz,y"},
    ]
    counts = {OF_RECORDS["id"]: 2, POSITIVE["id"]: 1, SMALL["id"]: 1}
    assert done(bad)["metrics"] == {"dropped": counts, "dropped_rows": 4}
    assert (lake.rows(fine), quarantined(lake, fine)) == ([{"a": 4, "b": "x"}], [])
    assert not done(fine).get("metrics")


def test_the_texts_of_bad_lines_of_json_are_bounded(lake: Lake) -> None:
    long = '{"a": "' + "\N{GRINNING FACE}" * RECORD_CHARACTERS + '"}'
    lines = [b'{"a": 1}', b'{"a": "one"}', b"no JSON", long.encode()]
    source = lake.source("bad.json", b"\n".join(lines))
    task = {"columns": schema_of(lake.spark, "a INT"), "objects": [source]}
    (result,) = lake.run("parse", quarantining("json"), [task])
    assert lake.rows(result) == [{"a": 1}]
    assert [row["_record"] for row in quarantined(lake, result)] == [
        "no JSON",
        '{"a": "one"}',
        long[:RECORD_CHARACTERS],
    ]


def test_elements_of_a_bad_list_have_the_start_of_its_text(lake: Lake) -> None:
    """Spark gives the whole list with each element. So its size would be squared."""
    numbers = ", ".join(f'{{"a": {number}}}' for number in range(200))
    bad = f'[{numbers}, {{"a": "x"}}]'
    source = lake.source("list.json", f'{bad}\n{{"a": 5}}\n')
    task = {"columns": schema_of(lake.spark, "a INT"), "objects": [source]}
    (result,) = lake.run("parse", quarantining("json"), [task])
    assert lake.rows(result) == [{"a": 5}]
    rows = quarantined(lake, result)
    assert {row["a"] for row in rows} == {None, *range(200)}
    assert {row["_record"] for row in rows} == {bad[:LIST_CHARACTERS]}


def test_a_file_may_have_a_column_with_the_name_of_metadata(lake: Lake) -> None:
    source = lake.source("a.csv", "a,_source_name\n1,x\nzz,y\n", ["a", "_source_name"])
    task = {"columns": schema_of(lake.spark, "a INT, _source_name STRING"), "objects": [source]}
    (result,) = lake.run("parse", quarantining("csv"), [task])
    assert lake.rows(result) == [{"a": 1, "_source_name": "x"}]
    [row] = quarantined(lake, result)
    assert (row["_source_name"], row["_file"]) == ("y", "a.csv")


def test_values_stand_for_a_record_that_is_bad_by_a_number_or_a_folder(lake: Lake) -> None:
    """Spark itself takes these records."""
    objects = listed(lake, "csv", {"n=1/a": "id\n1\n02134\n", "n=x/b": "id\n3\n"})
    columns = schema_of(lake.spark, "id INT, n INT")
    task = {"columns": columns, "objects": objects, "inferred": ["id"]}
    (result,) = lake.run("parse", quarantining("csv"), [task])
    assert lake.rows(result) == [{"id": 1, "n": 1}]
    rows = quarantined(lake, result)
    shown = [(row["id"], row["n"], row["_record"], row["_file"]) for row in rows]
    assert sorted(shown, key=repr) == [
        (3, None, '{"id":"3"}', objects[1]["name"]),
        (None, 1, '{"id":"02134"}', objects[0]["name"]),
    ]


def test_a_file_that_is_rewritten_as_csv_keeps_its_own_name(lake: Lake) -> None:
    source = lake.source("a.txt", "001Ann\nxxxBob\n")
    task = {"columns": schema_of(lake.spark, "id INT, name STRING"), "objects": [source]}
    job = quarantining("fixed", options={"columns": "id:1-3, name:4-6"})
    (result,) = lake.run("parse", job, [task])
    [row] = quarantined(lake, result)
    assert (row["name"], row["_file"]) == ("Bob", "a.txt")


def test_a_file_without_columns_has_an_empty_quarantine(lake: Lake) -> None:
    task = {"columns": schema_of(lake.spark, "a INT"), "objects": []}
    (result,) = lake.run("parse", quarantining("csv"), [task])
    assert (lake.rows(result), quarantined(lake, result)) == ([], [])


def test_a_column_may_not_have_the_name_of_the_text(lake: Lake) -> None:
    source = lake.source("a.csv", "_record\n1\n", ["_record"])
    task = {"columns": schema_of(lake.spark, "_record INT"), "objects": [source]}
    (result,) = lake.run("parse", quarantining("csv"), [task])
    assert failed(result)["condition"] == "RESERVED_COLUMN"


@pytest.mark.parametrize("name", ["__headgate_record", "__Headgate_file"])
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_column_may_not_have_a_name_of_the_reader(
    lake: Lake, name: str, is_declared: bool
) -> None:
    """It would be overwritten; also where the dataset leaves the file's column out."""
    sources = [
        lake.source("a.csv", f"a,{name}\n1,2\n", ["a", name]),
        lake.source("b.csv", "a\n1\n", ["a"]),
    ]
    columns = schema_of(lake.spark, f"a INT, `{name}` INT" if is_declared else "a INT")
    tasks = [{"columns": columns, "objects": [source]} for source in sources]
    reserved, sound = lake.run("parse", quarantining("csv"), tasks)
    error = failed(reserved)
    assert error["condition"] == "RESERVED_COLUMN"
    assert "a.csv has the column" in error["message"]
    assert (sound["state"] == "done") != is_declared
