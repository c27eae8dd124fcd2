"""Rows with one long text, which each has: a Parquet file of a few bytes, gigabytes in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.fragments import arrow
from dataplane.fragments.arrow import BATCH_BYTES, batches, raw_batches
from dataplane.fragments.content_local import hashes
from tests.unit.lake.memory import peak_bytes

ROWS = 3_000
MB = 1 << 20


def repeated(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))


def long_columns() -> dict[str, pa.Array]:
    offsets = pa.array(range(0, 3 * ROWS + 1, 3), pa.int32())
    text = repeated("x" * 200_000, ROWS)
    return {
        "text": text,
        "list": pa.ListArray.from_arrays(offsets, repeated("y" * 100_000, 3 * ROWS)),
        "struct": pa.StructArray.from_arrays([text, pa.array(range(ROWS))], ["a", "b"]),
    }


@pytest.fixture(params=["text", "list", "struct"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "rows.parquet")
    table = pa.table({"n": range(ROWS), "c": long_columns()[request.param]})
    pq.write_table(table, path, compression="zstd", store_schema=False, write_page_checksum=True)
    return path


def sizes(rows: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """The number of rows, and the bytes of the largest batch."""
    count = largest = 0
    for batch in rows:
        count, largest = count + batch.num_rows, max(largest, batch.nbytes)
    return count, largest


def test_batches_are_bounded_in_bytes(file: str) -> None:
    with peak_bytes() as raw:
        count, largest = sizes(raw_batches(file))
    assert (count, largest <= BATCH_BYTES + MB, raw.peak < 4 * BATCH_BYTES) == (ROWS, True, True)
    schema = pq.read_schema(file)
    with peak_bytes() as under_schema:
        count, largest = sizes(batches([file], schema, skip=100))
    assert (count, largest <= BATCH_BYTES + MB) == (ROWS - 100, True)
    assert under_schema.peak < 4 * BATCH_BYTES


def test_wide_rows_of_numbers_are_bounded_too(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    column = pa.array([7] * 20_000)
    pq.write_table(pa.table({f"c{i}": column for i in range(500)}), path)
    count, largest = sizes(raw_batches(path))
    assert (count, largest <= BATCH_BYTES + MB) == (20_000, True)


NESTED = pa.schema(
    {
        "s": pa.string(),
        "b": pa.binary(),
        "l": pa.list_(pa.string()),
        "m": pa.map_(pa.string(), pa.list_(pa.string())),
        "t": pa.struct({"a": pa.string(), "n": pa.int64()}),
        "n": pa.int64(),
    }
)


def nested_rows(count: int) -> list[dict[str, Any]]:
    chance = np.random.default_rng(7)

    def text() -> str | None:
        kind = int(chance.integers(0, 8))
        return None if kind == 0 else "é" * kind if kind < 7 else f"{chance.integers(0, 1 << 40)}"

    def texts() -> list[str | None] | None:
        return (
            None if chance.integers(0, 5) == 0 else [text() for _ in range(chance.integers(0, 4))]
        )

    return [
        {
            "s": text(),
            "b": None if (body := text()) is None else body.encode(),
            "l": texts(),
            "m": [(f"k{i}", texts()) for i in range(chance.integers(0, 3))] or None,
            "t": None if chance.integers(0, 5) == 0 else {"a": text(), "n": number},
            "n": number,
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("page", [MB, 100])
def test_rows_are_the_same_in_any_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """With a small page, texts after the first ones stand in no dictionary."""
    path = str(tmp_path / "rows.parquet")
    table = pa.Table.from_pylist(nested_rows(2_000), schema=NESTED)
    pq.write_table(table, path, row_group_size=700, dictionary_pagesize_limit=page)
    read = pq.read_table(path)
    monkeypatch.setattr(arrow, "BATCH_BYTES", 1_000)
    parts = list(raw_batches(path))
    assert (len(parts) > 100, pa.Table.from_batches(parts)) == (True, read)
    under_schema = pa.Table.from_batches(list(batches([path], NESTED)))
    assert under_schema == read.cast(NESTED)


def test_one_long_text_beside_many_short_ones_is_hashed_in_little_memory() -> None:
    texts = [f"text {number}" for number in range(5_000)]
    texts[77] = "x" * 100_000
    values = pa.array(texts)
    tracemalloc.start()
    try:
        words = hashes("string", values)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * MB
    alone = [
        int(hashes("string", pa.array([text]))[0]) for text in (texts[0], texts[77], texts[-1])
    ]
    assert [int(words[place]) for place in (0, 77, -1)] == alone
