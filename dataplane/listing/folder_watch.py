"""Waiting for changes of local folders, by the operating system's notices (inotify on Linux).

Each location has a watch of its own, which a process keeps from one wait to the next, so that no
change between them is lost. The first wait for a location ends at once: nothing is known of the
time before its watch. So does the first one after its folders changed, which has a new watch.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from dataplane.contract.delta_log import LOG
from dataplane.contract.jobs import ListJob, connector_of
from dataplane.listing.glob import base_folder, folders, leads_on, matcher
from dataplane.listing.local_files import local_path

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

MOST_WATCHES = 100  # Linux gives a user 128 (fs.inotify.max_user_instances)
MOST_FOLDERS = 5_000  # of a watch, whose start keeps the interpreter's lock
CHECK_S = 0.25
UNWATCHED_S = 60.0  # between listings of a folder that cannot be watched
DEBOUNCE_MS, STEP_MS, TIMEOUT_MS = 400, 50, 500
DELETED = 3  # kind of a notice
log = logging.getLogger(__name__)

IsOver = Callable[[], bool]


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


class FolderWatch:
    """A watch of a place. `changes` counts its changes, `served` are those that a wait ended for.
    Raises OSError where there can be none."""

    def __init__(self, place: WatchedPlace) -> None:
        self.place, self.changes, self.served, self.waits = place, 0, 0, 0
        self._finds, self._may_hold = matcher(place.names), leads_on(place.names)
        self._changed, self._stop = threading.Condition(), threading.Event()
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

    def has_changed(self, since: int, wait_s: float) -> bool:
        """Whether there are other changes than so many, at once or in so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.changes != since, wait_s)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1

    def close(self) -> None:
        """End it, and the waits for it."""
        self._is_stale = True
        self._stop.set()
        self._thread.join(2 * TIMEOUT_MS / 1000)
        self._count_change()

    def _count_change(self) -> None:
        with self._changed:
            self.changes += 1
            self._changed.notify_all()

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


class FolderWatches:
    """Watches by place, the one used last at the end. Safe for threads."""

    def __init__(self, most: int = MOST_WATCHES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_place: dict[WatchedPlace, FolderWatch] = {}
        atexit.register(self.close)

    def of(self, place: WatchedPlace) -> tuple[FolderWatch, bool]:
        """The watch of a place, and whether it is new. Raises OSError."""
        with self._lock:
            present = self._by_place.pop(place, None)
            if present is not None and present.is_current():
                self._by_place[place] = present
                return present, False
        if present is not None:
            present.close()
        self._make_room()
        watch = FolderWatch(place)
        with self._lock:
            other = self._by_place.pop(place, None)
            self._by_place[place] = watch
        if other is not None:
            other.close()
        return watch, True

    def _make_room(self) -> None:
        """Close the watch used longest ago, but none with a wait. OSError where all have one."""
        with self._lock:
            if len(self._by_place) < self._most:
                return
            idle = (place for place, watch in self._by_place.items() if not watch.waits)
            place = next(idle, None)
            if place is None:
                raise OSError(f"{self._most} other places are watched")
            closed = self._by_place.pop(place)
        closed.close()

    def close(self) -> None:
        with self._lock:
            watches = list(self._by_place.values())
            self._by_place.clear()
        for watch in watches:
            watch.close()


_watches = FolderWatches()


def await_news(job: ListJob, is_over: IsOver, watches: FolderWatches = _watches) -> None:
    """Wait until the job's place changes, for `wait_s` at most, or until `is_over`. Raises
    TaskFailure for a location that is no local path."""
    place, until = place_of(job), time.monotonic() + job["wait_s"]
    try:
        watch, is_new = watches.of(place)
    except OSError as e:
        name = place.folder or "/"
        log.warning("%s cannot be watched, and is listed once in %d s: %s", name, UNWATCHED_S, e)
        _pause(min(until, time.monotonic() + UNWATCHED_S), is_over)
        return
    if is_new:
        return
    since = watch.served
    with watch.waiting():
        while not is_over() and (left_s := until - time.monotonic()) > 0:
            if watch.has_changed(since, min(left_s, CHECK_S)):
                break
        else:
            if is_over():
                return
    watch.served = watch.changes  # a change during the listing ends the next wait


def _pause(until: float, is_over: IsOver) -> None:
    while not is_over() and (left_s := until - time.monotonic()) > 0:
        time.sleep(min(left_s, CHECK_S))
