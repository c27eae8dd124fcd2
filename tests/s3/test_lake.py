"""The data plane's lake on a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.contract.claims import CONTRACT, PackClaim
from dataplane.fragments.arrow import batches
from dataplane.fragments.statistics import file_entry, read_footer
from dataplane.runtime.manifest import write_manifest
from dataplane.storage.lake import Lake, LocalLake, open_lake
from dataplane.storage.remote_lake import RemoteLake
from tests.unit.lake.tables import struct

ROWS = 300_000  # more than one buffer
SCHEMA = struct(n="long")


@pytest.fixture
def lake(uri: str) -> RemoteLake:
    found = open_lake(uri)
    assert isinstance(found, RemoteLake)
    return found


def put(lake: Lake, path: str, table: pa.Table) -> int:
    with lake.new_file(path) as file:
        pq.write_table(table, file, compression="none")
        return file.stat().st_size


def test_files_are_listed_measured_and_read(lake: Lake) -> None:
    path = "att/_job-0/_fragment=x/part-0.parquet"
    size = put(lake, path, pa.table({"n": range(ROWS)}))
    assert lake.sizes("att") == {path: size}
    settled = lake.settle("att/_job-0", "att")
    assert list(settled) == ["x"]
    [(path, told)] = settled["x"].items()  # where a rename costs nothing, at another place
    assert told == size
    entry = file_entry(lake, path, size, SCHEMA)
    assert (entry["rows"], entry["stats"]["minValues"], entry["stats"]["maxValues"]) == (
        ROWS,
        {"n": 0},
        {"n": ROWS - 1},
    )
    read = batches([lake.open(path)], pa.schema([("n", pa.int64())]), ROWS - 2)
    assert [n for batch in read for n in batch.column(0).to_pylist()] == [ROWS - 2, ROWS - 1]


def test_a_footer_that_is_larger_than_what_is_read_at_first(lake: Lake) -> None:
    wide = pa.table({f"column_{i:05}": [i] for i in range(2000)})
    size = put(lake, "wide.parquet", wide)
    assert read_footer(lake, "wide.parquet", size).num_columns == 2000


def test_deleting_what_is_there_and_what_is_not(lake: Lake) -> None:
    for name in ("a/1.parquet", "a/2.parquet", "b/3.parquet"):
        assert lake.put_if_absent(name, b"x")
    lake.delete(["a/1.parquet", "a/none.parquet"])
    lake.delete([])
    assert lake.sizes("a") == {"a/2.parquet": 1}
    lake.delete_folder("a")
    lake.delete_folder("none")
    assert (lake.sizes("a"), lake.sizes("b")) == ({}, {"b/3.parquet": 1})


def test_a_file_that_was_not_written_is_not_there(lake: RemoteLake) -> None:
    with lake.new_file("a/b.jsonl.gz"):
        pass
    assert lake.sizes("") == {}


def test_sizes_are_asked_for_as_far_as_they_matter(lake: Lake) -> None:
    for i in range(3):
        lake.put_if_absent(f"{i}.parquet", b"x" * 10)
    paths = [f"{i}.parquet" for i in range(3)]
    assert lake.size_bytes(paths, 100) == 30
    assert lake.size_bytes(paths, 5) == 6
    # Many files are not small, whatever their sizes
    assert lake.size_bytes(["0.parquet"] * 50, 1000) == 1001


def test_a_manifest_is_put_once(uri: str, tmp_path: Path) -> None:
    claim: PackClaim = {
        "contract": CONTRACT,
        "attempt": "a1",
        "dataset": "f.d",
        "prefix": "default/f/d/_frags/00/a1",
        "lake": uri,
        "lease_s": 1.0,
        "kind": "pack",
        "job": {"schema": SCHEMA, "sort_by": []},
        "tasks": [],
    }
    for lake in (open_lake(uri), LocalLake(tmp_path)):
        assert write_manifest(lake, claim, [])
        assert write_manifest(lake, claim, [])  # the same again is no other
        assert not write_manifest(lake, claim, [{"task": "00", "epoch": 1, "state": "void"}])


def test_errors_are_words(lake: RemoteLake, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="NoSuchKey"):
        read_footer(lake, "none.parquet", 100)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(OSError, match="SignatureDoesNotMatch: ") as e:
        open_lake(uri).put_if_absent("x", b"y")
    assert "not-the-secret" not in str(e.value)
