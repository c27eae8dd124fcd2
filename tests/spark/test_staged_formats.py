"""Sheets of Excel, lines of fixed width, rows of XML: the values of the files, or an error that
names file and place."""

from __future__ import annotations

import gzip
import io
import zipfile
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.excel_files import CLOCK, DAY, MOMENT, cell, sheet, sheet_of, workbook
from tests.spark.conftest import Lake, done, failed, read, schema_of, told_types

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
        "text": content(format, ("x", "Ann", 2.5)),
        "large": content(format, (3, "Ann", 123456)),
        "broken": b"PK\x03\x04 no archive" if format == "xlsx" else b"<\xff",
        "empty": b"",
    }
    sources = {n: lake.source(f"{n}.{format}", data) for n, data in contents.items()}
    tasks = [{"columns": columns, "objects": [source]} for source in sources.values()]
    good, *others = lake.run("parse", job(format, metadata=["name"]), tasks)
    first = columns["fields"][0]["name"]
    assert lake.rows(good) == [
        {first: 1, "name": "Ann", "amount": Decimal("2.50"), "_source_name": f"good.{format}"},
        {first: 2, "name": "Bob", "amount": None, "_source_name": f"good.{format}"},
    ]
    for (name, source), result in zip(list(sources.items())[1:], others, strict=True):
        if (format, name) == ("fixed", "empty"):
            assert lake.rows(result) == []
            continue
        error = failed(result)
        assert error["kind"] == "user", error
        assert f"{lake.sources}/{name}.{format}" in error["message"], (source, error)
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


@pytest.mark.parametrize("format", list(OPTIONS))
def test_a_file_that_changed_after_its_listing_gives_nothing(lake: Lake, format: str) -> None:
    source = lake.source(f"a.{format}", content(format, (1, "Ann", 2)))
    (lake.sources / f"a.{format}").write_bytes(content(format, (2, "Bob", 3)))
    task = {"columns": columns_of(lake, format), "objects": [source]}
    assert [r["state"] for r in lake.run("parse", job(format), [task])] == ["void"]
    assert [r["state"] for r in lake.run("infer", job(format), [task])] == ["void"]


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
    task = {"columns": schema_of(lake.spark, "e INT, s INT"), "objects": [source]}
    assert 'a "b"' in failed(lake.run("parse", job("xlsx"), [task])[0])["message"]


def test_sheet_and_range_are_chosen(lake: Lake) -> None:
    rows: list[list[Any]] = [
        ["a report"],
        [],
        [None, "id", "v", "no"],
        [None, 1, "x", 9],
        [None, 2, "y", 9],
        ["end"],
    ]
    file = workbook({"Notes": sheet([["hello"]]), "Data": sheet(rows)})
    task = {
        "columns": schema_of(lake.spark, "id INT, v STRING"),
        "objects": [lake.source("a.xlsx", file)],
    }
    chosen = {"sheet": "Data", "range": "B3:C5", "header": True}
    (result,) = lake.run("parse", job("xlsx", options=chosen), [task])
    assert lake.rows(result) == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}]
    (result,) = lake.run(
        "parse", job("xlsx", options={**chosen, "range": "B4:C5", "header": False}), [task]
    )
    assert lake.rows(result) == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}]
    (result,) = lake.run("parse", job("xlsx", options={"sheet": "Gone"}), [task])
    assert "has no sheet 'Gone', but 'Notes', 'Data'" in failed(result)["message"]


def claiming(file: bytes, size: int) -> bytes:
    """A workbook with a part more, which is so large by the directory of the archive."""
    target = io.BytesIO(file)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("xl/media/a", "a")
        archive.getinfo("xl/media/a").file_size = size
    return target.getvalue()


def hostile_books() -> dict[str, bytes]:
    entities = '<!DOCTYPE x [<!ENTITY a "1234567890"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    far = cell("A1", "id") + '</row><row r="1048576">' + cell("XFD1048576", 1)
    shared = "<row>" + '<c t="s"><v>0</v></c>' * 16_000 + "</row>"
    shared *= 10
    return {
        "far.xlsx": workbook({"Data": sheet_of(f'<row r="1">{far}</row>')}),
        "laughs.xlsx": workbook(
            {"Data": sheet_of('<row r="1"><c r="A1" t="str"><v>&b;</v></c></row>', entities)}
        ),
        "huge.xlsx": workbook({"Data": sheet_of(shared)}, "x" * 32_000),
        "bomb.xlsx": claiming(book(), 2 << 30),
    }


def test_sheets_that_would_take_too_much_are_refused(lake: Lake) -> None:
    tasks = [
        {"columns": schema_of(lake.spark, "id INT"), "objects": [lake.source(name, data)]}
        for name, data in hostile_books().items()
    ]
    far, laughs, huge, bomb = map(failed, lake.run("parse", job("xlsx"), tasks))
    assert (far["condition"], far["kind"]) == ("file-too-large", "user")
    assert huge["condition"] == "file-too-large"
    assert laughs["condition"] == "MALFORMED_FILE"
    assert bomb["message"].endswith("it takes more than 1024 MiB unpacked")


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


LAUGHS = "<!DOCTYPE r [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]><x><r><v>&b;</v></r></x>"
OUTSIDE = "<!DOCTYPE r [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x><r><v>&a;</v></r></x>"
XML = [
    (LAUGHS, "line 1: a document type"),
    (OUTSIDE, "line 1: a document type"),
    ("<x>\n<r><v>1</v><v>2</v></r></x>", "line 2: v stands more than once"),
    ("<x>\n<r>text<v>1</v></r></x>", "line 2: text stands beside elements"),
    ("<x>\n\n<r><v>1</r></x>", "line 3: mismatched tag"),
    (f"<x><r>{'<d>' * 200}{'</d>' * 200}</r></x>", "line 1: elements lie more than 100 deep"),
]


def test_xml_that_is_no_rows_of_values_is_refused(lake: Lake) -> None:
    columns = schema_of(lake.spark, "v STRING")
    tasks = [
        {"columns": columns, "objects": [lake.source(f"{i}.xml", text)]}
        for i, (text, _) in enumerate(XML)
    ]
    results = lake.run("parse", job("xml"), tasks)
    for number, ((_, message), result) in enumerate(zip(XML, results, strict=True)):
        error = failed(result)
        assert error["condition"] == "MALFORMED_FILE"
        assert error["message"].startswith(f"{lake.sources}/{number}.xml: {message}"), error


def test_elements_within_elements_are_columns(lake: Lake) -> None:
    text = "<x><r k='a'><p><n>1</n><u>kg</u></p><e/></r><r>own</r><o><r k='&lt;'/></o></x>"
    source = lake.source("a.xml", text)
    (result,) = lake.run("infer", job("xml"), [{"objects": [source]}])
    assert list(told_types(done(result))) == ["_k", "p.n", "p.u", "e", "_VALUE"]
    chosen = schema_of(lake.spark, "_k STRING, `p.n` INT, `p.u` STRING, _VALUE STRING")
    (result,) = lake.run("parse", job("xml"), [{"columns": chosen, "objects": [source]}])
    assert [list(row.values()) for row in lake.rows(result)] == [
        ["<", None, None, None],
        ["a", 1, "kg", None],
        [None, None, None, "own"],
    ]
