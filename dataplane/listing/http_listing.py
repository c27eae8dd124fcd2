"""Listing files of web servers: the URLs of a component, each looked at by one request.

A version is the strong etag that the server gives, else a digest of the bytes. Where a file was not
changed since the last look, as etag or time say, the server sends nothing (304).
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import IO, BinaryIO, cast

import httpx2

from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ConnectJob, ConnectorJob, ListJob
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.file_columns import own_columns
from dataplane.listing.glob import BadGlob, braces
from dataplane.listing.served_listing import partitions_of
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import FileReading, Versions
from dataplane.storage.file_process import MOST_BYTES
from dataplane.storage.http_files import (
    GONE,
    PREFIX,
    UNCHANGED,
    chunks,
    is_at_rest,
    length_of,
    opened,
    seconds_of,
    strong_etag,
)
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import Moved, StoreAccess, version_by
from dataplane.task_failures import TaskFailure

THREADS = 8  # they wait for the server
AT_A_TIME = 64
_LAST = "last look"


def fingerprinted(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> AbstractContextManager[LocationFingerprint]:
    """The listing of all URLs that the location stands for. TaskFailure where a server fails, or
    gives none of them."""
    for url in urls_of(job["location"]):
        places.check_source(url)

    def partitions() -> Iterator[ListedPartition]:
        return partitions_of(_sources(job, cache, bounds), job)

    return nullcontext(LocationFingerprint("", partitions))


def check(job: ConnectJob, places: Places) -> None:
    """Check that the first URL gives a file. TaskFailure says why not."""
    if job["writes"]:
        raise TaskFailure("not-supported", "nothing is written to web servers: name a folder")
    url = urls_of(job["place"])[0]
    places.check_source(url)
    with opened(job, url, {}) as answer:
        if answer.status_code in GONE:
            raise _nothing(url)


def urls_of(location: str) -> list[str]:
    """The URLs that a location with braces stands for."""
    try:
        return braces(location)
    except BadGlob as e:
        raise TaskFailure("bad-glob", f"{location}: {e}") from e


def _nothing(location: str) -> TaskFailure:
    return TaskFailure("path-not-found", f"there is no file at {location}")


def _sources(job: ListJob, cache: Versions, bounds: ListingBounds) -> Iterator[SourceObject]:
    location, count = job["location"], 0
    urls = iter(urls_of(location))
    with ThreadPoolExecutor(THREADS) as threads:
        while some := list(islice(urls, AT_A_TIME)):
            for source in threads.map(lambda url: _source(url, job, cache, bounds), some):
                if source is not None:
                    count += 1
                    yield source
    if not count:
        raise _nothing(location)


def _name(url: str, location: str) -> str:
    """A URL below the fixed part of the location."""
    fixed = location.partition("{")[0].partition("?")[0]
    return url.removeprefix(fixed[: fixed.rfind("/") + 1])


def _source(url: str, job: ListJob, cache: Versions, bounds: ListingBounds) -> SourceObject | None:
    """A file as it is now; None where there is none."""
    bounds.check_time()
    reading = FileReading(job["format"], job["options"])
    way = digest("http/1", url=url, reading=reading.id, settings=_declared(job)).hex()
    last: Json = cache.listing(way, _LAST)
    with opened(job, url, last["conditions"] if last else {}) as answer:
        if last and answer.status_code == UNCHANGED:
            return cast("SourceObject", {**last["source"], "name": _name(url, job["location"])})
        if answer.status_code in GONE:
            return None
        if answer.status_code != 200:
            raise Moved(url)
        source = _observed(url, answer, reading, bounds)
        if conditions := _conditions(answer):
            cache.keep_listing(way, _LAST, {"conditions": conditions, "source": source})
    return {**source, "name": _name(url, job["location"])}


def _declared(job: ConnectorJob) -> dict[str, str]:
    settings = job.get("settings") or {}
    return {name: text for name, text in settings.items() if name.startswith(PREFIX)}


def _conditions(answer: httpx2.Response) -> dict[str, str]:
    """Headers of the next look, to which the server answers that nothing has changed."""
    if etag := strong_etag(answer):
        return {"If-None-Match": etag}
    if is_at_rest(answer):
        return {"If-Modified-Since": answer.headers["last-modified"]}
    return {}


def _observed(
    url: str, answer: httpx2.Response, reading: FileReading, bounds: ListingBounds
) -> SourceObject:
    etag, size = strong_etag(answer), length_of(answer)
    with tempfile.TemporaryFile() as copy:
        file = _Downloaded(chunks(answer, url), copy, bounds)
        columns = own_columns(
            cast("BinaryIO", file), url.partition("?")[0], reading.format, reading.options
        )
        if etag and size is not None:
            version = version_by(etag, size, 0, StoreAccess())
        else:
            size = file.seek(0, io.SEEK_END)
            copy.seek(0)
            version = f"sha256:{hashlib.file_digest(copy, 'sha256').hexdigest()}"
    return {
        "name": url,
        "uri": url,
        "size": size,
        "modified_ms": seconds_of(answer, "last-modified") * 1000,
        "version": version,
        "columns": columns,
    }


class _Downloaded(io.RawIOBase):
    """A file of which as much is fetched as is read."""

    def __init__(self, source: Iterable[bytes], copy: IO[bytes], bounds: ListingBounds) -> None:
        self._source, self._copy, self._bounds = iter(source), copy, bounds
        self._place = self._size = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            self._fetch(None)
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        end = None if size is None or size < 0 else self._place + size
        self._fetch(end)
        self._copy.seek(self._place)
        content = self._copy.read() if end is None else self._copy.read(end - self._place)
        self._place += len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _fetch(self, end: int | None) -> None:
        """Fetch up to this place; all without one."""
        self._copy.seek(0, io.SEEK_END)
        while end is None or self._size < end:
            chunk = next(self._source, None)
            if chunk is None:
                return
            self._bounds.check_time()
            self._size += self._copy.write(chunk)
            if self._size > MOST_BYTES:
                message = f"a file takes more than {MOST_BYTES >> 30} GiB: split it"
                raise TaskFailure("file-too-large", message)
