"""Folders `key=value` are columns, of files of every format, and nothing wrong passes for data."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.files.folder_types import fits
from dataplane.connectors.files.write_local import FilesTarget
from dataplane.contract.jobs import WriteJob
from dataplane.contract.keys import column_key
from dataplane.contract.schemas import Json, select_columns
from dataplane.contract.source_objects import SourceObject, columns_of
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from dataplane.spark.spark_schemas import schema_of as of_rows
from tests.spark.conftest import Lake, done, failed, read, schema_of, told_types
from tests.unit.listing.location import list_job

NONE: Json = MappingProxyType({})


def parquet(**columns: list[Any]) -> bytes:
    target = BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def orc(**columns: list[Any]) -> bytes:
    target = BytesIO()
    pyarrow.orc.write_table(pa.table(columns), target)
    return target.getvalue()


def listed(
    lake: Lake, format: str, files: dict[str, bytes | str], **options: Json
) -> list[SourceObject]:
    for name, content in files.items():
        lake.source(name, content)
    return found_in(lake.sources, format, getattr(lake, "settings", {}), **options)


def found_in(
    folder: Path, format: str, settings: Json = NONE, **options: Json
) -> list[SourceObject]:
    """What a worker lists there, with folders as columns."""
    options = options or dict(read(format)["options"])
    settings = {**settings, "hive_partitioning": True}
    job = list_job(f"{folder}/**", format=format, options=options, settings=settings)
    return [
        found
        for partition in list_files(job, Versions())["partitions"]
        for found in partition["objects"]
    ]


def parsed(lake: Lake, ddl: str, format: str, *objects: SourceObject, **job: Json) -> Any:
    """The result of one task over these files."""
    schema = schema_of(lake.spark, ddl)
    own = [
        name
        for found in objects
        for name in columns_of(found) or [f["name"] for f in schema["fields"]]
    ]
    task = {"objects": list(objects), "columns": select_columns(schema, own)}
    (result,) = lake.run("parse", read(format, **job), [task])
    return result


CONTENTS: dict[str, tuple[bytes | str, str]] = {
    "csv": ("id\n1\n", "id INT"),
    "json": ('{"id": 1}\n', "id INT"),
    "parquet": (parquet(id=[1]), "id BIGINT"),
    "orc": (orc(id=[1]), "id BIGINT"),
    "text": ("1\n", "value STRING"),
    "binary": (b"1", "content BINARY, length BIGINT"),
}


@pytest.mark.parametrize("format", CONTENTS)
def test_folders_are_columns_in_every_format(lake: Lake, format: str) -> None:
    content, own = CONTENTS[format]
    files = dict.fromkeys(
        ("region=EU/day=2024-01-01/a", "region=US/day=__HIVE_DEFAULT_PARTITION__/b", "c"), content
    )
    result = parsed(lake, f"{own}, region STRING, day DATE", format, *listed(lake, format, files))
    told = sorted((r["region"] or "", r["day"]) for r in lake.rows(result))
    assert told == [("", None), ("EU", date(2024, 1, 1)), ("US", None)]
    assert all(r[own.split()[0]] in (1, "1", bytearray(b"1")) for r in lake.rows(result))


def test_types_are_inferred_from_all_values(lake: Lake) -> None:
    values = {
        "whole": ["1", "+2"],
        "long": ["1", "3000000000"],
        "double": ["1", "1.50"],
        "padded": ["01", "2"],
        "letters": ["1d", "2f"],
        "far": ["1e400", "1"],
        "digits": ["1", "12345678901234567890"],
        "day": ["2024-01-01", "2024-02-29"],
        "time": ["2024-01-01", "2024-01-01 10%3A00%3A00"],
        "no day": ["2024-02-30", "2024-01-01"],
        "null": ["__HIVE_DEFAULT_PARTITION__", "7"],
        "empty": ["__HEADGATE_EMPTY__", "7"],
        "fl%C3%BC%2Fss": ["a%3Db", "7"],
    }
    folders = ["/".join(f"{key}={some[i]}" for key, some in values.items()) for i in (0, 1)]
    objects = listed(lake, "json", {f"{folder}/a": '{"id": 1}\n' for folder in folders})
    (result,) = lake.run("infer", read("json"), [{"objects": objects}])
    assert told_types(result) == {
        "id": "long",
        "whole": "integer",
        "long": "long",
        "double": "double",
        "padded": "string",
        "letters": "string",
        "far": "string",
        "digits": "string",
        "day": "date",
        "time": "timestamp",
        "no day": "string",
        "null": "integer",
        "empty": "string",
        "flü/ss": "string",
    }
    assert list(told_types(result)) == ["id", *(k if "%" not in k else "flü/ss" for k in values)]


KINDS = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "boolean",
    "date",
    "timestamp",
    "timestamp_ntz",
]
EDGES = """1|-1|+1|001|-0|127|128|-128|32768|2147483647|2147483648|-2147483648|9223372036854775807|9223372036854775808
1.5|1.50|.5|1.|1e3|1E+3|1e-3|1e38|1e39|3.4028235e38|1e308|1e309|1e400|9007199254740993|0.1|0.30000000000000004|NaN|Infinity
true|FALSE|t|yes|1d|2f|0x1|1_000|١|2024-01-01|2024-1-1|2023-02-29|0001-01-01|0000-01-01|10000-01-01|2024-01-01T10:00:00
2024-01-01 10:00|2024-01-01 10:00:00|2024-01-01 24:00:00|2024-01-01 10:00:00.123456|2024-01-01 10:00:00.1234567
2024-01-01 10:00:00Z|2024-01-01 10:00:00+18:00|2024-01-01 10:00:00+18:30|10:00|99.99|999.9|-99.9|0.001|1e1|100| 1|1 |"""


def test_what_fits_a_type_is_what_spark_reads_of_it(spark: SparkSession) -> None:
    """Nothing that fits is NULL, rounded, cut off or infinite: its text comes back as the same
    value."""
    texts = EDGES.replace("\n", "|").split("|")
    rows = spark.createDataFrame([(text,) for text in texts], "text STRING")
    for kind in [*KINDS, "decimal(4,2)", "decimal(38,0)"]:
        name = of_rows(spark.createDataFrame([], f"c {kind}"))["fields"][0]["type"]
        for text, value in rows.select(
            "text", F.col("text").try_cast(kind).cast("string")
        ).collect():
            if not fits(text, name):
                continue
            assert value is not None, (text, kind)
            assert _is_same(text, value, kind), (text, value, kind)


def _is_same(text: str, value: str, kind: str) -> bool:
    if kind == "boolean":
        return text.lower() == value
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return "+" in text or datetime.fromisoformat(value) == datetime.fromisoformat(
            text.removesuffix("Z")
        )
    return Decimal(value) == Decimal(text)


def test_a_value_that_its_column_cannot_have_is_refused(lake: Lake) -> None:
    good, bad = listed(lake, "parquet", dict.fromkeys(("n=1/a", "n=x/b"), parquet(id=[1])))
    schema = schema_of(lake.spark, "id BIGINT, n INT")
    tasks = [{"objects": [found], "columns": schema} for found in (good, bad)]
    first, second = lake.run("parse", read("parquet"), tasks)
    assert lake.rows(first) == [{"id": 1, "n": 1}]
    error = failed(second)
    assert error["condition"] == "folder-value-unfit"
    assert all(
        text in error["message"]
        for text in (str(lake.sources / "n=x/b"), "column n", "'x'", "integer", "schema:")
    )
    assert told_types(second) == {"id": "long", "n": "string"}


def test_rows_of_a_folder_that_does_not_fit_are_dropped_as_bad_records_are(lake: Lake) -> None:
    objects = listed(lake, "csv", {"n=1/a": "id\n1\nx\n", "n=x/b": "id\n3\n4\n"})
    result = parsed(lake, "id INT, n INT", "csv", *objects, on_bad_record="drop")
    assert lake.rows(result) == [{"id": 1, "n": 1}]
    assert result["metrics"]["dropped_rows"] == 3


def test_a_known_type_stays_where_all_values_fit_it(lake: Lake) -> None:
    """Why a file of such a folder cannot be read is not that its folder looks like a number."""
    (found,) = listed(lake, "parquet", {"n=1/a": b"no parquet"})
    result = parsed(lake, "id BIGINT, n STRING", "parquet", {**found, "columns": ["id"]})
    assert failed(result)["condition"] != "folder-value-unfit"


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_column_of_the_file_wins_and_has_to_agree(lake: Lake, format: str) -> None:
    def content(region: str) -> bytes | str:
        if format == "parquet":
            return parquet(id=[1, 2], region=["EU", region])
        return (
            f"id,region\n1,EU\n2,{region}\n"
            if format == "csv"
            else f'{{"id": 1, "region": "EU"}}\n{{"id": 2, "region": "{region}"}}\n'
        )

    files = {
        "region=EU/a": content("EU"),
        "region=EU/b": content("US"),
        "region=US/c": content("EU"),
    }
    objects = listed(lake, format, files)
    schema = schema_of(lake.spark, "id BIGINT, region STRING")
    results = lake.run(
        "parse", read(format), [{"objects": [o], "columns": schema} for o in objects]
    )
    assert lake.rows(results[0]) == [{"id": 1, "region": "EU"}, {"id": 2, "region": "EU"}]
    for result, found in zip(results[1:], objects[1:], strict=True):
        error = failed(result)
        assert error["condition"] == "folder-value-differs"
        texts = (found["name"][-2:], "column region is ", "EU", "US")
        assert all(text in error["message"] for text in texts), error["message"]


def test_columns_of_csv_without_a_header_have_places_whatever_the_folders_are(lake: Lake) -> None:
    objects = listed(lake, "csv", {"k=7/a": "1,2\n", "k=8/b": "1,2,3\n"}, sep=",")
    assert [o["columns"] for o in objects] == [["_c0", "_c1"], ["_c0", "_c1", "_c2"]]
    schema = schema_of(lake.spark, "_c0 INT, _c1 INT, k INT, _c2 INT")
    tasks = [{"objects": [objects[0]], "columns": schema_of(lake.spark, "_c0 INT, _c1 INT, k INT")}]
    tasks.append({"objects": [objects[1]], "columns": schema})
    results = lake.run("parse", read("csv", options={}), tasks)
    rows = [{"_c0": 1, "_c1": 2, "k": 7}, {"_c0": 1, "_c1": 2, "k": 8, "_c2": 3}]
    assert [lake.rows(result) for result in results] == [[row] for row in rows]


def test_names_and_folders_stand_beside_each_other(lake: Lake) -> None:
    (found,) = listed(lake, "csv", {"k=7/a.csv.gz": gzip.compress(b"id\n1\n")})
    result = parsed(lake, "id INT, k INT", "csv", found, metadata=["name"])
    assert lake.rows(result) == [{"id": 1, "k": 7, "_source_name": "k=7/a.csv.gz"}]


VALUES = [
    None,
    "",
    " a ",
    "ü/日本",
    "a=b",
    "%41",
    "__HIVE_DEFAULT_PARTITION__",
    "__HEADGATE_EMPTY__",
    "001",
    ".hidden",
]


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_what_a_target_wrote_comes_back_equal(lake: Lake, tmp_path: Path, format: str) -> None:
    schema = schema_of(lake.spark, "place STRING, n INT")
    job: WriteJob = {
        "path": str(tmp_path / "out"),
        "format": format,
        "options": {},
        "owner": "o",
        "schema": schema,
    }
    target = FilesTarget({**job, "by_columns": True})
    target.open(0.0)
    expected = []
    for n, place in enumerate(VALUES):
        table = pa.table({"place": pa.array([place], pa.string()), "n": pa.array([n], pa.int32())})
        (path,) = lake.table(table)
        with (lake.root / path).open("rb") as file:
            target.replace(column_key(["place"], [place]), [file], 1)
        expected.append((n, place))
    objects = found_in(tmp_path / "out", format)
    assert sorted(dict(o["folders"])["place"] or "" for o in objects) == sorted(
        p or "" for p in VALUES
    )
    tasks = [{"objects": [o], "columns": schema} for o in objects]
    results = lake.run("parse", read(format), tasks)
    rows = [row for result in results for row in lake.rows(done(result))]
    assert sorted((r["n"], r["place"]) for r in rows) == expected


def test_folders_of_granules_and_buckets_are_no_values(lake: Lake, tmp_path: Path) -> None:
    schema = schema_of(lake.spark, "n INT")
    job: WriteJob = {
        "path": str(tmp_path / "out"),
        "format": "json",
        "options": {},
        "owner": "o",
        "schema": schema,
    }
    target = FilesTarget(job)
    target.open(0.0)
    target.replace("day=2013-01/n=3", [], 1)
    (found,) = found_in(tmp_path / "out", "json")
    assert "folders" not in found
