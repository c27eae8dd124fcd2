"""Sources become fragments: every name, every format, and nothing wrong passes for data."""

from __future__ import annotations

import bz2
import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from dataplane.contract.identity import Content
from dataplane.fragments.spark.writing import OPEN_COLUMNS
from dataplane.storage.job_folders import fragment_folder
from tests.avro_files import avro_file
from tests.spark.conftest import Lake, done, failed, label, read, schema_of, told_types

HOSTILE = [
    "plain.csv",
    "with space.csv",
    "100%.csv",
    "%41.csv",
    "a+b.csv",
    "a#b?c.csv",
    "ünï-日本🎉.csv",
    "glob[a]*{b,c}.csv",
    "_hidden.csv",
    ".dot.csv",
    "a:b.csv",
    "_fragment=zz/k=v.csv",
    "quote'\"`.csv",
    "new\nline.csv",
    "back\\slash.csv",
    "no-suffix",
    f"{'x' * 200}.csv",
]


def parquet(**columns: list) -> bytes:
    target = BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def orc(**columns: list) -> bytes:
    target = BytesIO()
    pyarrow.orc.write_table(pa.table(columns), target)
    return target.getvalue()


def avro(**columns: list) -> bytes:
    return avro_file(pa.table(columns))


def naive(time: datetime) -> datetime:
    """As Spark hands timestamps to Python, whose zone the tests' environment sets to UTC."""
    return time.astimezone().replace(tzinfo=None)


