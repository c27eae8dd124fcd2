"""Listings of real folders: versions by content, keys, and that a listing is whole or fails."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataplane.contract.source_objects import SourceObject
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import FileReading, Versions, examine
from dataplane.task_failures import TaskFailure
from tests.unit.listing.location import list_job

HOUR_NS = 3600 * 10**9


def later() -> int:
    """A clock by which every file of a test has been at rest for long."""
    return time.time_ns() + HOUR_NS


@pytest.fixture
def cache(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "cache" / "versions.db", later)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for month in ("01", "02"):
        (folder / f"2013-{month}.csv").write_text(f"day,n\n1,{month}\n")
    return folder


def listed(
    data: Path, cache: Versions, pattern: str = "*.csv", partition: str | None = None, **job: Any
) -> Any:
    told = {
        "location": f"{data}/{pattern}",
        "options": {"header": True},
        "partition": partition,
        **job,
    }
    return list_files(list_job(**told), cache)


def versions(data: Path, cache: Versions) -> dict[str, str]:
    result = listed(data, cache)
    return {o["name"]: o["version"] for p in result["partitions"] for o in p["objects"]}


def test_a_listing(data: Path, cache: Versions) -> None:
    result = listed(data, cache)
    assert (result["objects"], result["bytes"]) == (2, 22)
    assert [p["key"] for p in result["partitions"]] == ["2013-01.csv", "2013-02.csv"]
    first: SourceObject = result["partitions"][0]["objects"][0]
    status = (data / "2013-01.csv").stat()
    assert first == {
        "name": "2013-01.csv",
        "uri": (data / "2013-01.csv").as_uri(),
        "size": 11,
        "modified_ms": status.st_mtime_ns // 1_000_000,
        "version": first["version"],
        "columns": ["day", "n"],
    }
    assert first["version"].startswith("sha256:")


def test_listing_again_reads_no_file(data: Path, cache: Versions, tmp_path: Path) -> None:
    before = listed(data, cache)
    with sqlite3.connect(tmp_path / "cache" / "versions.db") as database:
        database.execute("UPDATE seen SET version = 'sha256:remembered'")
    database.close()
    after = listed(data, cache)
    assert {o["version"] for p in after["partitions"] for o in p["objects"]} == {
        "sha256:remembered"
    }
    assert before["objects"] == after["objects"]


def test_other_settings_read_the_columns_again(data: Path, cache: Versions) -> None:
    listed(data, cache)
    result = listed(data, cache, options={"header": False})
    assert result["partitions"][0]["objects"][0]["columns"] == ["_c0", "_c1"]


def _rewrite(file: Path) -> None:
    file.write_text("day,n\n1,xx\n")


def _replace(file: Path) -> None:
    other = file.with_name("_other")
    other.write_text("day,n\n1,xx\n")
    other.rename(file)


@pytest.mark.parametrize("change", [_rewrite, _replace])
def test_equal_size_and_time_but_other_bytes(
    data: Path, cache: Versions, change: Callable[[Path], None]
) -> None:
    before, file = versions(data, cache), data / "2013-01.csv"
    status = file.stat()
    change(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    after = versions(data, cache)
    assert after["2013-01.csv"] != before["2013-01.csv"]
    assert after["2013-02.csv"] == before["2013-02.csv"]


def test_fresh_files_are_not_remembered(data: Path, tmp_path: Path) -> None:
    database = tmp_path / "versions.db"
    versions(data, Versions(database, time.time_ns))
    assert not database.exists()


def test_touched_and_renamed_files_keep_their_version(data: Path, cache: Versions) -> None:
    before = versions(data, cache)
    os.utime(data / "2013-01.csv", ns=(1, 1))
    (data / "2013-02.csv").rename(data / "renamed.csv")
    after = versions(data, cache)
    assert after == {"2013-01.csv": before["2013-01.csv"], "renamed.csv": before["2013-02.csv"]}


def test_equal_bytes_are_an_equal_version(data: Path, cache: Versions) -> None:
    (data / "copy.csv").write_bytes((data / "2013-01.csv").read_bytes())
    found = versions(data, cache)
    assert found["copy.csv"] == found["2013-01.csv"]


def test_an_empty_folder_is_an_empty_listing(tmp_path: Path, cache: Versions) -> None:
    (tmp_path / "empty").mkdir()
    result = listed(tmp_path / "empty", cache)
    assert (result["partitions"], result["objects"], result["bytes"]) == ([], 0, 0)
    assert result["digest"] == hashlib.sha256().hexdigest()


def test_a_broken_cache_is_no_cache(data: Path, tmp_path: Path) -> None:
    database = tmp_path / "versions.db"
    database.write_bytes(b"no database at all" * 100)
    cache = Versions(database, later)
    assert versions(data, cache) == versions(data, Versions(None, later)) == versions(data, cache)


def failure(data: Path, cache: Versions, pattern: str = "*.csv", **job: Any) -> TaskFailure:
    with pytest.raises(TaskFailure) as caught:
        listed(data, cache, pattern, **job)
    return caught.value


def test_a_missing_folder_fails(data: Path, cache: Versions) -> None:
    assert "does not exist" in failure(data / "gone", cache).message
    assert "2014.csv" in failure(data, cache, "2014.csv").message
    assert failure(data, cache, "2013-01.csv/*").condition == "unreadable"


def test_a_file_that_cannot_be_read_fails_the_listing(data: Path, cache: Versions) -> None:
    (data / "loop.csv").symlink_to("loop.csv")
    assert "loop.csv" in failure(data, cache).message
    (data / "loop.csv").unlink()
    (data / "dangling.csv").symlink_to(data / "nowhere")
    assert "not there (any more)" in failure(data, cache).message
    (data / "dangling.csv").unlink()
    os.mkfifo(data / "pipe.csv")
    assert failure(data, cache).condition == "not-a-file"


def test_names_that_are_not_text_fail(data: Path, cache: Versions) -> None:
    (data / os.fsdecode(b"\xff.csv")).touch()
    assert "not UTF-8" in failure(data, cache).message


@pytest.mark.parametrize(
    "location", ["s3a://bucket/*.csv", "hdfs://x/y", "ftp://example.org/a.csv"]
)
def test_other_storage_is_not_supported(cache: Versions, location: str) -> None:
    with pytest.raises(TaskFailure) as caught:
        list_files(list_job(location), cache)
    assert caught.value.condition == "not-supported"


@pytest.mark.parametrize("prefix", ["file://", "file:", ""])
def test_forms_of_local_locations(data: Path, cache: Versions, prefix: str) -> None:
    assert listed(data, cache, location=f"{prefix}{data}//*.csv")["objects"] == 2


def test_hostile_names(tmp_path: Path, cache: Versions) -> None:
    names = [
        "a b.csv",
        "a=b.csv",
        "a'b\".csv",
        "ä🎉.csv",
        "a%20.csv",
        "new\nline.csv",
        "[x].csv",
        "x" * 250 + ".csv",
    ]
    for name in names:
        (tmp_path / name).write_text("a\n")
    result = listed(tmp_path, cache)
    found = [o["name"] for p in result["partitions"] for o in p["objects"]]
    assert sorted(found) == sorted(names)
    keys = [p["key"] for p in result["partitions"]]
    assert keys == sorted(keys, key=str.encode)
    assert "a%20b.csv" in keys


def test_templates_group_files(data: Path, cache: Versions) -> None:
    (data / "2013-01-late.csv").write_text("day,n\n")
    result = listed(data, cache, "*.csv", "{year}-*.csv")
    assert [(p["key"], len(p["objects"])) for p in result["partitions"]] == [("2013", 3)]
    assert failure(data, cache, partition="{a}/{b}").condition == "no-partition"


def test_files_of_one_partition_come_together_wherever_they_lie(
    data: Path, cache: Versions
) -> None:
    for folder in ("x", "y", "z"):
        for name in ("b-1.csv", "a-1.csv", "a-2.csv"):
            (data / folder).mkdir(exist_ok=True)
            (data / folder / name).write_text(f"{folder}{name}\n")
    result = listed(data, cache, "*/*.csv", "*/{part}-*.csv")
    names = {p["key"]: [o["name"] for o in p["objects"]] for p in result["partitions"]}
    assert names == {
        "a": [f"{f}/a-{i}.csv" for f in "xyz" for i in (1, 2)],
        "b": [f"{f}/b-1.csv" for f in "xyz"],
    }
    assert [p["content"][:2] for p in result["partitions"]] == [[6, 54], [3, 27]]


def test_a_partition_is_told_apart_by_what_its_readers_see(data: Path, cache: Versions) -> None:
    before = listed(data, cache)
    os.utime(data / "2013-01.csv", ns=(1, 1))
    touched = listed(data, cache)
    (data / "2013-01.csv").rename(data / "2013-00.csv")
    moved = listed(data, cache)
    (first, *_), (second, *_), (third, *_) = (r["partitions"] for r in (before, touched, moved))
    assert (first["source"], first["content"]) == (second["source"], second["content"])
    assert first["source"] == third["source"]
    assert first["content"] != third["content"]
    assert before["digest"] != touched["digest"] != moved["digest"]


def test_times_that_enter_the_rows_tell_partitions_apart(data: Path, cache: Versions) -> None:
    (before, _) = listed(data, cache, metadata=["modified"])["partitions"]
    os.utime(data / "2013-01.csv", ns=(1, 1))
    (after, _) = listed(data, cache, metadata=["modified"])["partitions"]
    assert before["source"] != after["source"]


def test_columns_are_told_in_order_of_the_first_key(data: Path, cache: Versions) -> None:
    (data / "2013-00.csv").write_text("n\n")
    (data / "2013-03.csv").write_text("day,n\n")
    result = listed(data, cache)
    assert (result["columns"], result["all_columns"]) == ([["n"], ["day", "n"]], True)


def test_alternatives_before_any_other_glob(data: Path, cache: Versions) -> None:
    for folder in ("a", "b"):
        (data / folder).mkdir()
        (data / folder / "x.csv").write_text(folder)
    result = listed(data, cache, "{a,b}/*.csv")
    assert [p["key"] for p in result["partitions"]] == ["a/x.csv", "b/x.csv"]


class Growing(os.PathLike[str]):
    """The path of a file that grows each time that somebody opens or looks at it, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times = path, times

    def endswith(self, end: str | tuple[str, ...]) -> bool:
        return str(self.path).endswith(end)

    def __fspath__(self) -> str:
        if self.times:
            self.times -= 1
            self.path.write_bytes(self.path.read_bytes() + b"2\n")
        return str(self.path)


def test_a_version_is_that_of_a_file_at_rest(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"v\n1\n")
    reading, path = FileReading("csv", {"header": True}), tmp_path / "a.csv"
    growing: Any = Growing(path, 3)
    assert (
        examine(growing, reading).version
        == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    )
    never_at_rest: Any = Growing(path, 1000)
    with pytest.raises(TaskFailure, match="keeps changing"):
        examine(never_at_rest, reading)
