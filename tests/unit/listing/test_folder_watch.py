"""Waiting for changes of a real folder, by the notices of the operating system."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchfiles._rust_notify import WatchfilesRustInternalError

from dataplane.contract.delta_log import LOG
from dataplane.contract.jobs import ListJob
from dataplane.listing import folder_watch
from dataplane.listing.folder_watch import (
    FolderWatch,
    FolderWatches,
    await_news,
    folder_watches,
    place_of,
)
from tests.unit.listing.location import list_job

HANGS_S = 60.0


@pytest.fixture
def watches() -> Iterator[FolderWatches]:
    watches = folder_watches()
    yield watches
    watches.close()


def held_job(folder: Path, names: str = "*.csv", wait_s: float = HANGS_S) -> ListJob:
    return list_job(f"{folder}/{names}", within_s=1.0, wait_s=wait_s)


def never() -> bool:
    return False


def waiting(job: ListJob, watches: FolderWatches, is_over: Callable[[], bool]) -> threading.Thread:
    thread = threading.Thread(target=await_news, args=(job, is_over, watches), daemon=True)
    thread.start()
    return thread


def is_held(job: ListJob, watches: FolderWatches) -> bool:
    """Whether a wait goes on until it is over."""
    calls = 0

    def is_over() -> bool:
        nonlocal calls
        calls += 1
        return calls > 2

    await_news(job, is_over, watches)
    return calls > 2


def test_the_first_wait_ends_at_once_and_the_next_one_holds(
    tmp_path: Path, watches: FolderWatches
) -> None:
    assert not is_held(held_job(tmp_path), watches)
    assert is_held(held_job(tmp_path), watches)


CHANGES: dict[str, Callable[[Path], object]] = {
    "new": lambda folder: (folder / "new.csv").write_text("b"),
    "edited": lambda folder: (folder / "old.csv").write_text("c"),
    "renamed": lambda folder: (folder / "old.csv").rename(folder / "other.csv"),
    "deleted": lambda folder: (folder / "old.csv").unlink(),
    "in a folder of that name": lambda folder: (folder / "sub.csv" / "part").write_text("d"),
    "a new folder of that name": lambda folder: (folder / "new.csv").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_ends_the_wait(change: str, tmp_path: Path, watches: FolderWatches) -> None:
    (tmp_path / "old.csv").write_text("a")
    (tmp_path / "sub.csv").mkdir()
    await_news(held_job(tmp_path), never, watches)
    thread = waiting(held_job(tmp_path), watches, never)
    CHANGES[change](tmp_path)
    thread.join(HANGS_S / 2)
    assert not thread.is_alive()


def watch_of(job: ListJob, watches: FolderWatches) -> FolderWatch:
    watch, is_new = watches.of(place_of(job))
    assert not is_new
    return watch


def test_a_change_between_two_waits_ends_the_second(tmp_path: Path, watches: FolderWatches) -> None:
    job = held_job(tmp_path)
    await_news(job, never, watches)
    (tmp_path / "new.csv").write_text("a")
    assert watch_of(job, watches).has_changed(0, HANGS_S)
    await_news(job, never, watches)
    assert is_held(job, watches), "what was seen is over"


def test_locations_of_one_folder_have_their_own_changes(
    tmp_path: Path, watches: FolderWatches
) -> None:
    first, second = held_job(tmp_path), held_job(tmp_path)
    second["listing"] = "another"
    assert not is_held(first, watches)
    assert not is_held(second, watches), "its first wait ends at once too"
    (tmp_path / "new.csv").write_text("a")
    for job in (first, second):
        assert watch_of(job, watches).has_changed(0, HANGS_S)
    for job in (first, second):
        await_news(job, never, watches)


def test_a_wait_that_was_called_off_hides_no_change(tmp_path: Path, watches: FolderWatches) -> None:
    job = held_job(tmp_path)
    await_news(job, never, watches)
    (tmp_path / "new.csv").write_text("a")
    assert watch_of(job, watches).has_changed(0, HANGS_S)
    await_news(job, lambda: True, watches)
    assert not is_held(job, watches)


@pytest.mark.parametrize(
    ("names", "other"),
    [
        ("*.csv", ".headgate/state.csv"),
        ("*.csv", "sub/a.csv"),
        ("*.csv", "a.txt"),
        ("**/*.csv", ".headgate/state.csv"),
        ("**/*.csv", "sub/a.txt"),
    ],
)
def test_what_the_glob_does_not_find_does_not_end_the_wait(
    names: str, other: str, tmp_path: Path, watches: FolderWatches
) -> None:
    file = tmp_path / other
    file.parent.mkdir(exist_ok=True)
    job = held_job(tmp_path, names)
    await_news(job, never, watches)
    watch = watch_of(job, watches)
    file.write_text("x")
    fitting = tmp_path / "z.csv"
    fitting.write_text("x")
    assert watch.has_changed(0, HANGS_S)
    changes = watch.changes
    file.write_text("y")
    assert not watch.has_changed(changes, 1.0)


def test_folders_that_come_later_are_watched(tmp_path: Path, watches: FolderWatches) -> None:
    job = held_job(tmp_path, "*/in/*.csv")
    await_news(job, never, watches)
    for folder in (tmp_path / "a", tmp_path / "a" / "in"):
        watch = watch_of(job, watches)
        folder.mkdir()
        assert watch.has_changed(watch.served, HANGS_S)
        assert not is_held(job, watches), "it has a new watch"
    (tmp_path / "a" / "in" / "x.csv").write_text("x")
    assert watch_of(job, watches).has_changed(0, HANGS_S)


def test_reading_is_no_change(tmp_path: Path, watches: FolderWatches) -> None:
    (tmp_path / "old.csv").write_text("a")
    await_news(held_job(tmp_path), never, watches)
    (tmp_path / "old.csv").read_text()
    assert is_held(held_job(tmp_path), watches)


def test_a_folder_that_is_made_again_has_a_new_watch(
    tmp_path: Path, watches: FolderWatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file system gives it the inode of the folder before it."""
    monkeypatch.setattr(folder_watch, "_identity", lambda folder: Path(folder).exists())
    folder = tmp_path / "data"
    folder.mkdir()
    job = held_job(folder)
    await_news(job, never, watches)
    watch = watch_of(job, watches)
    shutil.rmtree(folder)
    folder.mkdir()
    assert watch.has_changed(0, HANGS_S)
    assert not is_held(job, watches), "it has a new watch"
    (folder / "new.csv").write_text("a")
    assert watch_of(job, watches).has_changed(0, HANGS_S)


