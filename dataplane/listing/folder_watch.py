"""Waiting for changes of local folders, by the operating system's notices (inotify on Linux).

A watch is replaced once other folders are to be watched.
"""

from __future__ import annotations

import os
import threading
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from dataplane.contract.delta_log import LOG
from dataplane.contract.jobs import ListJob, connector_of
from dataplane.listing.glob import base_folder, folders, leads_on, matcher
from dataplane.listing.local_files import local_path
from dataplane.listing.source_watch import IsOver, SourceWatch, SourceWatches

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

MOST_WATCHES = 100  # Linux gives a user 128 (fs.inotify.max_user_instances)
MOST_FOLDERS = 5_000  # of a watch, whose start keeps the interpreter's lock
DEBOUNCE_MS, STEP_MS, TIMEOUT_MS = 400, 50, 500
DELETED = 3  # kind of a notice


class WatchedPlace(NamedTuple):
    """The files below a folder that a glob finds, for one listing."""

    listing: str
    folder: str  # without the last slash
    names: str


def place_of(job: ListJob) -> WatchedPlace:
    """What changes where a listing changes: of a Delta table the commits of its log. Raises
    TaskFailure for a location that is no local path."""
    path = local_path(job["location"])
    if connector_of(job) == "delta":
        return WatchedPlace(job["listing"], f"{path.rstrip('/')}/{LOG}", "*.json")
    folder = base_folder(path)
    return WatchedPlace(job["listing"], folder.rstrip("/"), path.removeprefix(folder))


class FolderWatch(SourceWatch):
    """A watch of a local place. Raises OSError where there can be none."""

    def __init__(self, place: WatchedPlace) -> None:
        super().__init__()
        self.place = place
        self._finds, self._may_hold = matcher(place.names), leads_on(place.names)
        self._identity, self._folders = _identity(place.folder), _folders(place)
        self._notices = _notices(self._folders)
        # A folder that came before its parent was watched gives no notice
        self._is_stale = _folders(place) != self._folders
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)
        self._thread.start()

    def is_current(self) -> bool:
        """Whether all notices of the place come."""
        try:
            is_same = self._identity == _identity(self.place.folder)
        except OSError:
            return False
        return is_same and not self._is_stale and self._thread.is_alive()

    def close(self) -> None:
        """End it, and the waits for it."""
        self._is_stale = True
        self._stop.set()
        self._thread.join(2 * TIMEOUT_MS / 1000)
        self._count_change()

    def _follow(self) -> None:
        while not self._stop.is_set():
            notice = self._notices.watch(DEBOUNCE_MS, STEP_MS, TIMEOUT_MS, self._stop)
            if not isinstance(notice, set):
                continue
            if any(self._changes_folders(kind, path) for kind, path in notice):
                self._is_stale = True
                self._count_change()
            elif any(self._finds(self._name(path)) for _, path in notice):
                self._count_change()
        self._notices.close()

    def _changes_folders(self, kind: int, path: str) -> bool:
        """Whether other folders are to be watched. A folder that is deleted and made again may have
        the same inode, and its notices end."""
        if path in self._folders:
            return kind == DELETED
        return self._may_hold(self._name(path)) and os.path.isdir(path) and not os.path.islink(path)

    def _name(self, path: str) -> str:
        return path.removeprefix(self.place.folder).lstrip("/")


def _identity(folder: str) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _folders(place: WatchedPlace) -> set[str]:
    if not place.folder:
        raise OSError("the root of the file system is not watched")
    watched = set(islice(folders(place.names, place.folder), MOST_FOLDERS + 1))
    if len(watched) > MOST_FOLDERS:
        raise OSError(f"there are more than {MOST_FOLDERS:,} folders to watch")
    return watched


def _notices(watched: set[str]) -> RustNotify:
    from watchfiles import _rust_notify

    try:
        return _rust_notify.RustNotify(sorted(watched), False, False, 0, False, True)
    except _rust_notify.WatchfilesRustInternalError as e:
        raise OSError(str(e)) from e


FolderWatches = SourceWatches[WatchedPlace, FolderWatch]


def folder_watches(most: int = MOST_WATCHES) -> FolderWatches:
    return FolderWatches(FolderWatch, most)


_watches = folder_watches()


def await_news(job: ListJob, is_over: IsOver, watches: FolderWatches = _watches) -> None:
    """Wait until the job's place changes, for `wait_s` at most, or until `is_over`. Raises
    TaskFailure for a location that is no local path."""
    place = place_of(job)
    watches.await_change(place, place.folder or "/", job["wait_s"], is_over)
