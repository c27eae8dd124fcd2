"""Rows of loads of dlt under declared columns."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from dataplane.connectors.dlt.load_files import folder_of, path_of, write_load
from tests.spark.conftest import Lake, failed, read, schema_of

DDL = "id BIGINT, price DECIMAL(6, 2), tags ARRAY<STRING>, at TIMESTAMP, raw STRING, _load BIGINT, _row BIGINT"

SETTINGS: dict[str, Any] = {"write_disposition": "append"}


def job_of(ddl: str) -> dict[str, Any]:
    settings = {**SETTINGS, "row_schema": ddl}
    return {**read("dlt"), "connector": "dlt", "settings": settings, "location": "dlt:x"}


def task(lake: Lake, number: int, rows: list[dict[str, Any]], ddl: str = DDL) -> dict[str, Any]:
    file = lake.root / "load.parquet"
    load = write_load(file, number, map(json.dumps, rows), lambda: "{}")
    path = path_of(folder_of("default/flow/set", SETTINGS), f"{number}", load.content)
    (lake.root / path).parent.mkdir(parents=True, exist_ok=True)
    file.rename(lake.root / path)
    source = {
        "name": f"{number}",
        "uri": f"dlt:{number}",
        "size": 1,
        "modified_ms": 0,
        "version": f"load:{number}:x",
        "columns": None,
        "detail": {"path": path, "load": number},
    }
    return {"columns": schema_of(lake.spark, ddl), "objects": [source]}


def test_rows_have_the_declared_columns_and_errors_concern_one_load(lake: Lake) -> None:
    full = {"id": 7, "price": "1.50", "tags": ["a", "b"], "at": "2024-01-01T01:02:03.5Z", "more": 1}
    tasks = [
        task(lake, 1, [full, {"id": None, "raw": {"a": [1]}}]),
        task(lake, 2, [{"id": 1.5}]),
        task(lake, 3, [{"id": 8, "price": 1.005}]),
        task(lake, 4, [{"id": 9}]),
    ]
    first, wrong, cut, last = lake.run("parse", job_of(DDL), tasks)
    row, none = lake.rows(first)
    assert (row["id"], row["price"], row["tags"]) == (7, Decimal("1.50"), ["a", "b"])
    assert row["at"].isoformat() == "2024-01-01T01:02:03.500000"
    assert (none["raw"], none["_load"], none["_row"]) == ('{"a":[1]}', 1, 1)
    assert failed(wrong)["kind"] == "user"
    assert "more digits than its column" in failed(cut)["message"]
    assert [r["_load"] for r in lake.rows(last)] == [4]


def test_loads_are_told_apart_by_their_files(lake: Lake) -> None:
    """Plans may have loads of their own with the number of another one."""
    tasks = [task(lake, 1, [{"id": 7}]), task(lake, 1, [{"id": 8}])]
    assert [[r["id"] for r in lake.rows(x)] for x in lake.run("parse", job_of(DDL), tasks)] == [
        [7],
        [8],
    ]


def test_a_file_of_another_source_is_refused(lake: Lake) -> None:
    """Code of users runs where listings are made, and may name any file."""
    [source] = (other := task(lake, 1, [{"id": 7}]))["objects"]
    path = source["detail"]["path"]
    job = job_of(DDL)
    job["settings"] = {**job["settings"], "resource": "other"}
    [refused] = lake.run("parse", job, [other])
    assert failed(refused)["condition"] == "load-lost"
    source["detail"]["path"] = f"default/flow/set/../../{path}"
    [refused] = lake.run("parse", job_of(DDL), [other])
    assert failed(refused)["condition"] == "load-lost"
