"""Folders that jobs write, in a lake that moves them and in one that leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest
from obstore.store import MemoryStore

from dataplane.lakes.object_store import ObjectStoreFiles
from dataplane.storage.lake import Lake, LocalLake
from dataplane.storage.remote_lake import RemoteLake


def job_of_two(lake: Lake) -> None:
    for label in "yx":
        lake.put_if_absent(f"att/_job-1/_fragment={label}/new.parquet", b"new!")
    lake.put_if_absent("att/_job-1/_SUCCESS", b"")


def test_folders_of_a_job_replace_those_of_an_earlier_try(tmp_path: Path) -> None:
    lake = LocalLake(tmp_path)
    lake.put_if_absent("att/_fragment=x/old.parquet", b"old")
    lake.put_if_absent("att/_fragment=z/other.parquet", b"other")
    job_of_two(lake)
    settled = lake.settle("att/_job-1", "att")
    assert settled == {label: {f"att/_fragment={label}/new.parquet": 4} for label in "xy"}
    assert sorted(lake.sizes("att")) == [
        f"att/_fragment={f}.parquet" for f in ("x/new", "y/new", "z/other")
    ]


def test_where_renames_are_copies_files_stay_in_the_folder_of_their_job() -> None:
    lake = RemoteLake(ObjectStoreFiles("memory://", MemoryStore()))
    assert lake.begin("att/_job-1/_fragment=x") == "append"  # its marker is no file of the fragment
    job_of_two(lake)
    settled = lake.settle("att/_job-1", "att")
    assert settled == {label: {f"att/_job-1/_fragment={label}/new.parquet": 4} for label in "xy"}


def test_a_job_without_a_folder_is_no_job_without_rows(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LocalLake(tmp_path).settle("att/_job-1", "att")
