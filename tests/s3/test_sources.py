"""Listing source files in an object store: what a path finds, what a version tells, and no shorter
listing, ever."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import obstore
import pyarrow as pa
import pytest

from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.files import check_folder, list_files
from dataplane.listing.page_buffer import Pages, stored_objects
from dataplane.listing.version_cache import Versions
from dataplane.storage.source_stores import (
    StoreAccess,
    is_as_listed,
    modified_ms,
    open_root,
    version_by,
    version_of,
)
from dataplane.task_failures import TaskFailure
from tests.s3.conftest import point
from tests.servers.faulty import Faulty, Kind
from tests.servers.s3 import S3

NAMES = [
    "a.csv",
    "b.csv",
    "_hidden.csv",
    "x/a.csv",
    "x/y/b.csv",
    "x/_z/c.csv",
    "100%.csv",
    "q?u#e ä🎉+.csv",
]

TOLD = pa.schema(
    {
        "path": pa.string(),
        "last_modified": pa.timestamp("us", "UTC"),
        "size": pa.uint64(),
        "e_tag": pa.string(),
    }
)


def put(uri: str, name: str, body: bytes = b"k,v\n1,2\n") -> None:
    root, _, folder = uri.removeprefix("s3://").partition("/")
    obstore.put(
        open_root(f"s3://{root}", StoreAccess()), f"{folder}/{name}", body, use_multipart=False
    )


def job(location: str, **more: Any) -> ListJob:
    plain = {"location": location, "format": "csv", "options": {"header": True}, "partition": None}
    return cast("ListJob", plain | more)


def listed(location: str, cache: Versions | None = None, **more: Any) -> list[ListedPartition]:
    return list_files(job(location, **more), cache or Versions())["partitions"]


def names(location: str, **more: Any) -> list[str]:
    return [o["name"] for p in listed(location, **more) for o in p["objects"]]


@pytest.fixture
def data(uri: str) -> str:
    open_root.cache_clear()  # another test may have come by another way
    for name in NAMES:
        put(uri, name)
    return uri


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/*.csv", ["100%.csv", "a.csv", "b.csv", "q?u#e ä🎉+.csv"]),
        ("/", ["100%.csv", "a.csv", "b.csv", "q?u#e ä🎉+.csv"]),
        ("/**/b.csv", ["b.csv", "x/y/b.csv"]),
        ("/{a,x/a}.csv", ["a.csv", "x/a.csv"]),
        ("/x", ["x/a.csv"]),
        ("/_hidden.csv", ["_hidden.csv"]),
        ("/none/*.csv", []),
    ],
)
def test_paths_find_what_they_find_among_local_files(
    data: str, path: str, expected: list[str]
) -> None:
    assert names(data + path) == sorted(expected)


def test_a_regex_chooses_among_what_a_path_finds(data: str) -> None:
    assert names(f"{data}/**", settings={"regex": "(x/)?[ab][.]csv"}) == [
        "a.csv",
        "b.csv",
        "x/a.csv",
    ]


def test_keys_columns_and_versions(data: str) -> None:
    put(data, "m/1-a.csv", b'"k","w"\n')
    put(data, "m/1-b.csv", b"k,v\n")
    (part,) = listed(f"{data}/m/*.csv", partition="{n}-*.csv")
    assert part["key"] == "1"
    one, two = part["objects"]
    assert (one["uri"], one["size"], one["columns"]) == (f"{data}/m/1-a.csv", 8, ["k", "w"])
    assert two["columns"] == ["k", "v"]
    put(data, "m/1-b.csv", b"k,v\n")
    assert listed(f"{data}/m/*.csv", partition="{n}-*.csv")[0]["source"] == part["source"]
    put(data, "m/1-b.csv", b"k,u\n")
    assert listed(f"{data}/m/*.csv", partition="{n}-*.csv")[0]["source"] != part["source"]


def test_another_declared_address_is_another_version(data: str, s3: S3) -> None:
    (here,), (there,) = (
        listed(f"{data}/a.csv"),
        listed(f"{data}/a.csv", settings={"storage.endpoint": s3.url}),
    )
    assert here["objects"][0]["version"] != there["objects"][0]["version"]


def test_what_was_seen_is_not_looked_into_again(data: str, line: Faulty, tmp_path: Path) -> None:
    open_root.cache_clear()
    cache = Versions(tmp_path / "versions.db")
    first = listed(f"{data}/*.csv", cache)
    line.asked.clear()
    assert listed(f"{data}/*.csv", cache) == first
    assert [method for method, path in line.asked if "list-type" not in path] == []
    put(data, "a.csv", b"k,v,w\n")
    line.asked.clear()
    assert listed(f"{data}/*.csv", cache)[1]["objects"][0]["columns"] == ["k", "v", "w"]
    assert len([path for _, path in line.asked if "list-type" not in path]) == 1


def test_a_bucket_that_did_not_change_is_told_by_a_digest(
    data: str, line: Faulty, tmp_path: Path
) -> None:
    open_root.cache_clear()
    cache = Versions(tmp_path / "versions.db")
    first = list_files(job(f"{data}/**/*.csv"), cache)
    told, known = {k: v for k, v in first.items() if k != "partitions"}, {"was": first["digest"]}
    line.asked.clear()
    assert list_files(job(f"{data}/**/*.csv", **known), cache) == told
    assert ["list-type" in path for _, path in line.asked] == [True]
    assert "partitions" in list_files(job(f"{data}/**/*.csv", was="00"), cache)
    assert "partitions" in list_files(job(f"{data}/*.csv", **known), cache)
    put(data, "x/y/b.csv", b"k,v\n1,3\n")
    assert list_files(job(f"{data}/**/*.csv", **known), cache)["digest"] != first["digest"]


def test_pages_give_what_objects_are_one_by_one(data: str) -> None:
    """Times above all, which are numbers in a page."""
    root, access = open_root("s3://lake", StoreAccess()), StoreAccess()
    folder = data.removeprefix("s3://lake/")
    metas = {o["path"]: o for page in obstore.list(root, prefix=folder) for o in page}
    pages = [
        pa.record_batch(page)
        for page in obstore.list(root, prefix=folder, chunk_size=3, return_arrow=True)
    ]
    found = [one for page in pages for one in stored_objects(page)]
    assert len(pages) > 1
    assert {
        o.path: (o.size, o.modified_ms, version_by(o.etag, o.size, o.modified_ms, access))
        for o in found
    } == {
        path: (meta["size"], modified_ms(meta), version_of(meta, access))
        for path, meta in metas.items()
    }


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_pages_come_back_and_only_equal_ones_look_alike(size: int) -> None:
    def pages(last_ms: int, etag: str | None) -> Pages:
        found = Pages()
        for start in range(0, size, 1000):
            names = [f"{n}" * 100 for n in range(start, min(start + 1000, size))]
            times = [datetime.fromtimestamp((len(n) + last_ms) / 1000, UTC) for n in names]
            columns = {
                "path": names,
                "last_modified": times,
                "size": [1] * len(names),
                "e_tag": [etag] * len(names),
            }
            found.add(pa.record_batch(columns, schema=TOLD))
        return found

    with pages(5, "e") as one, pages(5, "e") as same, pages(6, "e") as touched:
        assert [o.modified_ms - len(o.path) for o in one.objects()] == [5] * size
        assert (one.text, bool(one.text)) == (same.text, True)
        assert (one.text != touched.text) == (size > 0)
    for etag in (None, ""):
        with pages(5, etag) as timed:
            assert bool(timed.text) == (size == 0), "two changes may fall into one tick of a clock"


@pytest.mark.parametrize(("listed", "asked"), [('"1"', '"1"'), ("0x1", '"0x1"'), ('"0x1"', "0x1")])
def test_quotation_marks_are_no_part_of_an_etag(listed: str, asked: str) -> None:
    """Stores differ in where they put them."""
    there = {"size": 3, "e_tag": asked, "last_modified": datetime.fromtimestamp(0, UTC)}
    for etag, is_same in ((listed, True), (f"{listed}2", False)):
        version = version_by(etag, 3, 0, StoreAccess())
        found: SourceObject = {
            "name": "a", "uri": "s3://lake/a", "size": 3, "modified_ms": 0, "version": version, "columns": None,
        }  # fmt: skip
        assert is_as_listed(there, found, StoreAccess()) == is_same


def failure(location: str, **more: Any) -> TaskFailure:
    with pytest.raises(TaskFailure) as caught:
        listed(location, **more)
    return caught.value


def test_what_is_in_the_way_is_told_in_words(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failure("s3://nowhere/x/*.csv").condition == "bucket-missing"
    assert failure(f"{data}/missing.csv").condition == "path-not-found"
    assert failure(f"{data}/[a.csv").condition == "bad-glob"
    keys = {"storage.access_key_id": "secret://s/id", "storage.secret_access_key": "secret://s/key"}
    assert failure(f"{data}/*.csv", settings=keys).condition == "secret-missing"
    monkeypatch.setenv("HEADGATE_SECRET_S_ID", "nobody")
    monkeypatch.setenv("HEADGATE_SECRET_S_KEY", "wrong")
    assert failure(f"{data}/*.csv", settings=keys).condition == "credentials-refused"
    away = failure(f"{data}/*.csv", settings={**keys, "storage.endpoint": "http://127.0.0.1:1"})
    assert (away.condition, away.kind) == ("unreachable", "infrastructure")


def test_a_connection_is_tried(data: str) -> None:
    check_folder({"connector": "files", "place": f"{data}/*.csv", "options": {}, "writes": False})
    with pytest.raises(TaskFailure) as caught:
        check_folder(
            {"connector": "files", "place": "s3://nowhere/x/*.csv", "options": {}, "writes": False}
        )
    assert caught.value.condition == "bucket-missing"


def test_a_listing_that_breaks_off_is_none(
    data: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand and some objects, which are two pages, the second one is cut or refused for
    good."""
    folder = s3.home / "data" / data.removeprefix("s3://") / "many"
    folder.mkdir()
    for number in range(1100):
        (folder / f"{number:04}.txt").write_bytes(b"x")
    line = Faulty(s3.port)
    point(monkeypatch, s3.environment(line.url))
    try:
        kinds: tuple[Kind, ...] = ("cut", "slow-down")
        for kind in kinds:
            open_root.cache_clear()
            fault = line.add(kind, "GET", "continuation-token", times=50)
            with pytest.raises(TaskFailure) as caught:
                list_files(job(f"{data}/many/*", format="text"), Versions())
            assert caught.value.kind == "infrastructure"
            assert fault.met > 0
            fault.times = 0
        assert list_files(job(f"{data}/many/*", format="text"), Versions())["objects"] == 1100
    finally:
        line.close()
        open_root.cache_clear()
