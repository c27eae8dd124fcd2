"""Waiting for changes of a real folder, by the notices of the operating system."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataplane.contract.delta_log import LOG
from dataplane.contract.jobs import ListJob
from dataplane.listing.folder_watch import FolderWatches, await_news, folder_of
from tests.unit.listing.location import list_job

HANGS_S = 60.0


@pytest.fixture
def watches() -> Iterator[FolderWatches]:
    watches = FolderWatches()
    yield watches
    watches.close()


def held_job(folder: Path, wait_s: float = HANGS_S) -> ListJob:
    return list_job(f"{folder}/*.csv", within_s=1.0, wait_s=wait_s)


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


@pytest.mark.parametrize("change", ["new", "edited", "renamed", "deleted", "nested"])
def test_a_change_ends_the_wait(change: str, tmp_path: Path, watches: FolderWatches) -> None:
    (tmp_path / "old.csv").write_text("a")
    (tmp_path / "sub").mkdir()
    job = held_job(tmp_path)
    await_news(job, never, watches)
    thread = waiting(job, watches, never)
    match change:
        case "new":
            (tmp_path / "new.csv").write_text("b")
        case "edited":
            (tmp_path / "old.csv").write_text("c")
        case "renamed":
            (tmp_path / "old.csv").rename(tmp_path / "other.csv")
        case "deleted":
            (tmp_path / "old.csv").unlink()
        case _:
            (tmp_path / "sub" / "new.csv").write_text("d")
    thread.join(HANGS_S / 2)
    assert not thread.is_alive()


def test_a_change_between_two_waits_ends_the_second(tmp_path: Path, watches: FolderWatches) -> None:
    job = held_job(tmp_path)
    await_news(job, never, watches)
    (tmp_path / "new.csv").write_text("a")
    watch, is_new = watches.of(folder_of(job))
    assert not is_new
    assert watch.changed.wait(HANGS_S)
    await_news(job, never, watches)
    assert is_held(job, watches), "what was seen is over"


def test_reading_is_no_change(tmp_path: Path, watches: FolderWatches) -> None:
    (tmp_path / "old.csv").write_text("a")
    await_news(held_job(tmp_path), never, watches)
    (tmp_path / "old.csv").read_text()
    assert is_held(held_job(tmp_path), watches)


def test_a_folder_that_is_made_again_has_a_new_watch(
    tmp_path: Path, watches: FolderWatches
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    await_news(held_job(folder), never, watches)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert watches.of(folder_of(held_job(folder)))[1]
    shutil.rmtree(folder)
    assert is_held(held_job(folder), watches), "it cannot be watched: listings are a minute apart"


def test_a_wait_ends_in_time_without_a_change(tmp_path: Path, watches: FolderWatches) -> None:
    await_news(held_job(tmp_path), never, watches)
    await_news(held_job(tmp_path, wait_s=0.01), never, watches)


def test_the_watch_used_longest_ago_ends_where_there_are_many(tmp_path: Path) -> None:
    few = FolderWatches(most=2)
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
        few.of(str(folder))
    assert [few.of(str(folder))[1] for folder in (folders[2], folders[1], folders[0])] == [
        False,
        False,
        True,
    ]
    few.close()


def test_of_a_table_its_log_is_watched(tmp_path: Path) -> None:
    job = list_job(str(tmp_path), connector="delta", settings={}, wait_s=1.0)
    assert folder_of(job) == str(tmp_path / LOG)
