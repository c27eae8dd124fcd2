"""A hundred thousand small objects: listed as a stream, and again without a look at any; grouped, few partitions."""

from __future__ import annotations

import time
from pathlib import Path

import obstore
import pytest

from dataplane.contract import Json, ListingResult
from dataplane.listing import list_files
from dataplane.stores import Access, open_root
from dataplane.versions import Versions
from tests.s3.conftest import point
from tests.servers.s3 import S3

pytestmark = pytest.mark.soak
FOLDERS, EACH = 100, 1000


@pytest.fixture(scope="module")
def many(s3: S3) -> str:
    root = s3.home / "data" / "lake" / "many"
    for folder in range(FOLDERS):
        (root / f"{folder:03}").mkdir(parents=True)
        for number in range(EACH):
            (root / f"{folder:03}" / f"{number:04}.json").write_bytes(b'{"n": 1}\n')
    return "s3://lake/many"


def listed(uri: str, cache: Versions, place: Path | None = None, settings: Json = None) -> tuple[ListingResult, float]:
    job = {"location": f"{uri}/*/*.json", "format": "json", "options": {}, "settings": settings}
    began = time.perf_counter()
    found = list_files(job, cache, None if place is None else lambda: place)
    return found, time.perf_counter() - began


def test_a_hundred_thousand_objects(many: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point(monkeypatch, s3.environment())
    open_root.cache_clear()
    cache = Versions(tmp_path / "versions.db")
    first, first_s = listed(many, cache, tmp_path / "first")
    again, again_s = listed(many, cache, tmp_path / "again")
    began = time.perf_counter()
    bare = sum(len(page) for page in obstore.list(open_root("s3://lake", Access()), prefix="many", chunk_size=1000))
    bare_s = time.perf_counter() - began
    assert first["objects"] == again["objects"] == bare == FOLDERS * EACH
    assert first["digest"] == again["digest"]
    print(f"first {first_s:.1f} s, again {again_s:.1f} s, by obstore alone {bare_s:.1f} s")  # noqa: T201
    by_folder, _ = listed(many, cache, settings={"group.by": "folder"})
    by_size, _ = listed(many, cache, settings={"group.by": "size", "group.bytes": 64 << 20})
    assert len(by_folder["partitions"]) == FOLDERS
    assert len(by_size["partitions"]) <= 200
