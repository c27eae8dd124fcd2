"""Waiting for changes of local folders, by the operating system's notices (inotify on Linux).

A process keeps a watch from one wait to the next, so that no change between them is lost. The first
wait for a folder ends at once: nothing is known of the time before its watch.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dataplane.contract.delta_log import LOG
from dataplane.contract.jobs import ListJob, connector_of
from dataplane.listing.glob import base_folder
from dataplane.listing.local_files import local_path

MOST_WATCHES = 256
CHECK_S = 0.25
UNWATCHED_S = 60.0  # between listings of a folder that cannot be watched
DEBOUNCE_MS, STEP_MS, TIMEOUT_MS = 400, 50, 500
log = logging.getLogger(__name__)

IsOver = Callable[[], bool]


def identity_of(folder: str) -> tuple[int, int]:
    """Another one where a folder was deleted and made again. Raises OSError."""
    status = os.stat(folder)
    return status.st_dev, status.st_ino


class FolderWatch:
    """A watch of a folder and all below it. Raises OSError where there can be none."""

    def __init__(self, folder: str) -> None:
        from watchfiles._rust_notify import RustNotify

        self.identity = identity_of(folder)
        self.changed = threading.Event()
        self._stop = threading.Event()
        self._notices = RustNotify([folder], False, False, 0, True, True)
        self._thread = threading.Thread(target=self._follow, name=f"watch {folder}", daemon=True)
        self._thread.start()

    def is_of(self, folder: str) -> bool:
        """Whether notices of this folder still come. Raises OSError where there is none."""
        return self._thread.is_alive() and self.identity == identity_of(folder)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2 * TIMEOUT_MS / 1000)

    def _follow(self) -> None:
        while not self._stop.is_set():
            notice = self._notices.watch(DEBOUNCE_MS, STEP_MS, TIMEOUT_MS, self._stop)
            if isinstance(notice, set):
                self.changed.set()
        self._notices.close()


class FolderWatches:
    """Watches by folder, the one used last at the end. Safe for threads."""

    def __init__(self, most: int = MOST_WATCHES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_folder: dict[str, FolderWatch] = {}
        atexit.register(self.close)

    def of(self, folder: str) -> tuple[FolderWatch, bool]:
        """The watch of a folder, and whether it is new. Raises OSError."""
        with self._lock:
            present = self._by_folder.pop(folder, None)
            if present is not None and present.is_of(folder):
                self._by_folder[folder] = present
                return present, False
            watch = self._by_folder[folder] = FolderWatch(folder)
            surplus = list(self._by_folder)[: -self._most]
            closed = [self._by_folder.pop(name) for name in surplus]
        for other in closed if present is None else [*closed, present]:
            other.close()
        return watch, True

    def close(self) -> None:
        with self._lock:
            watches = list(self._by_folder.values())
            self._by_folder.clear()
        for watch in watches:
            watch.close()


_watches = FolderWatches()


def folder_of(job: ListJob) -> str:
    """The folder whose changes lead to a listing: of a Delta table its log."""
    path = local_path(job["location"])
    return str(Path(path) / LOG) if connector_of(job) == "delta" else base_folder(path)


def await_news(job: ListJob, is_over: IsOver, watches: FolderWatches = _watches) -> None:
    """Wait until something changes below the job's folder, for `wait_s` at most, or until
    `is_over`. Raises TaskFailure for a location that is no local path."""
    folder, until = folder_of(job), time.monotonic() + job["wait_s"]
    try:
        watch, is_new = watches.of(folder)
    except OSError as e:
        log.warning("%s cannot be watched, and is listed once in %d s: %s", folder, UNWATCHED_S, e)
        _pause(min(until, time.monotonic() + UNWATCHED_S), is_over)
        return
    if is_new:
        return
    while not is_over() and (left_s := until - time.monotonic()) > 0:
        if watch.changed.wait(min(left_s, CHECK_S)):
            break
    watch.changed.clear()  # a change during the listing ends the next wait


def _pause(until: float, is_over: IsOver) -> None:
    while not is_over() and (left_s := until - time.monotonic()) > 0:
        time.sleep(min(left_s, CHECK_S))
