"""Listing the members of archives: each archive is a file of its location, and a folder of its
members."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from dataplane.contract.archives import MEMBERS, member_uri
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.archive_calls import ArchiveCall, list_members
from dataplane.listing.archive_process import MemberLine
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.served_listing import partitions_of
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import FileReading, Versions

AT_A_TIME = 8  # archives whose members are in memory
THREADS = 2  # each has a process, and a copy of an archive that is not local


@contextmanager
def members_of(
    archives: LocationFingerprint, job: ListJob, cache: Versions, bounds: ListingBounds
) -> Iterator[LocationFingerprint]:
    """The members of all archives that `archives` lists."""
    with TemporaryDirectory(prefix="headgate-archives-") as folder:
        call = ArchiveCall(job, Path(folder), bounds.check_time)

        def partitions() -> Iterator[ListedPartition]:
            return partitions_of(_members(archives, call, job, cache), job)

        yield LocationFingerprint(archives.text, partitions)


def archives_job(job: ListJob) -> ListJob:
    """A job that lists the archives themselves: all files at the location."""
    settings = job.get("settings") or {}
    of_place = {k: v for k, v in settings.items() if k.startswith(("storage.", "http.", "sftp."))}
    binary_job: ListJob = {
        **job,
        "format": "binary",
        "options": {},
        "partition": None,
        "metadata": [],
    }
    return {**binary_job, "settings": of_place}


def _members(
    archives: LocationFingerprint, call: ArchiveCall, job: ListJob, cache: Versions
) -> Iterator[SourceObject]:
    listed = (source for partition in archives.partitions() for source in partition["objects"])
    with ThreadPoolExecutor(THREADS) as threads:
        while some := list(islice(listed, AT_A_TIME)):
            lines = threads.map(lambda archive: _lines(archive, call, job, cache), some)
            for archive, members in zip(some, lines, strict=True):
                yield from (_object(archive, line) for line in members)


def _lines(
    archive: SourceObject, call: ArchiveCall, job: ListJob, cache: Versions
) -> list[MemberLine]:
    """Remembered under the version of the archive, or read."""
    glob = str((job.get("settings") or {})[MEMBERS])
    reading = FileReading(job["format"], job["options"])
    way = digest("members/1", uri=archive["uri"], glob=glob, reading=reading.id).hex()
    lines: list[MemberLine] | None = cache.listing(way, archive["version"])
    if lines is None:
        lines = list_members(call, archive, glob, reading)
        cache.keep_listing(way, archive["version"], lines)
    return lines


def _object(archive: SourceObject, line: MemberLine) -> SourceObject:
    return {
        "name": f"{archive['name']}/{line['name']}",
        "uri": member_uri(archive["uri"], line["name"]),
        "size": line["size"],
        "modified_ms": line["modified_ms"],
        "version": line["version"],
        "columns": line["columns"],
    }
