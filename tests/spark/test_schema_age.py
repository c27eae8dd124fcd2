"""Rows and files of different age under one schema: what was written or delivered with narrower
types reads as the wider ones, and a file that does not fit tells its types."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from controlplane.core.schema.widening import can_stay
from dataplane.contract.joins import grow
from tests.spark.conftest import Lake, done, failed, query, read, schema_of, told_types

# delivered, the type that the dataset has by now, what the row reads as
I32, DAY, MIDNIGHT = (
    pa.array([7], pa.int32()),
    date(2020, 1, 2),
    datetime.fromisoformat("2020-01-02"),
)
NESTED_CASE = ("STRUCT<x: INT>", "STRUCT<x: INT, y: STRING>", {"x": 1, "y": None})
COLUMNAR = [
    ("i", I32, "INT", "BIGINT", 7),
    ("t", pa.array([7], pa.int8()), "TINYINT", "INT", 7),
    ("f", pa.array([1.5], pa.float32()), "FLOAT", "DOUBLE", 1.5),
    ("s", pa.array([{"x": 1}], pa.struct([("x", pa.int32())])), *NESTED_CASE),
    ("d", I32, "INT", "DOUBLE", 7.0),
    ("n", pa.array([Decimal("1.25")], pa.decimal128(10, 2)), "DECIMAL(10,2)", "DECIMAL(12,4)", Decimal("1.2500")),
    ("m", I32, "INT", "DECIMAL(12,2)", Decimal("7.00")),
    ("z", pa.array([DAY]), "DATE", "TIMESTAMP_NTZ", MIDNIGHT),
]  # fmt: skip
TEXTS = [
    ("i", "7", "INT", "BIGINT", 7),
    ("d", "7", "BIGINT", "DOUBLE", 7.0),
    ("n", "1.25", "DECIMAL(10,2)", "DECIMAL(12,4)", Decimal("1.2500")),
    ("z", "2020-01-02", "DATE", "TIMESTAMP", MIDNIGHT),
]


def files(format: str) -> tuple[bytes, list[tuple[str, Any, str, str, Any]]]:
    """A file with one row, and what is said of its columns."""
    if format == "csv":
        lines = [",".join(c[0] for c in TEXTS), ",".join(c[1] for c in TEXTS)]
        return "".join(f"{line}\n" for line in lines).encode(), TEXTS
    if format == "json":
        values = {
            c[0]: c[1] if c[0] == "z" else float(c[1]) if "." in c[1] else int(c[1]) for c in TEXTS
        }
        return json.dumps({**values, "s": {"x": 1}}).encode(), [*TEXTS, ("s", None, *NESTED_CASE)]
    cases = COLUMNAR if format == "parquet" else COLUMNAR[:-1]
    target = BytesIO()
    table = pa.table({c[0]: c[1] for c in cases})
    (pyarrow.parquet if format == "parquet" else pyarrow.orc).write_table(table, target)
    return target.getvalue(), cases


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "orc"])
def test_files_and_fragments_of_any_age_read_as_the_type_that_holds_them(
    lake: Lake, format: str
) -> None:
    content, cases = files(format)
    names, rows = [c[0] for c in cases], {c[0]: c[4] for c in cases}
    old, new = (schema_of(lake.spark, ", ".join(f"{c[0]} {c[k]}" for c in cases)) for k in (2, 3))
    for before, after in zip(old["fields"], new["fields"], strict=True):
        grown = grow("c", before["type"], after["type"], is_text=format in ("csv", "json"))
        assert grown == (after["type"], ()), before
    source = lake.source(f"a.{format}", content, names)
    then, again = lake.run(
        "parse", read(format), [{"columns": c, "objects": [source]} for c in (old, new)]
    )
    assert lake.rows(again) == [rows]  # the file, parsed again

    stay = [c[0] for c in cases if can_stay(*(_only(s, c[0]) for s in (old, new)))]
    shared = [f["path"] for r in (then, again) for f in done(r)["files"]]
    inputs = {
        "t": {
            "view": "t",
            "mode": "all",
            "schema": {**new, "fields": [f for f in new["fields"] if f["name"] in stay]},
        }
    }
    (found,) = lake.run(
        "transform", query("SELECT * FROM t", inputs=inputs, shared={"t": shared}), [{}]
    )
    assert stay
    assert lake.rows(found) == [{n: rows[n] for n in stay}] * 2  # the old fragment, and the new one


def _only(schema: Any, name: str) -> Any:
    return {**schema, "fields": [f for f in schema["fields"] if f["name"] == name]}


def test_a_file_that_does_not_fit_tells_its_types(lake: Lake) -> None:
    parquet, orc = BytesIO(), BytesIO()
    pyarrow.parquet.write_table(pa.table({"v": [3_000_000_000]}), parquet)
    pyarrow.orc.write_table(pa.table({"v": [0.5]}), orc)
    cases = [
        ("csv", b"v\n0.5\n", "double"),
        ("json", b'{"v": "x"}\n', "string"),
        ("parquet", parquet.getvalue(), "long"),
        ("orc", orc.getvalue(), "double"),
    ]
    for format, content, kind in cases:
        task = {
            "columns": schema_of(lake.spark, "v INT"),
            "objects": [lake.source(f"a.{format}", content, ["v"])],
        }
        (result,) = lake.run("parse", read(format), [task])
        assert failed(result)
        assert list(told_types(result).values()) == [kind]
    broken = {
        "columns": schema_of(lake.spark, "v INT"),
        "objects": [lake.source("b.parquet", b"PAR1", None)],
    }
    (result,) = lake.run("parse", read("parquet"), [broken])
    assert failed(result)
    assert "result" not in result
