"""The data plane's lake on a real HDFS: what holds for any lake in a store, and jobs whose folders
are renamed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dataplane.fragments.statistics import read_footer
from dataplane.storage.lake import open_lake
from dataplane.storage.remote_lake import HdfsLake
from tests.s3.test_lake import (  # noqa: F401  # its tests run here on the lake below
    put,
    test_a_footer_that_is_larger_than_what_is_read_at_first,
    test_a_manifest_is_put_once,
    test_deleting_what_is_there_and_what_is_not,
    test_files_are_listed_measured_and_read,
    test_sizes_are_asked_for_as_far_as_they_matter,
)


@pytest.fixture
def lake(uri: str) -> HdfsLake:
    found = open_lake(uri)
    assert isinstance(found, HdfsLake)
    return found


def test_a_file_that_was_not_written_is_not_there(lake: HdfsLake) -> None:
    with lake.new_file("a/b.parquet"):
        pass
    assert lake.sizes("a") == {}


def test_a_job_replaces_what_an_earlier_try_of_its_attempt_left(lake: HdfsLake) -> None:
    lake.put_if_absent("att/_fragment=x/old.parquet", b"old")
    lake.put_if_absent("att/_fragment=z/other.parquet", b"other")
    for label in "xy":
        lake.put_if_absent(f"att/_job-1/_fragment={label}/new.parquet", b"new!")
    assert lake.settle("att/_job-1", "att") == {
        label: {f"att/_fragment={label}/new.parquet": 4} for label in "xy"
    }
    assert sorted(lake.sizes("att")) == [
        f"att/_fragment={f}.parquet" for f in ("x/new", "y/new", "z/other")
    ]


def test_what_is_fetched_is_what_was_put(lake: HdfsLake, tmp_path: Path) -> None:
    size = put(lake, "a.parquet", pa.table({"n": range(300_000)}))
    lake.fetch("a.parquet", tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_size == size
    assert (tmp_path / "copy").read_bytes()[-4:] == b"PAR1"


def test_errors_are_words(lake: HdfsLake) -> None:
    with pytest.raises(OSError, match="File does not exist") as e:
        read_footer(lake, "none.parquet", 100)
    assert "org.apache" not in str(e.value)
