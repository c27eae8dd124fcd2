"""Folders `key=value` in a listing: which are keys, what they say, and that all files agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane.contract.jobs import ListJob
from dataplane.contract.key_folders import key_folders
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListingResult
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from dataplane.task_failures import TaskFailure
from tests.unit.listing.location import list_job

NAMES = {
    "a.csv": [],
    "k=1/a.csv": [("k", "1")],
    "k=1/sub/l=b=c/a.csv": [("k", "1"), ("l", "b=c")],
    "a=b.csv": [],
    "=1/a.csv": [],
    "k=/a.csv": [("k", "")],
    "k=__HEADGATE_EMPTY__/a.csv": [("k", "")],
    "k=__HIVE_DEFAULT_PARTITION__/a.csv": [("k", None)],
    "k=%5F_HIVE_DEFAULT_PARTITION__/a.csv": [("k", "__HIVE_DEFAULT_PARTITION__")],
    "fl%C3%BCss=a%2Fb%3D%25/a.csv": [("flüss", "a/b=%")],
    "k=100%/a.csv": [("k", "100%")],
    "k=%FF/a.csv": [("k", "%FF")],
    "day%3D2013-01/a.csv": [],
}


@pytest.mark.parametrize("name", NAMES)
def test_keys_and_texts_of_a_name(name: str) -> None:
    assert key_folders(name) == NAMES[name]


def listed(folder: Path, *names: str, is_on: bool = True, **job: Json) -> ListingResult:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("id\n1\n")
    settings = {"hive_partitioning": True} if is_on else {}
    return list_files(job_of(folder, settings, **job), Versions())


def job_of(folder: Path, settings: Json, **job: Json) -> ListJob:
    return list_job(f"{folder}/**", **{"options": {"header": "true"}, **job}, settings=settings)


def test_folders_above_the_fixed_one_are_no_columns(tmp_path: Path) -> None:
    found = listed(tmp_path / "year=2024", "k=1/a.csv")
    [partition] = found["partitions"]
    assert dict(partition["objects"][0]["folders"]) == {"k": "1"}
    assert found["columns"] == [["id", "k"]]


def test_values_identify_the_source_and_the_rest_of_the_name_does_not(tmp_path: Path) -> None:
    found = listed(tmp_path, "k=1/a.csv", "k=1/b/c.csv", "k=2/a.csv", "d.csv")
    sources = {p["key"]: p["source"] for p in found["partitions"]}
    off = {p["key"]: p["source"] for p in listed(tmp_path, is_on=False)["partitions"]}
    assert sources["k%3D1/a.csv"] == sources["k%3D1/b/c.csv"] != sources["k%3D2/a.csv"]
    assert {*off.values()} == {sources["d.csv"]}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("k=1/a.csv", "l=1/a.csv"), ("k=1/a.csv", "l=1/a.csv", "k=", "l=")),
        (("k=1/l=1/a.csv", "k=1/a.csv"), ("k=/l=",)),
        (("k=1/l=1/a.csv", "l=1/k=1/b.csv"), ("l=/k=",)),
        (("k=1/k=2/a.csv",), ("two folders", "'k'")),
    ],
)
def test_files_with_other_keys_are_refused(
    tmp_path: Path, names: tuple[str, ...], words: tuple[str, ...]
) -> None:
    with pytest.raises(TaskFailure) as caught:
        listed(tmp_path, *names)
    assert caught.value.condition == "folder-keys-differ"
    assert all(word in caught.value.message for word in (*words, "hive_partitioning: false"))
    assert listed(tmp_path, is_on=False)["objects"] == len(names)


def test_a_file_outside_has_no_columns_of_folders_unless_columns_have_places(
    tmp_path: Path,
) -> None:
    found = listed(tmp_path, "a.csv", "k=1/a.csv")
    assert found["columns"] == [["id"], ["id", "k"]]
    with pytest.raises(TaskFailure) as caught:
        listed(tmp_path, options={})
    assert caught.value.condition == "folder-keys-differ"
    assert "no key" in caught.value.message


def test_a_column_of_the_file_comes_once(tmp_path: Path) -> None:
    (tmp_path / "id=1").mkdir()
    (tmp_path / "id=1/a.csv").write_text("k,id\n1,1\n")
    assert list_files(job_of(tmp_path, {"hive_partitioning": True}), Versions())["columns"] == [
        ["k", "id"]
    ]
