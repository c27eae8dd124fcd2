"""Streams of records over real fragments."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core.records.formats import Format
from controlplane.core.records.where import parse
from controlplane.operations.inspect.records import shown
from controlplane.ports.records import Rendering, WantedRows
from controlplane.services.queries.adapter.record_streams import (
    Piped,
    RecordPool,
    RecordRenderer,
    request_of,
)
from dataplane.contract.schemas import Json, Schema, Type
from dataplane.fragments.arrow import arrow_schema, batches
from dataplane.fragments.file_records import write as write_rows
from dataplane.storage.lake import open_lake
from tests.unit.lake.tables import struct
from tests.unit.queries.world import process_of

SCHEMA = struct(
    n="long",
    price="decimal(12,2)",
    at="timestamp",
    raw="binary",
    nested={
        "type": "struct",
        "fields": struct(
            x="decimal(4,1)",
            m={
                "type": "map",
                "keyType": "string",
                "valueType": "double",
                "valueContainsNull": True,
            },
        )["fields"],
    },
    late="string",
)


POOL = RecordPool("file:///")


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[None]:
    """Of all tests here, so that they start one process."""
    with closing(POOL):
        yield


def write(path: Path, first: int, count: int) -> str:
    rows = [
        {
            "n": n,
            "price": Decimal("1.10"),
            "at": datetime(2013, 1, 1, 12, tzinfo=UTC),
            "raw": b"\x00",
            "nested": {"x": Decimal("2.5"), "m": [("k", float("nan")), ("l", None)]},
        }
        for n in range(first, first + count)
    ]
    nested = pa.struct([("x", pa.decimal128(4, 1)), ("m", pa.map_(pa.string(), pa.float64()))])
    types = [pa.int64(), pa.decimal128(12, 2), pa.timestamp("us", "UTC"), pa.binary(), nested]
    schema = pa.schema(list(zip(["n", "price", "at", "raw", "nested"], types, strict=True)))
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path.name


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [write(tmp_path / "a.parquet", 0, 3), write(tmp_path / "b.parquet", 3, 2)]


def wanted(files: list[str], format: Format, schema: Schema = SCHEMA, **other: Any) -> WantedRows:
    columns = [field["name"] for field in schema["fields"]]
    return replace(
        WantedRows(files, schema, columns, None, 0, limit=None, rendering=Rendering(format)),
        **other,
    )


def read(
    root: Path, files: list[str], format: Format, schema: Schema = SCHEMA, **other: Any
) -> bytes:
    return b"".join(
        RecordRenderer(POOL)(wanted([str(root / name) for name in files], format, schema, **other))
    )


def test_json(tmp_path: Path, files: list[str]) -> None:
    found: list[Json] = json.loads(read(tmp_path, files, "json"))
    assert [r["n"] for r in found] == [0, 1, 2, 3, 4]
    assert found[0] == {
        "n": 0,
        "price": "1.10",
        "at": "2013-01-01T12:00:00.000000Z",
        "raw": "AA==",
        "nested": {"x": "2.5", "m": {"k": "NaN", "l": None}},
        "late": None,
    }


def test_csv(tmp_path: Path, files: list[str]) -> None:
    header, *rows = csv.reader(io.StringIO(read(tmp_path, files, "csv").decode()))
    assert header == ["n", "price", "at", "raw", "nested", "late"]
    assert len(rows) == 5
    assert rows[0] == [
        "0",
        "1.10",
        "2013-01-01T12:00:00.000000Z",
        "AA==",
        '{"x":"2.5","m":{"k":"NaN","l":null}}',
        "",
    ]


def test_arrow(tmp_path: Path, files: list[str]) -> None:
    table = pa.ipc.open_stream(read(tmp_path, files, "arrow")).read_all()
    assert table.column_names == ["n", "price", "at", "raw", "nested", "late"]
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["price"].to_pylist()[0] == Decimal("1.10")


def test_rows_that_are_only_shown_have_a_bound_of_bytes(tmp_path: Path) -> None:
    schema, long = struct(k="long", v="string"), ["€" * 3_000_000, "short"]
    pq.write_table(pa.table({"k": [1, 2], "v": long}), tmp_path / "long.parquet")
    cut, short = json.loads(
        read(tmp_path, ["long.parquet"], "json", schema, limit=20, cell_bytes=1_000)
    )
    assert (cut["k"], cut["v"]) == (1, "€" * 333 + "…")
    assert short["v"] == "short"
    for columns in (1, 50, 5_000):
        asked = shown(
            WantedRows(
                (), schema, ["v"] * columns, None, 0, limit=None, rendering=Rendering("json")
            ),
            20,
        )
        assert asked.limit == 20
        assert asked.cell_bytes is not None
        assert 20 <= asked.cell_bytes <= 10_000
        assert asked.cell_bytes * 20 * columns <= 2 << 20


@pytest.mark.parametrize(
    ("limit", "offset", "expected"),
    [
        (0, 0, []),
        (2, 0, [0, 1]),
        (2, 2, [2, 3]),
        (9, 3, [3, 4]),
        (9, 4, [4]),
        (1, 5, []),
        (1, 99, []),
    ],
)
@pytest.mark.parametrize("format", ["json", "csv", "arrow"])
@pytest.mark.parametrize("where", [None, "n >= 0"])
def test_limits(
    tmp_path: Path,
    files: list[str],
    format: Format,
    where: str | None,
    limit: int,
    offset: int,
    expected: list[int],
) -> None:
    out = io.BytesIO()
    condition = None if where is None else parse(where, SCHEMA)
    rows = wanted(
        [str(tmp_path / f) for f in files], format, where=condition, limit=limit, offset=offset
    )
    write_rows(open_lake("file:///"), request_of(rows), out)
    match format:
        case "json":
            found = [r["n"] for r in json.loads(out.getvalue())]
        case "csv":
            found = [int(r["n"]) for r in csv.DictReader(io.StringIO(out.getvalue().decode()))]
        case "arrow":
            found = pa.ipc.open_stream(out.getvalue()).read_all()["n"].to_pylist()
    assert found == expected


def test_limits_travel_to_the_process(tmp_path: Path, files: list[str]) -> None:
    assert [r["n"] for r in json.loads(read(tmp_path, files, "json", limit=2, offset=2))] == [2, 3]


def test_no_files(tmp_path: Path) -> None:
    assert json.loads(read(tmp_path, [], "json")) == []
    assert read(tmp_path, [], "csv").decode().splitlines() == [
        '"n","price","at","raw","nested","late"'
    ]
    assert pa.ipc.open_stream(read(tmp_path, [], "arrow")).read_all().num_rows == 0


def test_old_timestamps_of_spark(tmp_path: Path) -> None:
    """INT96, which Spark writes unless told otherwise, over the years that nanoseconds cannot
    hold."""
    late = pa.table({"at": pa.array([253402300799999999, -62135596800000000], pa.timestamp("us"))})
    pq.write_table(late, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    found = json.loads(read(tmp_path, ["x.parquet"], "json", struct(at="timestamp")))
    assert [r["at"] for r in found] == [
        "9999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00.000000Z",
    ]


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path, files: list[str]) -> None:
    with pytest.raises(OSError, match=r"gone\.parquet"):
        read(tmp_path, [*files, "gone.parquet"], "json")


def test_a_reader_that_goes_away_ends_the_process(tmp_path: Path) -> None:
    files = [write(tmp_path / "big.parquet", 0, 50_000)]
    with closing(RecordPool(tmp_path.as_uri())) as pool:
        pieces = RecordRenderer(pool)(wanted(files, "json"))
        assert next(pieces).startswith(b"[\n{")
        (child,) = pool._busy
        pieces.close()  # type: ignore[attr-defined]  # as its body does
        assert list(pieces) == []
        assert process_of(child).wait() == -signal.SIGKILL
        assert not pool._busy


def test_a_process_is_warm_for_the_next_body(tmp_path: Path, files: list[str]) -> None:
    (late,) = [write(tmp_path / "big.parquet", 0, 50_000)]
    forms: tuple[Format, ...] = ("json", "ndjson", "csv", "arrow", "parquet")
    with closing(RecordPool(tmp_path.as_uri())) as pool:
        render = RecordRenderer(pool)
        first = [b"".join(render(wanted(files, form))) for form in forms]
        (child,) = pool._idle
        assert [b"".join(render(wanted(files, form))) for form in forms] == first
        with pytest.raises(OSError, match=r"gone\.parquet"):
            list(render(wanted([late, "gone.parquet"], "csv")))
        assert [b"".join(render(wanted(files, form))) for form in forms] == first
        assert pool._idle == [child]
        readers = [render(wanted([late], "json")) for _ in range(4)]
        assert [next(reader)[:2] for reader in readers] == [b"[\n"] * 4
        assert [b"".join(reader)[-2:] for reader in readers] == [b"]\n"] * 4
        assert len(pool._idle) <= 2


def test_a_process_for_records_does_not_load_the_engine_of_queries(
    tmp_path: Path, files: list[str]
) -> None:
    """Its import would be two thirds of the first request."""
    with closing(RecordPool(tmp_path.as_uri())) as pool:
        assert b"".join(RecordRenderer(pool)(wanted(files, "json")))
        (child,) = pool._idle
        mapped = Path(f"/proc/{process_of(child).pid}/maps").read_text()
    assert "libarrow.so" in mapped
    assert "duckdb" not in mapped
    assert "pyarrow/_dataset." not in mapped


def test_who_closes_a_body_need_not_be_who_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never.parquet")  # which is opened and waits for a writer
    with closing(RecordPool(tmp_path.as_uri())) as pool:
        pieces, left = RecordRenderer(pool)(wanted(["never.parquet"], "json")), list[list[bytes]]()
        waiting = threading.Thread(target=lambda: left.append(list(pieces)))
        waiting.start()
        while not pool._busy:
            pass
        pieces.close()  # type: ignore[attr-defined]  # as its body does
        waiting.join()
        assert left == [[]]


def test_whoever_closes_need_not_be_who_waits(tmp_path: Path) -> None:
    waits = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")
    pieces = Piped(waits, b"")
    assert next(pieces).startswith(b"begun")
    left: list[list[bytes]] = []
    waiting = threading.Thread(target=lambda: left.append(list(pieces)))
    waiting.start()
    pieces.close()
    waiting.join()
    assert [b"".join(rest).strip() for rest in left] == [b""]


def test_one_that_was_closed_starts_no_process() -> None:
    pieces = Piped(("/no/such/command",), b"")
    pieces.close()
    assert list(pieces) == []


def test_all_that_is_asked_for_travels_to_the_process(tmp_path: Path, files: list[str]) -> None:
    asked: Any = {
        "columns": ["late", "n"],
        "where": parse("n > 0 AND price < 2", SCHEMA),
        "offset": 1,
        "limit": 2,
    }
    body = read(tmp_path, files, "parquet", rendering=Rendering("parquet", "gzip"), **asked)
    assert pq.read_table(pa.BufferReader(body)).to_pylist() == [
        {"late": None, "n": 2},
        {"late": None, "n": 3},
    ]
    coded = read(tmp_path, files, "ndjson", rendering=Rendering("ndjson", coding="gzip"), **asked)
    assert gzip.decompress(coded).splitlines() == [b'{"late":null,"n":2}', b'{"late":null,"n":3}']


@pytest.mark.parametrize("name", ["a", "a.b", "a.b.c", "", "m", "lacking"])
def test_columns_are_read_by_their_whole_names(tmp_path: Path, name: str) -> None:
    """Arrow divides names at dots where it selects columns of a file."""
    inner: Type = struct(b="long", c="long")
    pairs: Type = {
        "type": "map",
        "keyType": "string",
        "valueType": "long",
        "valueContainsNull": True,
    }
    row = {"a": {"b": 1, "c": 2}, "a.b": 5, "a.b.c": 6, "": 7, "m": [("k", 1)]}
    types: dict[str, Type] = {
        "a": inner,
        "a.b": "long",
        "a.b.c": "long",
        "": "long",
        "m": pairs,
        "lacking": "long",
    }
    whole = arrow_schema(struct(**types))
    pq.write_table(
        pa.Table.from_pylist([row], whole).drop_columns(["lacking"]), tmp_path / "x.parquet"
    )
    (batch,) = batches([str(tmp_path / "x.parquet")], pa.schema([whole.field(name)]))
    assert batch.to_pylist() == [{name: row.get(name)}]