def test_a_folder_that_was_moved_away_has_a_new_watch(
    tmp_path: Path, watches: FolderWatches
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    await_news(held_job(folder), never, watches)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    watch, is_new = watches.of(place_of(held_job(folder)))
    assert is_new
    shutil.rmtree(folder)
    assert is_held(held_job(folder), watches), "it cannot be watched: listings are a minute apart"
    assert watch.changes, "its waits were ended"
    assert not watch.is_current()


@pytest.mark.parametrize("case", ["many folders", "the root", "no more notices"])
def test_what_cannot_be_watched_is_listed_once_a_minute(
    case: str,
    tmp_path: Path,
    watches: FolderWatches,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = held_job(tmp_path, "**/*.csv")
    match case:
        case "many folders":
            monkeypatch.setattr(folder_watch, "MOST_FOLDERS", 2)
            (tmp_path / "a" / "b").mkdir(parents=True)
        case "the root":
            job["location"] = "/*.csv"
        case _:
            monkeypatch.setattr(
                "watchfiles._rust_notify.RustNotify", lambda *_: refuse("Too many open files")
            )
    assert is_held(job, watches)
    assert "cannot be watched, and is listed once in 60 s" in caplog.text


def refuse(message: str) -> None:
    raise WatchfilesRustInternalError(message)


def test_a_wait_ends_in_time_without_a_change(tmp_path: Path, watches: FolderWatches) -> None:
    await_news(held_job(tmp_path), never, watches)
    await_news(held_job(tmp_path, wait_s=0.01), never, watches)


def test_the_watch_used_longest_ago_ends_where_there_are_many(tmp_path: Path) -> None:
    few = folder_watches(most=2)
    places = [place_of(held_job(tmp_path, f"{name}*.csv")) for name in "abc"]
    for place in places:
        few.of(place)
    assert [few.of(place)[1] for place in (places[2], places[1], places[0])] == [False, False, True]
    few.close()


def test_a_watch_that_somebody_waits_for_stays(tmp_path: Path) -> None:
    few = folder_watches(most=1)
    first, second = (place_of(held_job(tmp_path, f"{name}*.csv")) for name in "ab")
    watch, _ = few.of(first)
    with watch.waiting(), pytest.raises(OSError, match="1 other places"):
        few.of(second)
    assert few.of(second)[1]
    few.close()


def test_of_a_table_the_commits_of_its_log_are_watched(tmp_path: Path) -> None:
    job = list_job(str(tmp_path), connector="delta", settings={}, wait_s=1.0)
    place = place_of(job)
    assert (place.folder, place.names) == (str(tmp_path / LOG), "*.json")
