"""Own columns of files: Spark's names, or None."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from dataplane.contract.source_objects import NESTED
from dataplane.listing.file_columns import MOST_FIELDS, own_columns
from tests.avro_files import avro_file


def columns(body: bytes, kind: str, name: str = "x", **options: Any) -> list[str] | None:
    return own_columns(io.BytesIO(body), name, kind, options)


def shown(names: list[str] | None) -> list[str] | None:
    """With fields of structs as `column>field`."""
    return None if names is None else [name.replace(NESTED, ">") for name in names]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a,b\n1,2\n", {}, ["a", "b"]),
        ("a,b", {}, ["a", "b"]),
        ("a,b\r\n1,2\r\n", {}, ["a", "b"]),
        ("\n  \na,b\n", {}, ["a", "b"]),
        ("# x\na,b\n", {"comment": "#"}, ["a", "b"]),
        ("a;b\n", {"sep": ";"}, ["a", "b"]),
        ("a\tb\n", {"delimiter": "\\t"}, ["a", "b"]),
        ("a||b\n", {"SEP": "||"}, ["a", "b"]),
        ('"a,x",b\n', {}, ["a,x", "b"]),
        ("'a,x',b\n", {"quote": "'"}, ["a,x", "b"]),
        ('"a""x",b\n', {"escape": '"'}, ['a"x', "b"]),
        ('"a""x",b\n', {}, None),
        ('"a\\"x",b\n', {}, None),
        ('"a\nb",c\n', {}, None),
        ("a,,NA\n", {"nullValue": "NA"}, ["a", "_c1", "_c2"]),
        ("a,b,a\n", {}, ["a0", "b", "a2"]),
        ("a,A\n", {}, None),
        (" a , b\n", {}, [" a ", " b"]),
        (
            " a , b\n",
            {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": "true"},
            ["a", "b"],
        ),
        ("a.b,a`b,é🎉\n", {}, ["a.b", "a`b", "é🎉"]),
        ("\ufeffa,b\n", {}, ["a", "b"]),
        ("a,b\n", {"lineSep": ";"}, None),
        ("", {}, []),
        ("\n\n", {}, []),
        ("1,2,3\n", {"header": False}, ["_c0", "_c1", "_c2"]),
    ],
)
def test_csv_headers(text: str, options: dict[str, Any], expected: list[str] | None) -> None:
    assert columns(text.encode(), "csv", **{"header": True, **options}) == expected


def test_csv_encodings() -> None:
    assert columns("ä,b\n".encode("latin-1"), "csv", header=True, encoding="ISO-8859-1") == [
        "ä",
        "b",
    ]
    marked = {
        "utf-16": "UTF-16",
        "utf-16-le": "UTF-16LE",
        "utf-16-be": "UTF-16",
        "utf-32": "utf-32",
    }
    for codec, encoding in (
        *marked.items(),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32-be", "UTF-32"),
        ("utf-32-le", "UTF-32LE"),
    ):
        data = "ä,\u0a0d\n1,2\n".encode(codec)
        assert columns(data, "csv", header=True, encoding=encoding) == ["ä", "\u0a0d"]
        assert columns(
            gzip.compress(data), "csv", name="a.csv.gz", header=True, encoding=encoding
        ) == ["ä", "\u0a0d"]
    assert columns("ä,b\n".encode("latin-1"), "csv", header=True) is None
    assert columns(b"a,b\n", "csv", header=True, encoding="no-such") is None


def test_ten_thousand_columns() -> None:
    names = [f"column_{i}" for i in range(10_000)]
    assert columns(",".join(names).encode(), "csv", header="true") == names


def test_compressed_text() -> None:
    assert columns(gzip.compress(b"a,b\n1,2\n"), "csv", "x.csv.gz", header=True) == ["a", "b"]
    assert columns(bz2.compress(b'{"b":1,"a":2}\n'), "json", "x.json.bz2") == ["b", "a"]
    assert columns(gzip.compress(b"a,b\n" * 1000)[:20], "csv", "x.csv.gz", header=True) is None
    assert columns(b"not gzip", "csv", "x.csv.gz", header=True) is None
    assert columns(b"a,b\n", "csv", "x.csv.zst", header=True) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"b": 1, "a": {"x": 1}}\n\n{"c": 1, "a": 2}\n', ["b", "a", "a>x", "c"]),
        ('{"a": [{"x": null}, {"y": {"z": 1}}], "b": [[1]]}\n', ["a", "a>x", "a>y", "a>y>z", "b"]),
        ('{"a\\u001fb": 1}', None),
        ("", []),
        ('{"a": 1}\n{broken\n', None),
        ("[1, 2]\n", None),
        ("[" * 100_000, None),
    ],
)
def test_json_lines(text: str, expected: list[str] | None) -> None:
    assert shown(columns(text.encode(), "json")) == expected


def test_fields_beyond_number_are_left_out() -> None:
    body = json.dumps({"m": {f"key {i}": i for i in range(MOST_FIELDS + 1)}, "s": {"x": 1}})
    assert columns(body.encode(), "json") == ["m", "s"]


def test_json_that_is_not_lines_is_left_to_spark() -> None:
    assert columns(b'[{"a": 1}]', "json", multiLine=True) is None


def test_footers(tmp_path: Path) -> None:
    table = pa.table({"b": [1], "a.x": ["y"], "s": [{"n": 1, "l": [{"m": 1}]}]})
    pq.write_table(table, tmp_path / "x.parquet")
    pa.orc.write_table(table, tmp_path / "x.orc")
    for kind in ("parquet", "orc"):
        body = (tmp_path / f"x.{kind}").read_bytes()
        assert shown(columns(body, kind)) == ["b", "a.x", "s", "s>n", "s>l", "s>l>m"]
        assert columns(body[: len(body) // 2], kind) is None
        assert columns(b"", kind) is None
    body = avro_file(table.drop(["a.x"]))
    assert shown(columns(body, "avro")) == ["b", "s", "s>n", "s>l", "s>l>m"]
    assert columns(body[:30], "avro") is None


def test_fixed_columns() -> None:
    assert columns(b"\xff", "text") == ["value"]
    assert columns(b"", "binary") == ["content", "length"]
    assert columns(b"", "unknown") is None
