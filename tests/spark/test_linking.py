"""Parquet files that become files of the lake as they are: which, and that nothing of their rows
depends on it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake

from dataplane.connectors.delta.delta_listing import partitions
from dataplane.connectors.files.linking import _is_as_written
from dataplane.fragments.arrow import arrow_schema
from tests.spark.conftest import Lake, done, failed, read, schema_of
from tests.unit.lake.tables import struct
from tests.unit.listing.location import list_job

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string())])
GZIP = b"\x1f\x8b"  # begins each page
LINKED = read("parquet", settings={"link": True})


def parquet(schema: pa.Schema = COLUMNS, *, k: int = 1, **options: Any) -> bytes:
    target = BytesIO()
    rows = pa.Table.from_pylist([{"k": k, "s": "x"}, {"k": None, "s": ""}], schema=schema)
    pyarrow.parquet.write_table(rows, target, **options)
    return target.getvalue()


def parsed(lake: Lake, job: dict[str, Any], *objects: Any) -> list[Any]:
    """The results of one task for each object."""
    columns = schema_of(lake.spark, "k BIGINT, s STRING")
    return lake.run("parse", job, [{"columns": columns, "objects": [o]} for o in objects])


def file_of(lake: Lake, result: Any) -> Path:
    (file,) = done(result)["files"]
    return lake.root / file["path"]


def test_files_are_linked_or_copied_or_read_with_equal_contents(lake: Lake) -> None:
    integers = pa.schema([("k", pa.int32()), ("s", pa.string())])
    bodies = [parquet(k=1), parquet(k=2), parquet(integers, k=3)]
    objects = [lake.source(f"{n}.parquet", body, ["k", "s"]) for n, body in enumerate(bodies)]
    origins = [lake.sources / f"{n}.parquet" for n in range(3)]
    origins[0].chmod(0o444)
    as_read = parsed(lake, read("parquet"), *objects)
    taken = parsed(lake, LINKED, *objects)
    assert [done(r)["content"] for r in taken] == [done(r)["content"] for r in as_read]
    files = [file_of(lake, result) for result in taken]
    assert files[0].samefile(origins[0])
    assert not files[1].samefile(origins[1])
    assert [file.read_bytes() == body for file, body in zip(files, bodies, strict=True)] == [
        True,
        True,
        False,
    ]
    assert [lake.rows(result)[0]["k"] for result in taken] == [1, 2, 3]
    origins[1].write_bytes(b"changed")
    assert files[1].read_bytes() == bodies[1]


def test_a_file_that_changed_or_is_damaged_is_the_readers_to_judge(lake: Lake) -> None:
    body = parquet(compression="GZIP")
    damaged = body.replace(GZIP, bytes(2))
    objects = [
        lake.source(f"{n}.parquet", content, ["k", "s"])
        for n, content in enumerate((body, damaged, body))
    ]
    (lake.sources / "0.parquet").write_bytes(parquet(k=7))
    changed, broken, sound = parsed(lake, LINKED, *objects)
    assert changed["state"] == "void"
    assert failed(broken)["kind"] == "user"
    assert lake.rows(sound)[0]["k"] == 1
    assert len(list(lake.root.rglob("*.parquet"))) == 1, "nothing is left of the others"


def test_jobs_whose_rows_are_not_those_of_files_link_none(lake: Lake) -> None:
    source = lake.source("a.parquet", parquet(), ["k", "s"])
    (result,) = parsed(lake, {**LINKED, "sort_by": ["s"]}, source)
    assert [row["k"] for row in lake.rows(result)] == [1, None]
    assert not file_of(lake, result).name.startswith("source-")


def delta_job(root: Path, *, link: bool) -> dict[str, Any]:
    settings = {"link": True} if link else {}
    return {**read("delta", settings=settings), "connector": "delta", "location": str(root)}


def delta_task(lake: Lake, root: Path) -> dict[str, Any]:
    """The task of a table whose files are linked."""
    job = list_job(root, connector="delta", settings={"link": True})
    [partition] = partitions(job)
    columns = schema_of(lake.spark, "k BIGINT, s STRING")
    return {"columns": columns, "objects": partition["objects"]}


def test_files_of_a_delta_table_are_linked(lake: Lake, tmp_path: Path) -> None:
    for k in (1, 2):
        rows = pa.Table.from_pylist([{"k": k, "s": "x"}], schema=COLUMNS)
        write_deltalake(str(tmp_path), rows, mode="append")
    tasks = [delta_task(lake, tmp_path)]
    [as_read] = lake.run("parse", delta_job(tmp_path, link=False), tasks)
    [taken] = lake.run("parse", delta_job(tmp_path, link=True), tasks)
    assert done(taken)["content"] == done(as_read)["content"]
    bodies = {(lake.root / file["path"]).read_bytes() for file in done(taken)["files"]}
    assert bodies == {Path(uri).read_bytes() for uri in DeltaTable(tmp_path).file_uris()}


def test_a_damaged_file_of_a_delta_table_is_the_readers_to_judge(
    lake: Lake, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    file.write_bytes(parquet(compression="GZIP"))
    convert_to_deltalake(str(tmp_path))
    task = delta_task(lake, tmp_path)
    file.write_bytes(file.read_bytes().replace(GZIP, bytes(2)))
    [result] = lake.run("parse", delta_job(tmp_path, link=True), [task])
    assert failed(result)["kind"] == "user"
    assert not list(lake.root.rglob("source-*"))


def test_a_delta_table_that_was_vacuumed_meanwhile_is_listed_again(
    lake: Lake, tmp_path: Path
) -> None:
    rows = pa.Table.from_pylist([{"k": 1, "s": "x"}], schema=COLUMNS)
    write_deltalake(str(tmp_path), rows)
    task = delta_task(lake, tmp_path)
    write_deltalake(str(tmp_path), rows, mode="overwrite")
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    [result] = lake.run("parse", delta_job(tmp_path, link=True), [task])
    assert result["state"] == "void"
    assert not list(lake.root.rglob("*.parquet"))


def marked(marks: dict[str, str]) -> pa.Schema:
    return COLUMNS.with_metadata(marks)


@pytest.mark.parametrize(
    ("schema", "options", "is_alike"),
    [
        (COLUMNS, {}, True),
        (COLUMNS, {"store_schema": False}, True),
        (COLUMNS, {"compression": "zstd", "data_page_version": "2.0"}, True),
        (COLUMNS, {"compression": "brotli"}, False),
        (COLUMNS, {"use_byte_stream_split": ["k"], "use_dictionary": False}, False),
        (marked({"org.apache.spark.version": "4.2.0"}), {}, True),
        (marked({"org.apache.spark.version": "2.4.8"}), {}, False),
        (marked({"org.apache.spark.legacyDateTime": ""}), {}, False),
        (pa.schema([COLUMNS.field(1), COLUMNS.field(0)]), {}, False),
        (pa.schema([("k", pa.int64()), ("S", pa.string())]), {}, False),
        (pa.schema([("k", pa.uint64()), ("s", pa.string())]), {}, False),
        (pa.schema([("k", pa.int64()), ("s", pa.large_string())]), {}, False),
        (
            pa.schema(
                [COLUMNS.field(0).with_metadata({"PARQUET:field_id": "1"}), COLUMNS.field(1)]
            ),
            {},
            False,
        ),
    ],
)
def test_which_files_are_as_the_lake_has_them(
    schema: pa.Schema, options: dict[str, Any], is_alike: bool
) -> None:
    with pyarrow.parquet.ParquetFile(BytesIO(parquet(schema, **options))) as file:
        assert _is_as_written(file, struct(k="long", s="string")) is is_alike


@pytest.mark.parametrize(
    ("options", "is_alike"),
    [
        ({"store_schema": False}, True),
        ({"use_deprecated_int96_timestamps": True, "store_schema": False}, False),
        ({"coerce_timestamps": "ms", "store_schema": False}, False),
    ],
)
def test_times_are_microseconds_in_utc(options: dict[str, Any], is_alike: bool) -> None:
    target, columns = BytesIO(), struct(at="timestamp")
    rows = pa.Table.from_pylist([{"at": 1}], schema=arrow_schema(columns))
    pyarrow.parquet.write_table(rows, target, allow_truncated_timestamps=True, **options)
    with pyarrow.parquet.ParquetFile(target) as file:
        assert _is_as_written(file, columns) is is_alike
