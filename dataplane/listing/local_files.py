"""Listing files in folders: found by glob, read where they changed, with versions by content.

What cannot be looked at is a failure, never a shorter listing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from itertools import islice
from pathlib import Path
from urllib.parse import quote_from_bytes

from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.bounds import AT_A_TIME, ListingBounds
from dataplane.listing.external_sort import Record, sorted_unique
from dataplane.listing.glob import BadGlob, base_folder, find
from dataplane.listing.listed_partitions import keys_for, listed_partitions
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import REST_NS, FileReading, Seen, Versions, examine, look
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure

THREADS = 4
SHARE = 50  # files that one thread reads in a row
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def fingerprinted(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> AbstractContextManager[LocationFingerprint]:
    """The names and stamps of all files at a location, then the listing."""
    fingerprint = _stamps_fingerprint(job, cache, places, bounds)
    return nullcontext(
        LocationFingerprint(fingerprint, lambda: _partitions(job, cache, places, bounds))
    )


def _stamps_fingerprint(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> str:
    """A digest over names and stamps of all matching files.

    It may be remembered, as a file may, if all have been at rest for a while. It is empty
    otherwise, and where a path is unreadable, which the listing will report.
    """
    if not cache.remembers:
        return ""
    pattern, began_ns, newest_ns, stamps_digest = (
        local_path(job["location"]),
        cache.now_ns(),
        0,
        sha256(),
    )
    try:
        for path in _matching_paths(pattern, places, bounds):
            name, status = os.fsencode(path), os.stat(path)
            times = status.st_mtime_ns, status.st_ctime_ns
            stamps_digest.update(
                b"%b\0%d %d %d %d %d\n"
                % (name, status.st_size, *times, status.st_ino, status.st_mode)
            )
            newest_ns = max(newest_ns, *times)
    except (BadGlob, OSError):
        return ""
    return stamps_digest.hexdigest() if newest_ns + REST_NS <= began_ns else ""


def _matching_paths(pattern: str, places: Places, bounds: ListingBounds) -> Iterator[str]:
    """Paths of files. TaskFailure where the folder, or a file in it, may not be read."""
    folder = base_folder(pattern)
    places.check_source(folder)
    bounds.entries = 0  # the check for changes and the listing each count from 0
    return places.of_files(find(pattern, folder, bounds.count))


def _partitions(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> Iterator[ListedPartition]:
    """The partitions at the job's location, in order of keys. TaskFailure for a file that cannot be
    read, or has no key."""
    pattern = local_path(job["location"])
    folder = base_folder(pattern)
    reading = FileReading(job["format"], job["options"])
    try:
        key_of = keys_for(job)
        names = (
            _telling(path).removeprefix(folder) for path in _matching_paths(pattern, places, bounds)
        )
        keyed = ((key, name) for name in names if (key := key_of(name)))
        yield from listed_partitions(
            _observed(sorted_unique(keyed), folder, reading, cache, bounds), job
        )
    except BadGlob as e:
        raise TaskFailure("bad-glob", f"{job['location']}: {e}") from e
    except OSError as e:
        raise _unreadable(e, folder) from e


def local_path(location: str) -> str:
    """The absolute path (with glob) behind a location; TaskFailure for storage that is not
    supported yet."""
    path = re.sub(r"^file:(?://(?=/))?", "", location)
    if _SCHEME.match(path):
        raise TaskFailure(
            "not-supported", f"only local paths and file: URIs can be listed yet, not {location}"
        )
    if not path.startswith("/"):
        raise TaskFailure("relative-path", f"not an absolute path: {location}")
    return re.sub(r"/{2,}", "/", path)


def check(job: ConnectJob, places: Places) -> None:
    """Whether a location can be looked at, or written to. TaskFailure says why not."""
    path = local_path(job["place"])
    if job["writes"]:
        places.check_target(path)
        folder = next((f for f in (Path(path), *Path(path).parents) if f.exists()), Path(path))
    else:
        folder = Path(base_folder(path))
        places.check_source(str(folder))
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as e:
        raise _unreadable(e, str(folder)) from e
    if job["writes"] and not os.access(folder, os.W_OK):
        raise TaskFailure("permission-denied", f"may not be written to: {folder}")


def _observed(
    records: Iterator[Record],
    folder: str,
    reading: FileReading,
    cache: Versions,
    bounds: ListingBounds,
) -> Iterator[tuple[str, SourceObject]]:
    """Keys with the files behind them, as they are now."""
    with ThreadPoolExecutor(THREADS) as threads:
        while some := list(islice(records, AT_A_TIME)):
            bounds.check_time()
            observed = observe([folder + name for _, name in some], reading, cache, threads)
            yield from (
                (key, _object(folder + name, name, observed[folder + name])) for key, name in some
            )


def observe(
    paths: Iterable[str], reading: FileReading, cache: Versions, threads: ThreadPoolExecutor
) -> dict[str, Seen]:
    """Every file as it is now: remembered where it looks untouched, else read."""
    stamps = {path: look(path) for path in paths}
    observed = cache.unchanged(reading, stamps)
    began_ns = cache.now_ns()
    fresh = [path for path in stamps if path not in observed]
    shares = [fresh[i : i + SHARE] for i in range(0, len(fresh), SHARE)]
    for read in threads.map(
        lambda share: [(path, examine(path, reading)) for path in share], shares
    ):
        observed |= read
    cache.keep(reading, [(path, observed[path], began_ns) for path in fresh])
    return observed


def _object(path: str, name: str, observed: Seen) -> SourceObject:
    return {
        "name": name,
        "uri": "file://" + quote_from_bytes(os.fsencode(path)),
        "size": observed.stamp.size,
        "modified_ms": observed.stamp.mtime_ns // 1_000_000,
        "version": observed.version,
        "columns": observed.columns,
    }


def _telling(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError as e:
        raise TaskFailure(
            "bad-file-name", f"a file's name is not UTF-8: {os.fsencode(path)!r}"
        ) from e
    return path


def _unreadable(error: OSError, folder: str) -> TaskFailure:
    what = error.filename or folder
    reason = f"{what}: {error.strerror or error}"
    match error:
        case FileNotFoundError() if what == folder or not os.path.isdir(folder):
            return TaskFailure("path-not-found", f"the folder to list does not exist: {folder}")
        case FileNotFoundError():
            return TaskFailure("path-not-found", f"not there (any more): {what}")
        case PermissionError():
            return TaskFailure("permission-denied", reason)
        case _:
            return TaskFailure("unreadable", reason, "infrastructure")
