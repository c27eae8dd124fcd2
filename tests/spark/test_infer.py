"""Schemas of source files: the join of what all of them hold, in whatever order and groups they are
read."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import functions as F

from dataplane.connectors.files.number_search import NumberSearch
from dataplane.connectors.files.numbers import is_held
from dataplane.contract.schemas import Type
from tests.avro_files import avro_file
from tests.spark.conftest import Lake, done, failed, read, schema_of, told_types


def parquet(**columns: list) -> bytes:
    target = BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def written(table: pa.Table, format: str) -> bytes:
    if format == "avro":
        return avro_file(table)
    target = BytesIO()
    getattr(pa, format).write_table(table, target)
    return target.getvalue()


def inferred(lake: Lake, format: str, *objects: dict, **job: Any) -> dict[str, Type]:
    (result,) = lake.run("infer", read(format, **job), [{"objects": list(objects)}])
    return told_types(done(result))


def test_csv_types_hold_for_all_files(lake: Lake) -> None:
    found = inferred(
        lake,
        "csv",
        lake.source("1.csv", "b,a,n\nx,1,\n", ["b", "a", "n"]),
        lake.source("2.csv", '"b","a","n"\ny,2.5,\n', ["b", "a", "n"]),
        lake.source("3.csv", "a,new\n3,2020-01-01\n", ["a", "new"]),
    )
    assert list(found.items()) == [("b", "string"), ("a", "double"), ("n", "void"), ("new", "date")]


def test_other_formats_are_inferred_in_order_of_appearance(lake: Lake) -> None:
    found = inferred(
        lake,
        "json",
        lake.source("1.json", '{"z": 1, "a": {"k": null}}\n', ["z", "a"]),
        lake.source("2.json", '{"z": 1.5, "b": [1]}\n', ["z", "b"]),
    )
    assert list(found) == ["z", "a", "b"]
    assert found["z"] == "double"
    files = [
        lake.source("1.parquet", parquet(q=[1]), ["q"]),
        lake.source("2.parquet", parquet(b=["x"], q=[2]), ["b", "q"]),
    ]
    assert list(inferred(lake, "parquet", *files).items()) == [("q", "long"), ("b", "string")]
    assert inferred(lake, "binary", lake.source("x", b"")) == {
        "content": "binary",
        "length": "long",
    }


def test_times_of_day_are_texts(lake: Lake) -> None:
    text = "a,t,u,n\n1,12:00,2020-01-01 12:00,\n2,13:30:15,2020-01-01,\n"
    found = inferred(lake, "csv", lake.source("1.csv", text, ["a", "t", "u", "n"]))
    assert found == {"a": "integer", "t": "string", "u": "timestamp", "n": "void"}
    options = {"header": True, "timestampFormat": "H:mm[:ss]"}
    (result,) = lake.run(
        "infer", read("csv", options=options), [{"objects": [lake.source("2.csv", text, ["a"])]}]
    )
    assert told_types(done(result))["t"] == "timestamp"


def test_a_schema_of_files_that_changed_meanwhile_is_void(lake: Lake) -> None:
    changed, broken = lake.source("a.csv", "a\n1\n", ["a"]), lake.source("b.parquet", b"PAR1")
    (lake.sources / "a.csv").write_text("a\nx\n")
    (lake.sources / "b.parquet").write_bytes(b"")
    assert lake.run("infer", read("csv"), [{"objects": [changed]}])[0]["state"] == "void"
    assert lake.run("infer", read("parquet"), [{"objects": [broken]}])[0]["state"] == "void"


def test_what_cannot_be_inferred_fails_in_words(lake: Lake) -> None:
    (result,) = lake.run(
        "infer", read("parquet"), [{"objects": [lake.source("cut.parquet", b"PAR1", None)]}]
    )
    error = failed(result)
    assert error["kind"] == "user"
    assert str(lake.sources / "cut.parquet") in error["message"]


def of_ddl(lake: Lake, ddl: str) -> Type:
    [column] = schema_of(lake.spark, f"c {ddl}")["fields"]
    return column["type"]


NUMBERS = {
    "INT": ["1", "0", "-7", "+1", "2147483647"],
    "BIGINT": ["1", "2147483648"],
    "DECIMAL(20,0)": ["1", "12345678901234567890"],
    "DOUBLE": ["1", "1.50", "1e3", ".5", "-1.", "0.30000000000000004", "NaN"],
    "STRING": ["1", "02134"],
    "STRING ": ["1", "1d"],
    "STRING  ": ["1", "2f"],
    "STRING   ": ["1.5", "1e400"],
    "STRING    ": ["1.5", "12345678901234567890"],
    "STRING     ": ["0.5", "9007199254740993"],
    "STRING      ": ["1.5", "0.1234567890123456789"],
    "STRING       ": ["1", "0x1p3"],
    "STRING        ": ["1" * 39, "2"],
    "VOID": ["", ""],
}


def test_numbers_of_csv_have_the_least_type_that_holds_them_all(lake: Lake) -> None:
    """One file with all values, and one file for each, in two orders and with other headers."""
    rows = max(map(len, NUMBERS.values()))
    names = [f"c{i}" for i in range(len(NUMBERS))]
    lines = [
        [values[min(row, len(values) - 1)] for values in NUMBERS.values()] for row in range(rows)
    ]
    texts = ["\n".join([",".join(names), ",".join(line), ""]) for line in lines]
    alone = lake.source("all.csv", "\n".join(map(",".join, [names, *lines])), names)
    single = [lake.source(f"{i}.csv", text + "\n" * i, names) for i, text in enumerate(texts)]
    quoted = [lake.source("q.csv", texts[-1].replace("c0", '"c0"'), names)]
    types = {"INT": "integer", "BIGINT": "long", "DECIMAL(20,0)": "decimal(20,0)"}
    wanted = {
        n: types.get(t.strip(), t.strip().lower()) for n, t in zip(names, NUMBERS, strict=True)
    }
    for objects in ([alone], single, [*quoted, *reversed(single)]):
        assert inferred(lake, "csv", *objects) == wanted


def test_csv_files_with_other_headers_are_joined_as_if_they_had_one(lake: Lake) -> None:
    files = [
        lake.source("a.csv", "id,x\n1,2\n", ["id", "x"]),
        lake.source("b.csv", "id,y\n12345678901234567890,2\n", ["id", "y"]),
    ]
    assert inferred(lake, "csv", *files) == {"id": "decimal(20,0)", "x": "integer", "y": "integer"}


KNOWN_CSVS = [
    (
        "l_orderkey,l_partkey,l_suppkey,l_linenumber,l_quantity,l_extendedprice,l_discount,l_tax,l_returnflag,l_shipdate\n"
        "1,155190,7706,1,17.00,21168.23,0.04,0.02,N,1996-03-13\n3000000000,67310,7311,2,36.00,45983.16,0.09,0.06,N,1996-04-12\n",
        {},
        [
            "long",
            "integer",
            "integer",
            "integer",
            "double",
            "double",
            "double",
            "double",
            "string",
            "date",
        ],
    ),
    (
        "year,month,day,dep_time,dep_delay,carrier,flight,tailnum,distance,time_hour\n"
        "2013,1,1,517,2,UA,1545,N14228,1400,2013-01-01T10:00:00Z\n2013,1,1,NA,-5,B6,725,NA,1576,2013-01-01T10:00:00Z\n",
        {"nullValue": "NA"},
        ["integer"] * 5 + ["string", "integer", "string", "integer", "timestamp"],
    ),
]


@pytest.mark.parametrize(("text", "options", "types"), KNOWN_CSVS, ids=["tpch", "flights"])
def test_csvs_of_tpch_and_flights_keep_their_types(
    lake: Lake, text: str, options: dict[str, str], types: list[str]
) -> None:
    names = text.partition("\n")[0].split(",")
    found = inferred(
        lake, "csv", lake.source("a.csv", text, names), options={"header": True, **options}
    )
    assert found == dict(zip(names, types, strict=True))


def test_numbers_of_json_that_double_does_not_hold_are_texts(lake: Lake) -> None:
    text = """{"a": 1e400, "b": {"x": [12345678901234567890, 1.5]}, "c": 1.50, "d": 9007199254740993, "e": "02134"}
{"a": 1.5, "b": {"x": [1e2]}, "c": -1e-3, "d": 0.5, "e": "1", "n": null, "m": []}
"""
    found = inferred(lake, "json", lake.source("a.json", text, ["a", "b", "c", "d", "e", "n", "m"]))
    assert found.pop("b") == of_ddl(lake, "STRUCT<x: ARRAY<STRING>>")
    assert found == {
        "a": "string",
        "c": "double",
        "d": "string",
        "e": "string",
        "n": "void",
        "m": "void",
    }


def test_footers_are_joined_exactly_and_in_any_order(lake: Lake) -> None:
    struct = [pa.struct([("n", kind)]) for kind in (pa.int32(), pa.int64())]
    one = parquet(
        i=pa.array([1], pa.int32()),
        f=pa.array([1.5], pa.float32()),
        d=pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
        s=pa.array([{"n": 1}], struct[0]),
        n=pa.nulls(1),
    )
    other = parquet(
        i=pa.array([1 << 40], pa.int64()),
        f=pa.array([2.5], pa.float64()),
        d=pa.array([Decimal("12.3456")], pa.decimal128(12, 4)),
        s=pa.array([{"n": 1 << 40}], struct[1]),
    )
    files = [lake.source("1.parquet", one, ["i"]), lake.source("2.parquet", other, ["i"])]
    for objects in (files, files[::-1]):
        found = inferred(lake, "parquet", *objects)
        assert found.pop("s") == of_ddl(lake, "STRUCT<n: BIGINT>")
        assert found == {"i": "long", "f": "double", "d": "decimal(12,4)"} | {"n": "void"}


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_types_of_footers_that_no_type_holds_are_told_with_file_column_and_both(
    lake: Lake, format: str
) -> None:
    contents = []
    for kind in (pa.int64(), pa.float64()):
        table = pa.table({"s": pa.array([{"n": 1}], pa.struct([("n", kind)]))})
        contents.append(written(table, format))
    files = [lake.source(f"{i}.{format}", content, ["s"]) for i, content in enumerate(contents)]
    (result,) = lake.run("infer", read(format), [{"objects": files}])
    error = failed(result)
    assert (error["condition"], error["file"]) == (
        "schema-retyped",
        str(lake.sources / f"1.{format}"),
    )
    told = f"{lake.sources}/1.{format}: column s.n is DOUBLE there, and BIGINT in {lake.sources}/0.{format}"
    assert error["message"].startswith(told)


def test_the_file_is_named_that_is_no_json(lake: Lake) -> None:
    files = [
        lake.source(f"{i}.json", '{"a": 1}\n' if i != 2 else '{"a": \n', ["a"]) for i in range(4)
    ]
    (result,) = lake.run("infer", read("json"), [{"objects": files}])
    error = failed(result)
    assert error["file"] == str(lake.sources / "2.json")
    assert str(lake.sources / "2.json") in error["message"]


JSON_LINES = '{"a": 1}\n{"a": 2}\n'
BROKEN = [
    ("a.json", JSON_LINES.encode("utf-16"), {"encoding": "UTF-16"}, "save the files in UTF-8"),
    ("b.json", JSON_LINES.encode("utf-16-le"), {"encoding": "UTF-16LE"}, "write `lineSep: "),
    ("c.json", JSON_LINES.encode("utf-16"), {}, "line 1 is not utf-8"),
    ("d.json", b'{"a": 1}\n{"a": \n', {}, "malformed record (with `schema:`, `on_bad_record`"),
    ("e.csv.gz", b"\x1f\x8b\x08broken", {}, "the file cannot be read: "),
    (
        "f.csv",
        b"a\n22222\n",
        {"maxCharsPerColumn": "2"},
        "exceeds the maximum number of characters",
    ),
    ("g.csv", b"a\n1\n", {"lineSep": "abc"}, "'lineSep' can contain only 1 character"),
]
INNER_WORDS = (
    "headgate_corrupt",
    "[null]",
    "requirement failed",
    "Job aborted",
    "Encountered error",
    "TextParsing",
)


@pytest.mark.parametrize(("name", "content", "options", "words"), BROKEN)
def test_no_inner_words_of_spark_are_in_an_error(
    lake: Lake, name: str, content: bytes, options: dict[str, str], words: str
) -> None:
    job = read(name.split(".")[1])
    job["options"] |= options
    (result,) = lake.run("infer", job, [{"objects": [lake.source(name, content, None)]}])
    error = failed(result)
    assert (error["kind"], error["file"]) == ("user", str(lake.sources / name))
    assert error["message"].startswith(str(lake.sources / name))
    assert words in error["message"]
    assert [text for text in INNER_WORDS if text in error["message"]] == []


# --- reading under inferred types -----------------------------------------------------------------


def parsed(lake: Lake, columns: str, text: str, inferred: list[str], **job: Any) -> Any:
    schema = schema_of(lake.spark, columns)
    task = {
        "columns": schema,
        "objects": [lake.source("a.csv", text, [f["name"] for f in schema["fields"]])],
    }
    (result,) = lake.run(
        "parse", read("csv", **job), [{**task, **({"inferred": inferred} if inferred else {})}]
    )
    return result


def test_a_declared_number_is_read_as_spark_reads_it(lake: Lake) -> None:
    assert lake.rows(done(parsed(lake, "a INT", "a\n02134\n", []))) == [{"a": 2134}]


def test_what_inferred_numbers_hold_is_read(lake: Lake) -> None:
    text = "a,b,c,d\n-1,1.50,12345678901234567890,1\n+1,1e3,1,9007199254740993\n,NaN,,\n0,7,0,-0\n"
    names = ["a", "b", "c", "d"]
    rows = lake.rows(done(parsed(lake, "a INT, b DOUBLE, c DECIMAL(20,0), d BIGINT", text, names)))
    assert sorted(map(str, (row["a"] for row in rows))) == ["-1", "0", "1", "None"]
    assert sorted(str(row["b"]) for row in rows) == ["1.5", "1000.0", "7.0", "nan"]
    assert {row["c"] for row in rows} == {
        Decimal("12345678901234567890"),
        Decimal(1),
        None,
        Decimal(0),
    }
    assert {row["d"] for row in rows} == {1, 9007199254740993, None, 0}


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("INT", "02134", "string"),
        ("INT", "3000000000", "long"),
        ("INT", "1.5", "double"),
        ("INT", "x", "string"),
        ("INT", " 1", "double"),
        ("BIGINT", "00501", "string"),
        ("DOUBLE", "9007199254740993", "string"),
        ("DOUBLE", "1e400", "string"),
        ("DOUBLE", "1d", "string"),
        ("DOUBLE", "01.5", "string"),
        ("DECIMAL(20,0)", "1.5", "string"),
    ],
)
def test_a_number_that_an_inferred_type_does_not_hold_is_an_error_with_its_type(
    lake: Lake, kind: str, text: str, wanted: str
) -> None:
    result = parsed(lake, f"k INT, a {kind}", f"k,a\n1,1\n2,{text}\n", ["k", "a"])
    error = failed(result)
    assert error["condition"] == "number-not-held"
    assert str(lake.sources / "a.csv") in error["message"]
    assert "column a is" in error["message"]
    assert told_types(result)["a"] == wanted


@pytest.mark.parametrize(
    ("kind", "sql"), [("integer", "INT"), ("long", "BIGINT"), ("double", "DOUBLE")]
)
def test_the_search_in_bytes_finds_each_number_that_spark_reads_and_the_type_does_not_hold(
    lake: Lake, kind: str, sql: str
) -> None:
    mantissas = [
        "",
        "0",
        "7",
        "02134",
        "1.50",
        "01.5",
        ".5",
        "5.",
        "0x1",
        "NaN",
        "Infinity",
        "Inf",
        "٣",
        "1\uff12",
    ]
    mantissas += [
        "9007199254740993",
        "1" * 17,
        "1" * 19,
        "1" * 39,
        "0." + "3" * 18,
        "." + "0" * 150 + "1",
        "1" * 400,
    ]
    parts = product(
        ["", " ", "\t"],
        ["", "-", "+"],
        mantissas,
        ["", "e5", "E-99", "e400", "p3"],
        ["", "d", "F", " "],
    )
    texts = ["".join(part) for part in parts]
    rows = lake.spark.createDataFrame([(text,) for text in texts], "text STRING")
    value, held = F.from_csv("text", f"value {sql}")["value"], is_held(F.col("text"), kind, {})
    taken = rows.filter(
        value.isNotNull() & ~F.coalesce(held, F.lit(False)) & (F.col("text") != "")
    ).collect()
    assert len(taken) > 5
    for row in taken:
        search = NumberSearch({}, kind == "double")
        search.see(f"x,{row['text']}\n")
        assert search.has_doubtful_numbers(), row


def test_doubtful_numbers_of_one_file_change_no_other_one(lake: Lake) -> None:
    schema = schema_of(lake.spark, "k INT, a DOUBLE")
    texts = {
        "plain.csv": "k,a\n1,1.5\n",
        "ids.csv": "k,a\n2,12345678901234567\n",
        "text.csv": "k,a\n3,007x\n",
    }
    tasks = [
        {
            "columns": schema,
            "inferred": ["k", "a"],
            "objects": [lake.source(name, text, ["k", "a"])],
        }
        for name, text in texts.items()
    ]
    plain, ids, text = lake.run("parse", read("csv"), tasks)
    assert lake.rows(done(plain)) == [{"k": 1, "a": 1.5}]
    assert failed(ids)["condition"] == failed(text)["condition"] == "number-not-held"
    doubtful = lake.source("held.csv", "k,a\n12345678,9007199254740992\n", ["k", "a"])
    (again,) = lake.run("parse", read("csv"), [{**tasks[0], "objects": [doubtful]}])
    assert lake.rows(done(again)) == [{"k": 12345678, "a": 2.0**53}]
    assert len(list(lake.root.rglob("*.parquet"))) == 2  # what was read first is deleted


def test_rows_are_dropped_by_numbers_that_inferred_types_do_not_hold(lake: Lake) -> None:
    text = "k,a\n1,1\n2,02134\n3,x\n4,4\n"
    result = done(parsed(lake, "k INT, a INT", text, ["k", "a"], on_bad_record="drop"))
    assert [row["k"] for row in lake.rows(result)] == [1, 4]
    assert result["metrics"]["dropped_rows"] == 2


def test_numbers_of_json_that_inferred_doubles_do_not_hold_are_errors(lake: Lake) -> None:
    schema = schema_of(lake.spark, "a DOUBLE, b STRUCT<x: ARRAY<DOUBLE>>")
    texts = {
        "held.json": '{"a": 1.50, "b": {"x": [1e3, 7]}, "long": 9007199254740993}\n',
        "far.json": '{"a": 1e400}\n',
        "deep.json": '{"a": 1, "b": {"x": [1.5, 12345678901234567890]}}\n',
    }
    task: dict[str, Any] = {"columns": schema, "inferred": ["a", "b"]}
    tasks = [
        {**task, "objects": [lake.source(name, text, ["a", "b"])]} for name, text in texts.items()
    ]
    held, far, deep = lake.run("parse", read("json"), tasks)
    assert [row["a"] for row in lake.rows(done(held))] == [1.5]
    assert failed(far)["condition"] == failed(deep)["condition"] == "number-not-held"
    assert (
        f"{lake.sources}/deep.json: column b.x is DOUBLE in the dataset" in failed(deep)["message"]
    )
    assert told_types(far)["a"] == "string"
    assert told_types(deep)["b"] == of_ddl(lake, "STRUCT<x: ARRAY<STRING>>")
    (declared,) = lake.run(
        "parse", read("json"), [{"columns": schema, "objects": tasks[1]["objects"]}]
    )
    assert [row["a"] for row in lake.rows(done(declared))] == [float("inf")]


def test_a_column_without_a_value_is_read_under_the_type_that_other_files_have(lake: Lake) -> None:
    schema = schema_of(lake.spark, "id BIGINT, note STRING")
    files = [parquet(id=[1], note=pa.nulls(1)), parquet(id=[2], note=["x"])]
    tasks = [
        {"columns": schema, "objects": [lake.source(f"{i}.parquet", content, ["id", "note"])]}
        for i, content in enumerate(files)
    ]
    one, other = lake.run("parse", read("parquet"), tasks)
    assert lake.rows(done(one)) == [{"id": 1, "note": None}]
    assert lake.rows(done(other)) == [{"id": 2, "note": "x"}]
