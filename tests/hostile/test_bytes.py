"""A changed byte in a file of the lake: either the rows are the same, or the file is named, with
what mends it."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.ports.records import Rendering, WantedRows
from controlplane.services.queries.adapter.record_streams import RecordPool, RecordRenderer
from dataplane.contract.schemas import Schema
from dataplane.fragments.arrow import arrow_schema, batches, check_whole
from dataplane.task_failures import TaskFailure
from tests.slices import part_of, sliced
from tests.spark.conftest import Lake, done, failed, lake, query, read, schema_of

__all__ = ["lake"]  # a fixture

ROWS = 300
DDL = "k INT, text STRING, amount DECIMAL(9,2), x DOUBLE"
SHARE = 8  # one in so many bytes
TAIL = 8  # bytes at the end: the footer's length, and four letters


class Stored(NamedTuple):
    """A fragment as a driver wrote it: one file."""

    schema: Schema
    path: str
    data: bytes
    rows: list[dict[str, Any]]

    @property
    def pages(self) -> range:
        footer = pq.read_metadata(pa.BufferReader(self.data))
        columns = [footer.row_group(0).column(i) for i in range(footer.num_columns)]
        starts = [c.dictionary_page_offset or c.data_page_offset for c in columns]
        return range(
            min(starts),
            max(s + c.total_compressed_size for s, c in zip(starts, columns, strict=True)),
        )

    @property
    def footer(self) -> range:
        (length,) = struct.unpack("<I", self.data[-TAIL:-4])
        return range(len(self.data) - TAIL - length, len(self.data))


@pytest.fixture
def stored(lake: Lake) -> Stored:
    lines = (f"{n},t{n % 7},{n}.{n % 90 + 10},{n * 0.25}" for n in range(ROWS))
    source = lake.source(
        "s.csv", "\n".join(["k,text,amount,x", *lines, ""]), ["k", "text", "amount", "x"]
    )
    schema = schema_of(lake.spark, DDL)
    (result,) = lake.run("parse", read("csv"), [{"columns": schema, "objects": [source]}])
    (file,) = done(result)["files"]
    return Stored(schema, file["path"], (lake.root / file["path"]).read_bytes(), lake.rows(result))


def damaged(lake: Lake, stored: Stored, position: int, flip: int = 0xFF) -> str:
    """A copy of the file with another byte there; its path in the lake."""
    changed = bytearray(stored.data)
    changed[position] ^= flip
    path = f"damaged/{position}-{flip}/_fragment={'0' * 32}/{Path(stored.path).name}"
    target = lake.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(changed)
    return path


def evenly(places: range, number: int) -> Sequence[int]:
    return places[:: max(1, len(places) // number)]


def by_worker(lake: Lake, path: str, schema: Schema) -> list[dict[str, Any]] | TaskFailure:
    """As workers read for copies and topics."""
    try:
        found = [
            row
            for b in batches([str(lake.root / path)], arrow_schema(schema))
            for row in b.to_pylist()
        ]
    except TaskFailure as failure:
        return failure
    return sorted(found, key=repr)


def test_pages_have_checksums(stored: Stored) -> None:
    """The header of a page has its checksum as the field 4, an i32, after those of its kind and of
    its sizes."""
    for flip in (1, 0xFF):
        changed = bytearray(stored.data)
        changed[stored.pages[len(stored.pages) // 2]] ^= flip
        with pytest.raises(OSError, match="CRC"):
            pq.ParquetFile(pa.BufferReader(bytes(changed)), page_checksum_verification=True).read()


@pytest.mark.sweep
def test_a_worker_never_reads_other_rows(lake: Lake, stored: Stored) -> None:
    """Of all bytes, an eighth at a commit."""
    told = Counter[str]()
    for position in part_of(range(len(stored.data)), SHARE):
        for flip in (0xFF, 1 << position % 8):
            path = damaged(lake, stored, position, flip)
            found = by_worker(lake, path, stored.schema)
            if isinstance(found, TaskFailure):
                told[found.condition] += 1
                assert (found.kind, path in found.message) == ("infrastructure", True)
                assert "`headgate fsck --contents --repair`" in found.message
            else:
                assert found == stored.rows, f"byte {position} of {len(stored.data)}, flip {flip}"
    assert set(told) == {"lake-file-damaged"}
    assert told.total() > len(part_of(stored.pages, SHARE))


SQL = {
    "all": "SELECT * FROM v",
    "filtered": "SELECT * FROM v WHERE k >= 100 AND k < 200",
    "grouped": "SELECT text, count(*) AS n, sum(amount) AS amount FROM v GROUP BY text",
}


def outcome(
    lake: Lake, path: str, schema: Schema, sql: str
) -> list[dict[str, Any]] | dict[str, Any]:
    inputs = {"t": {"view": "v", "mode": "all", "schema": schema}}
    (result,) = lake.run("transform", query(sql, inputs=inputs, shared={"t": [path]}), [{}])
    return dict(failed(result)) if result["state"] == "failed" else lake.rows(result)


@pytest.mark.parametrize("what", sliced(SQL, 3))  # the same damages under other queries
def test_a_driver_never_reads_other_rows(lake: Lake, stored: Stored, what: str) -> None:
    wanted = outcome(lake, stored.path, stored.schema, SQL[what])
    between = range(stored.pages.stop, stored.footer.start)
    damages = 0
    for position in (*evenly(stored.pages, 7), *evenly(between, 2), *evenly(stored.footer, 4)):
        path = damaged(lake, stored, position)
        found = outcome(lake, path, stored.schema, SQL[what])
        if isinstance(found, list):
            assert found == wanted, f"byte {position}"
            continue
        damages += 1
        assert (found["kind"], found["condition"]) == ("infrastructure", "lake-file-damaged"), found
        assert path in found["message"]
        assert "`headgate fsck --contents --repair`" in found["message"]
    assert damages >= 5


def test_a_stream_of_records_ends_with_an_error(lake: Lake, stored: Stored) -> None:
    path = damaged(lake, stored, stored.pages[len(stored.pages) // 2])
    columns = [field["name"] for field in stored.schema["fields"]]
    wanted = WantedRows(
        [path], stored.schema, columns, None, 0, limit=None, rendering=Rendering("json")
    )
    with (
        closing(RecordPool(lake.root.as_uri())) as pool,
        pytest.raises(OSError, match="the file is damaged"),
    ):
        list(RecordRenderer(pool)(wanted))


def test_files_without_checksums_are_read_as_before(lake: Lake, tmp_path: Path) -> None:
    """Such as those that were written by earlier versions."""
    path, rows = tmp_path / "old.parquet", pa.table({"k": [1, 2]})
    pq.write_table(rows, path, write_page_checksum=False)
    check_whole(str(path), "old")
    assert pa.Table.from_batches(batches([str(path)], rows.schema)) == rows
