"""Listing files of SFTP servers by glob. A version is a digest where a file of checksums has one,
else size and time."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, BinaryIO, cast

from dataplane.contract.encoding import digest
from dataplane.contract.globs import GLOB_CHARACTERS
from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.file_columns import own_columns
from dataplane.listing.glob import BadGlob, base_folder, leads_on, matcher
from dataplane.listing.served_listing import partitions_of
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import FileReading, Versions
from dataplane.storage.refused_places import Places
from dataplane.storage.sftp_files import SftpAccess, connected, modified_ms, version_by_time
from dataplane.storage.source_stores import root_of, uri_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import paramiko

BUFFER_BYTES = 1 << 16
CHECKSUM_BYTES = 64 << 20  # of the file of checksums
_CHECKSUM = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")


def fingerprinted(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> AbstractContextManager[LocationFingerprint]:
    """The listing of all files that the location finds, by one connection."""
    places.check_source(_folder_uri(job["location"]))

    def partitions() -> Iterator[ListedPartition]:
        return partitions_of(_sources(job, cache, places, bounds), job)

    return nullcontext(LocationFingerprint("", partitions))


def check(job: ConnectJob, places: Places) -> None:
    """Check that the folder, or the file, can be looked at. TaskFailure says why not."""
    if job["writes"]:
        raise TaskFailure("not-supported", "nothing is written to SFTP servers: name a folder")
    place = _folder_uri(job["place"])
    places.check_source(place)
    with connected(job, place) as client:
        client.stat(_path(job["place"]) if _is_exact(job["place"]) else _path(place))


def _path(location: str) -> str:
    """The path of a location on its server. Its glob stays as it is written."""
    return "/" + location.removeprefix(root_of(location)).lstrip("/")


def _folder_uri(location: str) -> str:
    return root_of(location) + base_folder(_path(location))


def _is_exact(location: str) -> bool:
    path = _path(location)
    return not any(c in path for c in GLOB_CHARACTERS) and not path.endswith("/")


def _sources(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> Iterator[SourceObject]:
    location, root = job["location"], root_of(job["location"])
    folder = base_folder(_path(location))
    reading = FileReading(job["format"], job["options"])
    settings = job.get("settings") or {}
    with connected(job, location, bounds.left_s()) as client:
        checksums = _checksums(client, folder, SftpAccess.of(job).checksums)
        for name, status in _files(client, location, bounds):
            if name == SftpAccess.of(job).checksums:
                continue
            uri = uri_of(root, (folder + name).lstrip("/"))
            places.check_source(uri)
            version = checksums.get(name) or version_by_time(status)
            way = digest("sftp/1", uri=uri, reading=reading.id, settings=settings).hex()
            last: Json = cache.listing(way, version)
            columns = last["columns"] if last else _columns(client, folder + name, reading)
            if not last:
                cache.keep_listing(way, version, {"columns": columns})
            yield {
                "name": name,
                "uri": uri,
                "size": status.st_size or 0,
                "modified_ms": modified_ms(status),
                "version": version,
                "columns": columns,
            }


def _columns(client: paramiko.SFTPClient, path: str, reading: FileReading) -> list[str] | None:
    with client.open(path, "rb", BUFFER_BYTES) as file:
        return own_columns(cast("BinaryIO", file), path, reading.format, reading.options)


def _checksums(client: paramiko.SFTPClient, folder: str, name: str) -> Mapping[str, str]:
    """Versions by the names of files below the folder, of a file as `sha256sum` writes it."""
    if not name:
        return {}
    with client.open(folder + name, "rb", BUFFER_BYTES) as file:
        text = file.read(CHECKSUM_BYTES + 1)
    if len(text) > CHECKSUM_BYTES:
        message = f"{folder}{name} takes more than {CHECKSUM_BYTES >> 20} MiB: split the folder"
        raise TaskFailure("file-too-large", message, file=folder + name)
    lines = map(_CHECKSUM.fullmatch, text.decode(errors="replace").splitlines())
    return {line[2]: f"sha256:{line[1].lower()}" for line in lines if line}


def _files(
    client: paramiko.SFTPClient, location: str, bounds: ListingBounds
) -> Iterator[tuple[str, paramiko.SFTPAttributes]]:
    """Names below the fixed folder, with what the server says of each file."""
    path = _path(location)
    folder = base_folder(path)
    if _is_exact(location):
        yield path.removeprefix(folder), client.stat(path)
        return
    try:
        yield from _matching(client, folder, path.removeprefix(folder), bounds)
    except BadGlob as e:
        raise TaskFailure("bad-glob", f"{location}: {e}") from e


def _matching(
    client: paramiko.SFTPClient, folder: str, glob: str, bounds: ListingBounds
) -> Iterator[tuple[str, paramiko.SFTPAttributes]]:
    """Links to files are followed, links to folders are not."""
    is_found, may_hold = matcher(glob), leads_on(glob)
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for status in _entries(client, folder + below, bounds):
            name = below + status.filename
            if "/" in status.filename or status.filename in (".", ".."):
                continue
            if _is(status, stat.S_IFDIR):
                if may_hold(name):
                    waiting.append(f"{name}/")
                continue
            if not is_found(name):
                continue
            if _is(status, stat.S_IFLNK):
                status = client.stat(folder + name)
            if _is(status, stat.S_IFREG):
                yield name, status


def _entries(
    client: paramiko.SFTPClient, folder: str, bounds: ListingBounds
) -> list[paramiko.SFTPAttributes]:
    """All of a folder: the client can do nothing else meanwhile."""
    entries = []
    for status in client.listdir_iter(folder):
        bounds.count()
        entries.append(status)
    return entries


def _is(status: paramiko.SFTPAttributes, kind: int) -> bool:
    return stat.S_IFMT(status.st_mode or 0) == kind
