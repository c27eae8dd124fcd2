"""Copies of source files on this machine, of places that nothing but a client of theirs reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dataplane.contract.jobs import ConnectorJob
from dataplane.contract.source_objects import SourceObject
from dataplane.storage.file_process import MOST_BYTES, WALL_S
from dataplane.storage.source_stores import (
    ALL_BYTES,
    Moved,
    has_host,
    head,
    is_http,
    is_remote,
    is_sftp,
    modified_ms,
    open_object,
    open_root,
    path_of,
    root_of,
    version_of,
)
from dataplane.storage.store_addresses import access_of
from dataplane.task_failures import TaskFailure

CHUNK = 1 << 20


def local_file(uri: str) -> str:
    """The path behind a `file:` URI or an absolute path."""
    if uri.startswith("/"):
        return uri
    parts = urlsplit(uri)
    if parts.scheme != "file":
        raise TaskFailure("not-supported", f"only local files can be read yet, not {uri}")
    return unquote(uri.removeprefix("file:").removeprefix("//"))


def place_of(uri: str) -> str:
    """A source file's place as users know it."""
    return uri if has_host(uri) else local_file(uri)


@contextmanager
def local_copy(
    job: ConnectorJob,
    uri: str,
    target: Path,
    check: Callable[[], None],
    listed: SourceObject | None = None,
) -> Iterator[Path]:
    """A file as it was listed, or else as it is now: a local one in its place, another one as
    `target`. Moved where it is not there, or changes meanwhile."""
    if uri.startswith(("file:", "/")):
        path = local_file(uri)
        before = _stamp(path)
        size, changed_ns, _ = before
        if listed and (size, changed_ns // 1_000_000) != (listed["size"], listed["modified_ms"]):
            raise Moved(path)
        try:
            yield Path(path)
        finally:
            if _stamp(path) != before:
                raise Moved(path)
        return
    copy_file(job, uri, listed["version"] if listed else "", target, lambda _: check())
    yield target


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise Moved(path) from None
    return status.st_size, status.st_mtime_ns, status.st_ino


def copy_file(
    job: ConnectorJob, uri: str, version: str, target: Path, take: Callable[[int], None]
) -> None:
    """Write a file that is not local to `target`; with a version, the file of that version. `take`
    gets the size of each chunk before it is written. Moved, or TaskFailure."""
    ends, size = time.monotonic() + WALL_S, 0
    with target.open("wb") as output:
        for chunk in _chunks(job, uri, version):
            size += len(chunk)
            take(len(chunk))
            if size > MOST_BYTES or time.monotonic() > ends:
                message = f"{uri} takes more than {MOST_BYTES >> 30} GiB, or {WALL_S} s to be read"
                raise TaskFailure("file-too-large", f"{message}: split it", file=uri)
            output.write(chunk)


def _chunks(job: ConnectorJob, uri: str, version: str) -> Iterator[bytes]:
    if is_http(uri):
        from dataplane.storage.http_files import http_chunks

        return http_chunks(job, uri, version)
    if is_sftp(uri):
        from dataplane.storage.sftp_files import sftp_chunks

        return sftp_chunks(job, uri, version)
    if is_remote(uri):
        return _of_store(job, uri, version)
    raise TaskFailure("not-supported", f"this version reads nothing from {uri}")


def _of_store(job: ConnectorJob, uri: str, version: str) -> Iterator[bytes]:
    """An object of a store, as it is now; with a version, of that one."""
    access, root, path = access_of(job), root_of(uri), path_of(uri)
    store = open_root(root, access)
    meta = head(store, root, path)
    if meta is None or version not in ("", version_of(meta, access)):
        raise Moved(uri)
    source: SourceObject = {
        "name": path,
        "uri": uri,
        "size": meta["size"],
        "modified_ms": modified_ms(meta),
        "version": version_of(meta, access),
        "columns": None,
    }
    with open_object(store, source, ALL_BYTES) as file:
        while chunk := file.read(CHUNK):
            yield chunk