def test_one_job_reads_files_of_every_name(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT, b STRING")
    tasks: list[dict] = [
        {"columns": columns, "objects": [lake.source(name, f"a,b\n{i},{i}\n", ["a", "b"])]}
        for i, name in enumerate(HOSTILE)
    ]
    claim = lake.claim("parse", read("csv", metadata=["name", "modified"]), tasks)
    results = lake.executor.run(claim)
    for i, (name, result) in enumerate(zip(HOSTILE, results, strict=True)):
        (row,) = lake.rows(result)
        modified = naive(datetime.fromtimestamp(tasks[i]["objects"][0]["modified_ms"] / 1000, UTC))
        assert row == {"a": i, "b": str(i), "_source_name": name, "_source_modified": modified}
        assert [f["name"] for f in result["schema"]["fields"]] == [
            "a",
            "b",
            "_source_name",
            "_source_modified",
        ]
    left = sorted(
        p.name for p in (lake.root / claim["prefix"]).rglob("*") if not p.name.endswith(".parquet")
    )
    assert left == sorted(fragment_folder("", label(i))[1:] for i in range(len(tasks)))


def test_rows_of_many_files_are_not_sorted(lake: Lake) -> None:
    """Wide files are: a task has one open file of `OPEN_COLUMNS` columns, and none of more. The
    rows of its other files are sorted while it writes."""
    for columns, is_sorted in {2: False, OPEN_COLUMNS: False, OPEN_COLUMNS + 1: True}.items():
        names = [f"c{i}" for i in range(columns)]
        schema = schema_of(lake.spark, ", ".join(f"{name} INT" for name in names))
        texts = [f"{','.join(names)}\n{','.join([str(i)] * columns)}\n" for i in range(5)]
        tasks = [
            {"columns": schema, "objects": [lake.source(f"{columns}/{i}.csv", text, names)]}
            for i, text in enumerate(texts)
        ]
        results = lake.run("parse", read("csv"), tasks)
        rows = [lake.rows(result)[0] for result in results]
        assert [list(row.values()) for row in rows] == [[i] * columns for i in range(5)]
        writes = [plan for plan in plans(lake.spark) if "InsertIntoHadoopFsRelation" in plan]
        assert ("- Sort (" in writes[-1]) is is_sorted


def plans(spark: SparkSession) -> list[str]:
    """Of the newest queries."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [executions.apply(i).physicalPlanDescription() for i in range(executions.size())]


def test_files_say_what_they_hold(lake: Lake) -> None:
    types = "i INT, s STRING, d DATE, t TIMESTAMP, n DECIMAL(10,2), f DOUBLE, b BOOLEAN"
    text = "i,s,d,t,n,f,b\n1,x,2020-01-02,2020-01-02T03:04:05.678901Z,1.50,NaN,true\n,y,1999-12-31,,-2.25,1.0,false\n"
    task = {
        "columns": schema_of(lake.spark, types),
        "objects": [lake.source("a.csv", text, list("isdtnfb"))],
    }
    (result,) = lake.run("parse", read("csv"), [task])
    (entry,) = done(result)["files"]
    assert (lake.root / entry["path"]).stat().st_size == entry["size"]
    assert entry["rows"] == result["content"][0] == 2
    assert entry["stats"] == {
        "numRecords": 2,
        "nullCount": {"i": 1, "s": 0, "d": 0, "t": 1, "n": 0, "f": 0, "b": 0},
        "minValues": {
            "i": 1,
            "s": "x",
            "d": "1999-12-31",
            "t": "2020-01-02T03:04:05.678Z",
            "n": -2.25,
            "b": False,
        },
        "maxValues": {
            "i": 1,
            "s": "y",
            "d": "2020-01-02",
            "t": "2020-01-02T03:04:05.679Z",
            "n": 1.5,
            "b": True,
        },
    }


def test_csv_with_a_header_is_matched_by_name(lake: Lake) -> None:
    tasks = [
        {
            "columns": schema_of(lake.spark, "a INT, b STRING"),
            "objects": [lake.source("1.csv", "b,a\nx,1\n", ["b", "a"])],
        },
        {
            "columns": schema_of(lake.spark, "a INT"),
            "objects": [lake.source("2.csv", "a\n2\n", ["a"])],
        },
        {
            "columns": schema_of(lake.spark, "a INT, b STRING, c INT"),
            "objects": [
                lake.source("3.csv", "z,a,b\nq,3,y\n", ["z", "a", "b"]),
                lake.source("4.csv", "c,a\n5,4\n", None),
            ],
        },
    ]
    found = [lake.rows(r) for r in lake.run("parse", read("csv"), tasks)]
    assert found[:2] == [[{"a": 1, "b": "x"}], [{"a": 2}]]
    assert found[2] == [{"a": 3, "b": "y", "c": None}, {"a": 4, "b": None, "c": 5}]


def test_csv_without_a_header_is_matched_by_place(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT, b STRING")
    tasks = [{"columns": columns, "objects": [lake.source("1.csv", "1;x\n2;y\n", ["_c0", "_c1"])]}]
    (result,) = lake.run("parse", read("csv", options={"sep": ";"}), tasks)
    assert lake.rows(result) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


BAD = [
    ("csv", "ragged.csv", b"a,b\n1,x\n2\n", "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
    ("csv", "long.csv", b"a,b\n1,x,3\n", "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
    ("csv", "type.csv", b"a,b\nzz,x\n", "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
    (
        "csv",
        "overflow.csv",
        b"a,b\n3000000000,x\n",
        "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
    ),
    ("csv", "latin1.csv", "a,b\n1,\u00e9\n".encode("latin-1"), "MALFORMED_CHARACTER_CODING"),
    (
        "json",
        "type.json",
        b'{"a": "zz", "b": "x"}\n',
        "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
    ),
    ("json", "open.json", b'{"a": 1, "b": "x"\n', "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
    ("json", "beside.json", b'{"a": 1, "b": "}{"}{"a": 2, "b": "y"}\n', "several-values"),
    (
        "json",
        "list.json",
        b'{"a": 0, "b": "x"}\n[{"a": 1, "b": "x"}, {"a": 2, "b": "x"}] {"a": 3, "b": "x"}',
        "several-values",
    ),
    (
        "json",
        "float.json",
        b'{"a": 1.5, "b": "x"}\n',
        "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
    ),
    ("parquet", "cut.parquet", parquet(a=[1], b=["x"])[:-20], "MALFORMED_FILE"),
    ("parquet", "type.parquet", parquet(a=["1"], b=["x"]), "schema-retyped"),
    ("orc", "type.orc", orc(a=["1"], b=["x"]), "schema-retyped"),
    ("orc", "cut.orc", orc(a=["1"], b=["x"])[:-20], "MALFORMED_FILE"),
    ("avro", "cut.avro", avro(a=["1"], b=["x"])[:30], "MALFORMED_FILE"),
    (
        "avro",
        "torn.avro",
        avro(a=pa.array([1], pa.int32()), b=["x"])[:-3],
        "FAILED_READ_FILE.NO_HINT",
    ),
    ("avro", "type.avro", avro(a=["1"], b=["x"]), "schema-retyped"),
]
GOOD = {
    "csv": b"a,b\n7,good\n",
    "json": b'{"a": 7, "b": "good"}\n',
    "parquet": parquet(a=pa.array([7], pa.int32()), b=["good"]),
    "orc": orc(a=pa.array([7], pa.int32()), b=["good"]),
    "avro": avro(a=pa.array([7], pa.int32()), b=["good"]),
}


@pytest.mark.parametrize("format", list(GOOD))
def test_only_what_is_broken_fails(lake: Lake, format: str) -> None:
    columns = schema_of(lake.spark, "a INT, b STRING")
    bad = [case[1:] for case in BAD if case[0] == format]
    files = [(f"{i}.{format}", GOOD[format]) for i in range(3)] + [
        (name, content) for name, content, _ in bad
    ]
    tasks = [
        {"columns": columns, "objects": [lake.source(name, content, ["a", "b"])]}
        for name, content in files
    ]
    results = lake.run("parse", read(format), tasks)
    assert [lake.rows(r) for r in results[:3]] == [[{"a": 7, "b": "good"}]] * 3
    for (name, _, condition), result in zip(bad, results[3:], strict=True):
        error = failed(result)
        assert (error["kind"], error["condition"]) == ("user", condition)
        assert error["message"].startswith(str(lake.sources / name))


def test_json_values_that_spark_would_pass_over_are_errors(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a STRING")

    def parsed(text: str | bytes, name: str = "x.json", **options: Any) -> Any:
        task = {"columns": columns, "objects": [lake.source(name, text)]}
        (result,) = lake.run("parse", read("json", options=options, on_bad_record="drop"), [task])
        return (
            sorted(row["a"] for row in lake.rows(result))
            if result["state"] == "done"
            else failed(result)
        )

    fine = '{"a": "}{"}\r\n{"a": "\\"} {"}\r[{"a": "]["}, {"a": "b"}]\n'
    assert parsed(fine) == ['"} {', "][", "b", "}{"]
    assert parsed("{'a': '\"}'} ") == ['"}']
    assert parsed(gzip.compress(b'{"a": "1"}\n{"a": "2"}\t{"a": "3"}'), "x.json.gz")["line"] == 2
    first = '{"a": "' + "x" * ((1 << 20) - 9) + '"}'
    assert len(first) == 1 << 20, (
        "the second value begins with the second piece of the file that is looked at"
    )
    assert parsed(first + '{"a": "2"}')["condition"] == "several-values"
    assert parsed('{"a": "1"}|{"a": "2"}{"a": "3"}', lineSep="|")["line"] == 2
    assert parsed('{\n"a": "}\\n{"\n}\n', multiLine=True) == ["}\n{"]
    assert "multiLine" in parsed('{\n"a": "1"\n}\n\n{\n"a": "2"\n}', multiLine=True)["message"]


def test_times_of_day_are_no_times_of_today(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT, t TIMESTAMP")
    texts = {
        "fine": "1,2020-01-01 12:00\n",
        "today": f"1,{datetime.now(UTC):%Y-%m-%dT12:00}\n",
        "bad": "1,2020-01-01\n2,12:00\n",
    }
    tasks = [
        {"columns": columns, "objects": [lake.source(f"{name}.csv", f"a,t\n{text}", ["a", "t"])]}
        for name, text in texts.items()
    ]
    fine, today, bad = lake.run("parse", read("csv", on_bad_record="drop"), tasks)
    assert [len(lake.rows(r)) for r in (fine, today)] == [1, 1]
    assert failed(bad)["condition"] == "time-of-day"
    assert "bad.csv: column t has '12:00', a time without a day" in failed(bad)["message"]
    assert failed(bad)["kind"] == "user"
    [given] = lake.run(
        "parse", read("csv", options={"header": True, "timestampFormat": "H:mm"}), [tasks[2]]
    )
    assert given["state"] == "failed", "a format that the other value does not have"
    source = lake.source("x.json", '{"a": 1, "t": "T1:2"}\n{"a": 2, "t": 7}\n')
    [bad] = lake.run("parse", read("json"), [{"columns": columns, "objects": [source]}])
    assert "'T1:2'" in failed(bad)["message"]


def test_the_message_names_the_value(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT, b STRING")
    (result,) = lake.run(
        "parse",
        read("csv"),
        [{"columns": columns, "objects": [lake.source("x.csv", "a,b\nzz,x\n", ["a", "b"])]}],
    )
    assert 'For input string: "zz"' in failed(result)["message"]


def test_bad_records_can_be_dropped_and_are_counted(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT, b STRING")
    tasks = [
        {
            "columns": columns,
            "objects": [lake.source("1.csv", "a,b\n1,x\nzz,y\n2\n3,z\n", ["a", "b"])],
        },
        {"columns": columns, "objects": [lake.source("2.csv", "a,b\n4,x\n", ["a", "b"])]},
    ]
    results = lake.run("parse", read("csv", on_bad_record="drop"), tasks)
    assert [lake.rows(r) for r in results] == [
        [{"a": 1, "b": "x"}, {"a": 3, "b": "z"}],
        [{"a": 4, "b": "x"}],
    ]
    assert [r["metrics"]["dropped_rows"] for r in results] == [2, 0]


def test_json_keeps_a_field_that_is_called_as_sparks_own(lake: Lake) -> None:
    columns = schema_of(lake.spark, "_corrupt_record STRING, m MAP<STRING, ARRAY<INT>>")
    text = '{"_corrupt_record": "mine", "m": {"k": [1, null]}}\n{"m": null}\n'
    (result,) = lake.run(
        "parse", read("json"), [{"columns": columns, "objects": [lake.source("a.json", text)]}]
    )
    assert lake.rows(result) == [
        {"_corrupt_record": "mine", "m": {"k": [1, None]}},
        {"_corrupt_record": None, "m": None},
    ]


def test_columnar_files_give_the_asked_columns(lake: Lake) -> None:
    columns = schema_of(lake.spark, "n DECIMAL(5,2), A INT, gone DATE, `a.b` STRING")
    data = {
        "a": [0],
        "A": pa.array([1], pa.int32()),
        "n": pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
        "a.b": ["x"],
    }
    for format, content in (
        ("parquet", parquet(**data)),
        ("orc", orc(A=data["A"], n=data["n"], **{"a.b": ["x"]})),
    ):
        task = {"columns": columns, "objects": [lake.source(f"f.{format}", content, list(data))]}
        (result,) = lake.run("parse", read(format), [task])
        assert lake.rows(result) == [{"n": Decimal("1.25"), "A": 1, "gone": None, "a.b": "x"}]


def test_text_binary_and_compressed_files(lake: Lake) -> None:
    text = {
        "columns": schema_of(lake.spark, "value STRING"),
        "objects": [lake.source("a.txt", "one\n\ntwo\n", ["value"])],
    }
    (result,) = lake.run("parse", read("text"), [text])
    assert [r["value"] for r in lake.rows(result)] == ["", "one", "two"]
    raw = {
        "columns": schema_of(lake.spark, "content BINARY, length BIGINT"),
        "objects": [lake.source("a.bin", b"\xff\x00")],
    }
    (result,) = lake.run("parse", read("binary"), [raw])
    assert lake.rows(result) == [{"content": bytearray(b"\xff\x00"), "length": 2}]
    packed = gzip.compress("a\n\u00e9\n".encode())
    task = {
        "columns": schema_of(lake.spark, "a STRING"),
        "objects": [lake.source("a.csv.gz", packed, ["a"])],
    }
    (result,) = lake.run("parse", read("csv"), [task])
    assert lake.rows(result) == [{"a": "\u00e9"}]


def test_a_file_that_ends_between_two_blocks_is_not_taken_for_a_whole_one(lake: Lake) -> None:
    """Also one of which no block is there yet."""
    packed = bz2.compress(b"".join(b"%d\n" % n for n in range(40_000)), compresslevel=1)
    bits = bin(int.from_bytes(packed, "big"))[2:].zfill(8 * len(packed))
    # Begins with these digits of pi, at any bit
    second = bits.index(f"{0x314159265359:048b}", 80) // 8
    files = {
        "whole.txt.bz2": packed,
        "cut.txt.bz2": packed[: second + 2],
        "begun.txt.bz2": packed[:4],
    }
    columns = schema_of(lake.spark, "value STRING")
    tasks = [
        {"columns": columns, "objects": [lake.source(n, text, ["value"])]}
        for n, text in files.items()
    ]
    whole, *others = lake.run("parse", read("text"), tasks)
    assert Content(*done(whole)["content"]).rows == 40_000
    assert [failed(r)["condition"] for r in others] == ["file-cut-short"] * 2


def test_encodings_are_the_readers(lake: Lake) -> None:
    task = {
        "columns": schema_of(lake.spark, "a STRING"),
        "objects": [lake.source("a.csv", "a\n\u00e9\n".encode("latin-1"), ["a"])],
    }
    (result,) = lake.run(
        "parse", read("csv", options={"header": True, "encoding": "ISO-8859-1"}), [task]
    )
    assert lake.rows(result) == [{"a": "\u00e9"}]


WIDE = {  # codec of a file, and the encoding that its reader names
    "utf-16": ["UTF-16", "UTF-16LE"],
    "utf-16-le": ["UTF-16LE"],
    "utf-16-be": ["UTF-16BE", "utf-16"],
    "utf-32": ["UTF-32"],
    "utf-32-le": ["UTF-32LE"],
    "utf-32-be": ["UTF-32", "UTF-32BE"],
}


def test_csv_in_utf_16_and_utf_32_is_read_with_a_mark_or_without(lake: Lake) -> None:
    columns, text = (
        schema_of(lake.spark, "id INT, name STRING"),
        "id,name\r\n8,\u0a0d\u010a\r\n9,b\r\n",
    )
    for codec, encodings in WIDE.items():
        for encoding in encodings:
            data = text.encode(codec)
            bodies = {"a.csv": data, "b.csv.gz": gzip.compress(data), "c.csv": data[:-1]}
            objects = [
                lake.source(f"{encoding}{name}", body, ["id", "name"])
                for name, body in bodies.items()
            ]
            job = read("csv", options={"header": True, "encoding": encoding})
            *good, cut = lake.run(
                "parse", job, [{"columns": columns, "objects": [o]} for o in objects]
            )
            for result in good:
                rows = [{"id": 8, "name": "\u0a0d\u010a"}, {"id": 9, "name": "b"}]
                assert lake.rows(result) == rows, (codec, encoding)
            assert failed(cut)["condition"] == "MALFORMED_CHARACTER_CODING"
            assert "line 3 is not" in failed(cut)["message"]
        types = {"id": "integer", "name": "string"}
        assert told_types(lake.run("infer", job, [{"objects": objects[:2]}])[0]) == types


def test_a_byte_order_that_is_not_said_and_is_another_one_is_told(lake: Lake) -> None:
    columns = schema_of(lake.spark, "id INT")
    task = {
        "columns": columns,
        "objects": [lake.source("a.csv", "id\n8\n".encode("utf-16-le"), ["id"])],
    }
    (result,) = lake.run(
        "parse", read("csv", options={"header": True, "encoding": "UTF-16"}), [task]
    )
    assert "write `encoding: UTF-16LE`" in failed(result)["message"]


def test_nothing_is_ordinary(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT")
    files = [[lake.source("1.csv", "a\n", ["a"])], [lake.source("2.csv", "", [])], []]
    results = lake.run("parse", read("csv"), [{"columns": columns, "objects": o} for o in files])
    assert [(r["files"], Content(*r["content"]).rows, r["schema"]) for r in map(done, results)] == [
        ([], 0, columns)
    ] * 3


def test_a_changed_or_vanished_object_voids_its_task_alone(lake: Lake) -> None:
    columns = schema_of(lake.spark, "a INT")
    objects = [lake.source(f"{i}.csv", f"a\n{i}\n", ["a"]) for i in range(4)]
    (lake.sources / "1.csv").write_text("a\n9\n")
    (lake.sources / "2.csv").unlink()
    (lake.sources / "3.csv").write_text("a\nno number\n")
    results = lake.run(
        "parse", read("csv"), [{"columns": columns, "objects": [o]} for o in objects]
    )
    assert [r["state"] for r in results] == ["done", "void", "void", "void"]


def test_dates_are_read_in_the_given_zone(lake: Lake) -> None:
    task = {
        "columns": schema_of(lake.spark, "t TIMESTAMP, d DATE"),
        "objects": [lake.source("a.csv", "t,d\n2020-07-01 12:00:00,2020-07-01\n", ["t", "d"])],
    }
    (result,) = lake.run("parse", read("csv", timezone="America/New_York"), [task])
    assert lake.rows(result) == [
        {"t": naive(datetime(2020, 7, 1, 16, tzinfo=UTC)), "d": date(2020, 7, 1)}
    ]
