"""Sheets of Excel, lines of fixed width, rows of XML: Spark reads their values, or an error names
the file. What becomes of files before Spark is in `tests/unit/listing/test_staged_rows.py`."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from tests.excel_files import CLOCK, DAY, MOMENT, sheet, workbook
from tests.spark.conftest import Lake, done, failed, read, schema_of, told_types
from tests.spark.source_places import tarred

HEADER = {"header": True}
FIXED = {"columns": "id:1-4, name:5-10, amount:11-16"}
TAG = {"rowTag": "r"}
OPTIONS: dict[str, dict[str, Any]] = {"xlsx": HEADER, "fixed": FIXED, "xml": TAG}
SCHEMA = "id INT, name STRING, amount DECIMAL(6,2)"


def book(*rows: list[Any]) -> bytes:
    return workbook({"Data": sheet([["id", "name", "amount"], *rows])})


def lines(*rows: tuple[Any, ...]) -> bytes:
    return "".join(f"{i:>4}{n:<6}{a:>6}\n" for i, n, a in rows).encode()


def xml(*rows: tuple[Any, ...]) -> bytes:
    cells = (f"<r id='{i}'><name>{n}</name><amount>{a}</amount></r>\n" for i, n, a in rows)
    return f"<?xml version='1.0'?>\n<rows>\n{''.join(cells)}</rows>".encode()


def content(format: str, *rows: tuple[Any, ...]) -> bytes:
    if format == "xlsx":
        return book(*map(list, rows))
    return lines(*rows) if format == "fixed" else xml(*rows)


def job(format: str, **more: Any) -> dict[str, Any]:
    return read(format, **{"options": OPTIONS[format], **more})


def columns_of(lake: Lake, format: str) -> Any:
    names = SCHEMA if format != "xml" else SCHEMA.replace("id", "_id", 1)
    return schema_of(lake.spark, names)


@pytest.mark.parametrize("format", list(OPTIONS))
def test_files_are_read_under_declared_types_and_only_what_does_not_fit_fails(
    lake: Lake, format: str
) -> None:
    columns = columns_of(lake, format)
    contents = {
        "good": content(format, (1, "Ann", 2.5), (2, "Bob", "")),
        "broken": b"\xff\xfe<\xff",
    }
    if format == "xlsx":  # all three are CSV by then
        contents["text"] = content(format, ("x", "Ann", 2.5))
    sources = {n: lake.source(f"{n}.{format}", data) for n, data in contents.items()}
    tasks = [{"columns": columns, "objects": [source]} for source in sources.values()]
    good, *others = lake.run("parse", job(format, metadata=["name"]), tasks)
    first = columns["fields"][0]["name"]
    assert lake.rows(good) == [
        {first: 1, "name": "Ann", "amount": Decimal("2.50"), "_source_name": f"good.{format}"},
        {first: 2, "name": "Bob", "amount": None, "_source_name": f"good.{format}"},
    ]
    for name, result in zip(list(sources)[1:], others, strict=True):
        error = failed(result)
        assert error["kind"] == "user", error
        assert f"{lake.sources}/{name}.{format}" in error["message"], error
        assert str(lake.root.parent / "scratch") not in str(error)


@pytest.mark.parametrize("format", list(OPTIONS))
def test_types_are_inferred_as_those_of_csv(lake: Lake, format: str) -> None:
    files = [
        lake.source(f"1.{format}", content(format, (1, "Ann", 2))),
        lake.source(f"2.{format}", content(format, (2, "0012", 2.5), (3000, "x", ""))),
    ]
    (result,) = lake.run("infer", job(format), [{"objects": files}])
    kinds = list(told_types(done(result)).values())
    assert kinds == ["integer", "string", "double"]


def test_cells_are_typed(lake: Lake) -> None:
    names = ["n", "big", "f", "b", "d", "t", "c", "s", "e"]
    row = [7, 2**53, 0.1, True, (45000, DAY), (45000.5, MOMENT), (0.25, CLOCK), 'a "b"\nc,', "#N/A"]
    rows: list[list[Any]] = [names, row, [None] * 9, [*[None] * 7, "last"]]
    source = lake.source("a.xlsx", workbook({"Data": sheet(rows)}))
    (result,) = lake.run("infer", job("xlsx"), [{"objects": [source]}])
    assert told_types(result) == {
        "n": "integer",
        "big": "long",
        "f": "double",
        "b": "boolean",
        "d": "date",
        "t": "timestamp",
        "c": "string",
        "s": "string",
        "e": "void",
    }
    kinds = "n INT, big BIGINT, f DOUBLE, b BOOLEAN, d DATE, t TIMESTAMP, c STRING, s STRING, e INT"
    schema = schema_of(lake.spark, kinds)
    (result,) = lake.run("parse", job("xlsx"), [{"columns": schema, "objects": [source]}])
    last, first = sorted(lake.rows(result), key=lambda r: r["s"], reverse=True)
    assert first == {
        "n": 7,
        "big": 2**53,
        "f": 0.1,
        "b": True,
        "d": date(2023, 3, 15),
        "t": datetime.fromisoformat("2023-03-15T12:00:00"),
        "c": "06:00:00",
        "s": 'a "b"\nc,',
        "e": None,
    }
    assert {k: v for k, v in last.items() if v is not None} == {"s": "last"}


def test_a_sheet_with_fewer_columns_than_the_dataset_has_nulls(lake: Lake) -> None:
    files = [
        lake.source("1.xlsx", workbook({"Data": sheet([[None, 1, 2]])})),
        lake.source("2.xlsx", workbook({"Data": sheet([[None, 3]])})),
    ]
    columns = schema_of(lake.spark, "_c0 STRING, _c1 INT, _c2 INT")
    task = {"columns": columns, "objects": files}
    (result,) = lake.run("parse", job("xlsx", options={}), [task])
    assert [list(row.values()) for row in lake.rows(result)] == [[None, 1, 2], [None, 3, None]]


def test_lines_that_are_too_short_are_malformed_records(lake: Lake) -> None:
    body = lines((1, "Ann", 2.5)) + b"   2Bob\n\n" + lines((3, "Cy", 1))
    task = {
        "columns": schema_of(lake.spark, SCHEMA),
        "objects": [lake.source("a.txt.gz", gzip.compress(body))],
    }
    (result,) = lake.run("parse", job("fixed"), [task])
    assert str(failed(result)["condition"]).startswith("MALFORMED_RECORD")
    (result,) = lake.run("parse", job("fixed", on_bad_record="drop"), [task])
    assert [row["id"] for row in lake.rows(result)] == [1, 3]
    assert result["metrics"]["dropped_rows"] == 1


def test_members_of_archives_are_read_in_these_formats(lake: Lake, tmp_path: Path) -> None:
    archive = tmp_path / "all.tar.gz"
    rows = [(1, "Ann", 2.5), (2, "Bob", 3.5)]
    archive.write_bytes(tarred({f"a.{format}": content(format, *rows) for format in OPTIONS}))
    for format, options in OPTIONS.items():
        settings = {"members": f"*.{format}"}
        whole = job(format, metadata=["name"], settings=settings)
        place: Any = {**whole, "location": str(archive), "partition": None, "listing": ""}
        (partition,) = list_files(place, Versions())["partitions"]
        columns = columns_of(lake, format)
        tasks = [{"columns": columns, "objects": partition["objects"]}]
        (result,) = lake.run("parse", {**whole, "options": options}, tasks)
        first = columns["fields"][0]["name"]
        assert [
            (row[first], row["name"], float(row["amount"])) for row in lake.rows(result)
        ] == rows
        assert lake.rows(result)[0]["_source_name"] == f"all.tar.gz/a.{format}"
