"""The `list` kind of work: the files behind a read connector, with versions by content, grouped by partition.

A listing is whole or it fails: nothing here may turn "could not look" into "is not there". Does not belong here:
comparing listings, reading rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dataplane.contract import Json, ListedPartition, SourceObject, fixed_folder, key_of
from dataplane.failure import TaskFailure
from dataplane.glob import BadGlob, find
from dataplane.versions import Reading, Seen, Stamp, Versions, examine, look

THREADS = 4
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def list_files(job: Mapping[str, Json], cache: Versions) -> Json:
    """The result of a `list` task: `{partitions, objects, bytes}`. TaskFailure if anything at all cannot be read."""
    pattern = local_path(job["location"])
    folder = base_folder(pattern)
    try:
        paths = [_telling(path) for path in find(pattern, folder)]
        seen = observe(paths, Reading(job["format"], job["options"]), cache)
    except BadGlob as e:
        raise TaskFailure("bad-glob", f"{job['location']}: {e}") from e
    except OSError as e:
        raise _unreadable(e, folder) from e
    objects = [_object(path, path.removeprefix(folder), seen[path]) for path in paths]
    partitions = group(objects, job.get("partition"))
    return {"partitions": partitions, "objects": len(objects), "bytes": sum(o["size"] for o in objects)}


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


def observe(paths: Iterable[str], reading: Reading, cache: Versions) -> dict[str, Seen]:
    """Every file as it is now: remembered where it looks untouched, else read by a few threads."""
    stamps = {path: look(path) for path in paths}
    seen = cache.known(reading, stamps)
    began_ns = cache.now_ns()
    fresh = [path for path in stamps if path not in seen]
    if fresh:
        with ThreadPoolExecutor(THREADS) as threads:
            read = list(zip(fresh, threads.map(lambda path: examine(path, reading), fresh), strict=True))
        cache.keep(reading, [(path, found, began_ns) for path, found in read])
        seen |= dict(read)
    return seen


def group(objects: Iterable[SourceObject], template: str | None) -> list[ListedPartition]:
    """Partitions ordered by the UTF-8 bytes of their keys; TaskFailure for a name that has no key."""
    partitions: dict[str, list[SourceObject]] = {}
    for source in objects:
        key = key_of(source["name"], template)
        if key is None:
            raise TaskFailure("no-partition", f"the file {source['name']} does not match partition: {template}")
        partitions.setdefault(key, []).append(source)
    return [{"key": key, "objects": partitions[key]} for key in sorted(partitions, key=str.encode)]


def _object(path: str, name: str, seen: Seen) -> SourceObject:
    stamp: Stamp = seen.stamp
    return {
        "name": name,
        "uri": Path(path).as_uri(),
        "size": stamp.size,
        "modified_ms": stamp.mtime_ns // 1_000_000,
        "version": seen.version,
        "columns": seen.columns,
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
