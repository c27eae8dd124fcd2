"""A location that looks as it did: the worker says just that, whatever there is, and only to who
knows what it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from controlplane.lake.lake_objects import LocalObjects
from controlplane.store import open_store, upgrade
from dataplane.contract.claims import ListClaim
from dataplane.contract.jobs import ListJob
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListingResult
from dataplane.listing.files import list_files
from dataplane.listing.page_buffer import Pages
from dataplane.listing.version_cache import Versions
from tests.unit.listing.location import Location
from tests.unit.listing.test_listing import later

MOST_STATEMENTS = 40  # of asking, claiming and reporting, most of them for the task and its attempt
MOST_BYTES = 400  # of a report's result


@dataclass(slots=True)
class Watched:
    """A folder that a worker lists, and what the control plane knows of it."""

    folder: Path
    known: Location
    cache: Versions

    def look(self) -> tuple[ListClaim, ListingResult]:
        claim = self.known.claim()
        job: ListJob = {
            **claim["job"],
            "location": f"{self.folder}/*",
            "format": "text",
            "options": {},
        }
        return claim, list_files(job, self.cache, lambda: self.known.place(claim))

    def list(self) -> ListingResult:
        claim, result = self.look()
        self.known.report(claim, result)
        return result

    def put(self, *names: str) -> None:
        for name in names:
            (self.folder / name).write_text(name)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / "data").mkdir()
    url = f"sqlite:///{tmp_path}/metadata.db"
    upgrade(url)
    store = open_store(url)
    cache = Versions(tmp_path / "cache" / "versions.db", later)
    yield Watched(tmp_path / "data", Location(store, LocalObjects(tmp_path / "lake")), cache)
    store.close()


def is_reported(result: ListingResult) -> bool:
    return "partitions" in result or "file" in result


def test_what_did_not_change_costs_the_same_however_much_there_is(watched: Watched) -> None:
    costs = []
    for count in (20, 400):
        watched.put(*(f"{n:04}" for n in range(count)))
        assert is_reported(watched.list())
        before, told = watched.known.listing, watched.known.event()
        statements = watched.known.store.statements
        result = watched.list()
        costs.append(watched.known.store.statements - statements)
        assert not is_reported(result)
        assert len(json.dumps(result)) < MOST_BYTES
        after = watched.known.listing
        assert (after.root, after.digest, after.objects, after.error) == (
            before.root,
            before.digest,
            count,
            None,
        )
        assert watched.known.event() == told
        assert [p for p in watched.known.lake.root.rglob("*") if p.is_file()] == []
    assert costs[0] == costs[1] <= MOST_STATEMENTS


def rewritten(folder: Path) -> None:
    file = folder / "a"
    status = file.stat()
    file.write_text("b")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(folder: Path) -> None:
    (folder / "_a").write_text("b")
    (folder / "_a").rename(folder / "a")


@pytest.mark.parametrize(
    "change",
    [
        rewritten,
        replaced,
        lambda folder: (folder / "c").write_text(""),
        lambda folder: (folder / "b").unlink(),
        lambda folder: (folder / "b").rename(folder / "c"),
        lambda folder: (folder / "c").symlink_to(folder / "a"),
    ],
    ids=["rewritten", "replaced", "late", "gone", "renamed", "linked"],
)
def test_what_changed_is_told(watched: Watched, change: Callable[[Path], object]) -> None:
    watched.put("a", "b")
    watched.list()
    change(watched.folder)
    assert is_reported(watched.list())
    changed: Json = watched.known.event().body["changed"]
    assert changed > 0
    assert not is_reported(watched.list())


def test_what_was_not_taken_in_is_told_again(watched: Watched) -> None:
    names = [f"{n}" for n in range(30)]
    watched.put(*names)
    watched.list()
    for name in names[:20]:
        (watched.folder / name).unlink()
    for _ in range(2):
        assert is_reported(watched.list())
        assert watched.known.listing.held is not None
    watched.known.accept_deletes()
    assert is_reported(watched.list())
    assert watched.known.listing.objects == 10
    assert not is_reported(watched.list())


def test_what_is_known_by_now_is_another_thing(watched: Watched) -> None:
    """The location is asked for again, and nothing is taken for gone."""
    watched.put("a")
    watched.list()
    claim, result = watched.look()
    assert not is_reported(result)
    watched.known.report(claim, {**result, "digest": "00" * 32})
    assert watched.known.event().kind == "listing.repeated"
    assert (watched.known.listing.objects, watched.known.listing.is_open) == (1, True)


def test_fresh_files_may_change_unseen(watched: Watched) -> None:
    watched.put("a")
    watched.cache = Versions(watched.folder.parent / "versions.db", time.time_ns)
    watched.list()
    assert is_reported(watched.list())


def test_a_broken_memory_is_none(watched: Watched) -> None:
    watched.put("a")
    watched.list()
    (watched.folder.parent / "cache" / "versions.db").write_bytes(
        b"no database, but long enough to be taken for one"
    )
    assert is_reported(watched.list())
    assert not is_reported(watched.list())


@pytest.mark.parametrize(("tags", "is_reported"), [(["a", "b"], True), (["a", None], False)])
def test_objects_without_a_tag_may_have_changed_within_one_tick(
    tags: list[str | None], is_reported: bool
) -> None:
    at = pa.array([0, 0], pa.timestamp("us", "UTC"))
    with Pages() as pages:
        pages.add(
            pa.record_batch(
                {"path": ["x", "y"], "size": [1, 1], "last_modified": at, "e_tag": tags}
            )
        )
        assert bool(pages.text) is is_reported
