"""The `list` kind of work: the files behind a read connector, with versions by content, grouped by partition.

A listing is whole or it fails: nothing here may turn "could not look" into "is not there".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote_from_bytes

from dataplane.contract.globs import fixed_folder
from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.listings import ListedPartition, ListingResult, SourceObject, is_of_bytes, source_of
from dataplane.errors import TaskFailure
from dataplane.listing import unchanged
from dataplane.listing.bounds import Bounds
from dataplane.listing.external_sort import Record, sorted_unique
from dataplane.listing.glob import BadGlob, find
from dataplane.listing.grouping import grouped, key_for
from dataplane.listing.hive_partitions import with_folders
from dataplane.listing.patterns import full_matcher
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import REST_NS, FileReading, Seen, Versions, examine, look
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import is_remote

THREADS = 4
AT_A_TIME = 2000  # files that are looked at before the next are
SHARE = 50  # files that one thread reads in a row
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def list_files(job: ListJob, cache: Versions, place: Callable[[], Path] | None = None, lake: str = "") -> ListingResult:
    """The result of a `list` task. TaskFailure if anything at all cannot be read.

    Memory holds some thousand files at a time. A listing that is too large for a report becomes the file that `place`
    names; without one it is reported inline, however large. A listing that the control plane has already (`was`) is
    reported by its digest alone. Files in `lake` are never listed.
    """
    with _looking(job, cache, Places.of(os.environ, lake), Bounds.of(os.environ)) as look:
        return unchanged.result(look, job, cache, place)


def _looking(
    job: ListJob, cache: Versions, places: Places, bounds: Bounds
) -> AbstractContextManager[LocationFingerprint]:
    if not is_remote(job["location"]):
        return nullcontext(
            LocationFingerprint(_looks(job, cache, places, bounds), lambda: partitions(job, cache, places, bounds))
        )
    from dataplane.listing import object_store

    return object_store.looking(job, cache, places, bounds)


def _looks(job: ListJob, cache: Versions, places: Places, bounds: Bounds) -> str:
    """A digest over names and stamps of all matching files.

    It may be remembered, as a file may, if all have been at rest for a while. It is empty otherwise, and where a path
    is unreadable, which the listing will report.
    """
    if not cache.remembers:
        return ""
    pattern, began_ns, newest_ns, stamps_digest = local_path(job["location"]), cache.now_ns(), 0, sha256()
    try:
        for path in _matching_paths(pattern, places, bounds):
            name, status = os.fsencode(path), os.stat(path)
            times = status.st_mtime_ns, status.st_ctime_ns
            stamps_digest.update(
                b"%b\0%d %d %d %d %d\n" % (name, status.st_size, *times, status.st_ino, status.st_mode)
            )
            newest_ns = max(newest_ns, *times)
    except (BadGlob, OSError):
        return ""
    return stamps_digest.hexdigest() if newest_ns + REST_NS <= began_ns else ""


def _matching_paths(pattern: str, places: Places, bounds: Bounds) -> Iterator[str]:
    """Paths of files. TaskFailure where the folder, or a file in it, may not be read."""
    folder = base_folder(pattern)
    places.check_source(folder)
    bounds.entries = 0  # the check for changes and the listing each count from 0
    return places.of_files(find(pattern, folder, bounds.count))


def partitions(job: ListJob, cache: Versions, places: Places, bounds: Bounds) -> Iterator[ListedPartition]:
    """The partitions at the job's location, in order of keys. TaskFailure for a file that cannot be read, or has no
    key."""
    pattern = local_path(job["location"])
    folder = base_folder(pattern)
    reading, metadata = FileReading(job["format"], job["options"]), job.get("metadata", ())
    try:
        key_of = keys_for(job)
        names = (_telling(path).removeprefix(folder) for path in _matching_paths(pattern, places, bounds))
        keyed = ((key, name) for name in names if (key := key_of(name)))
        sources = grouped(_observed(sorted_unique(keyed), folder, reading, cache, bounds), job)
        for key, group in groupby(with_folders(sources, job), itemgetter(0)):
            yield listed(key, [source for _, source in group], metadata)
    except BadGlob as e:
        raise TaskFailure("bad-glob", f"{job['location']}: {e}") from e
    except OSError as e:
        raise _unreadable(e, folder) from e


def local_path(location: str) -> str:
    """The absolute path (with glob) behind a location; TaskFailure for storage that is not supported yet."""
    path = re.sub(r"^file:(?://(?=/))?", "", location)
    if _SCHEME.match(path):
        raise TaskFailure("not-supported", f"only local paths and file: URIs can be listed yet, not {location}")
    if not path.startswith("/"):
        raise TaskFailure("relative-path", f"not an absolute path: {location}")
    return re.sub(r"/{2,}", "/", path)


def base_folder(pattern: str) -> str:
    """The folder that names are relative to; with its last slash."""
    return fixed_folder(pattern.partition("{")[0] + "*" if "{" in pattern else pattern)


def check_folder(job: ConnectJob) -> None:
    """Whether a location can be looked at, or written to. TaskFailure says why not."""
    places = Places.of(os.environ)
    if is_remote(job["place"]):
        from dataplane.listing import object_store

        return object_store.check(job, places)
    folder = Path(base_folder(local_path(job["place"])))
    if job["writes"]:
        places.check_target(local_path(job["place"]))
    else:
        places.check_source(str(folder))
    if job["writes"]:
        folder = Path(local_path(job["place"]))
        folder = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as e:
        raise _unreadable(e, str(folder)) from e
    if job["writes"] and not os.access(folder, os.W_OK):
        raise TaskFailure("permission-denied", f"may not be written to: {folder}")
    return None


def keys_for(job: ListJob) -> Callable[[str], str | None]:
    """A function from a file's name below the fixed folder to its partition key; None where `regex` excludes the file.
    TaskFailure for a name that has no key."""
    regex, key_of = (job.get("settings") or {}).get("regex"), key_for(job)
    is_chosen = full_matcher(regex) if regex else None

    def key_for_name(name: str) -> str | None:
        if is_chosen and not is_chosen(name):
            return None
        if not (key := key_of(name)):
            raise TaskFailure("no-partition", f"the file {name} does not match partition: {job['partition']}")
        return key

    return key_for_name


def _observed(
    records: Iterator[Record], folder: str, reading: FileReading, cache: Versions, bounds: Bounds
) -> Iterator[tuple[str, SourceObject]]:
    """Keys with the files behind them, as they are now."""
    with ThreadPoolExecutor(THREADS) as threads:
        while some := list(islice(records, AT_A_TIME)):
            bounds.check_time()
            observed = observe([folder + name for _, name in some], reading, cache, threads)
            yield from ((key, _object(folder + name, name, observed[folder + name])) for key, name in some)


def observe(
    paths: Iterable[str], reading: FileReading, cache: Versions, threads: ThreadPoolExecutor
) -> dict[str, Seen]:
    """Every file as it is now: remembered where it looks untouched, else read."""
    stamps = {path: look(path) for path in paths}
    observed = cache.known(reading, stamps)
    began_ns = cache.now_ns()
    fresh = [path for path in stamps if path not in observed]
    shares = [fresh[i : i + SHARE] for i in range(0, len(fresh), SHARE)]
    for read in threads.map(lambda share: [(path, examine(path, reading)) for path in share], shares):
        observed |= read
    cache.keep(reading, [(path, observed[path], began_ns) for path in fresh])
    return observed


def listed(key: str, objects: list[SourceObject], metadata: Iterable[str]) -> ListedPartition:
    """A partition: `source` identifies its objects, `content` says how many they are, how large, and where they lie."""
    content = [len(objects), sum(o["size"] for o in objects), _places(objects)]
    return {"key": key, "source": source_of(objects, tuple(metadata)).hex(), "content": content, "objects": objects}


def _places(objects: Iterable[SourceObject]) -> int:
    """64 bits of a hash over names, places and sizes; over times only where a reader has nothing better to go by."""
    places = ([o["name"], o["uri"], o["size"], None if is_of_bytes(o) else o["modified_ms"]] for o in objects)
    return int.from_bytes(sha256(b"headgate/places/1\n" + json.dumps(sorted(places)).encode()).digest()[:8], "big")


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
        raise TaskFailure("bad-file-name", f"a file's name is not UTF-8: {os.fsencode(path)!r}") from e
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
