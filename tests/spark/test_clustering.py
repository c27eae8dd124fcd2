"""`sort_by`: rows lie in order, so that statistics tell files apart; contents are those of any
order."""

from __future__ import annotations

from itertools import pairwise

import pyarrow.parquet

from dataplane.contract.results import TaskResult
from tests.spark.conftest import Lake, done, query, read, schema_of


def in_file_order(lake: Lake, result: TaskResult, column: str) -> list[list[object]]:
    files = [pyarrow.parquet.ParquetFile(lake.root / f["path"]) for f in done(result)["files"]]
    return [file.read([column]).column(column).to_pylist() for file in files]


def test_fragments_of_one_job_are_sorted_each(lake: Lake) -> None:
    texts = {"1.csv": "k,v\n3,a\n1,b\n2,c\n", "2.csv": "k,v\n9,a\n,b\n8,c\n", "3.csv": "v\nz\ny\n"}
    wide, narrow = (schema_of(lake.spark, ddl) for ddl in ("k INT, v STRING", "v STRING"))
    tasks = [
        {
            "columns": wide if "k" in text else narrow,
            "objects": [lake.source(name, text, text.split("\n")[0].split(","))],
        }
        for name, text in texts.items()
    ]
    found = lake.run("parse", read("csv", sort_by=["k", "v"]), tasks)
    order = [in_file_order(lake, r, c) for r, c in zip(found, ("k", "k", "v"), strict=True)]
    assert order == [[[1, 2, 3]], [[None, 8, 9]], [["y", "z"]]]
    plain = lake.run("parse", read("csv"), tasks)
    assert [r["content"] for r in found] == [r["content"] for r in plain]


def test_files_of_one_fragment_hold_ranges_of_their_own(lake: Lake) -> None:
    sql = "SELECT (id * 7919) % 200000 AS k, sha2(string(id), 256) AS s FROM range(200000)"
    (result,) = lake.run("transform", query(sql, sort_by=["k"]), [{}])
    bounds = sorted(
        (f["stats"]["minValues"]["k"], f["stats"]["maxValues"]["k"]) for f in done(result)["files"]
    )
    assert len(bounds) > 1
    assert all(high < low for (_, high), (low, _) in pairwise(bounds))
    assert all(keys == sorted(keys) for keys in in_file_order(lake, result, "k"))  # type: ignore[type-var]
