"""Rows of loads of dlt under declared columns."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from dataplane.connectors.dlt.load_files import write_load
from tests.spark.conftest import Lake, failed, read, schema_of

DDL = "id BIGINT, price DECIMAL(6, 2), tags ARRAY<STRING>, at TIMESTAMP, raw STRING, _load BIGINT, _row BIGINT"


def job_of(ddl: str) -> dict[str, Any]:
    settings = {"row_schema": ddl, "write_disposition": "append"}
    return {**read("dlt"), "connector": "dlt", "settings": settings, "location": "dlt:x"}


def task(lake: Lake, number: int, rows: list[dict[str, Any]], ddl: str = DDL) -> dict[str, Any]:
    path = f"load-{number}.parquet"
    write_load(lake.root / path, number, map(json.dumps, rows), lambda: "{}")
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
