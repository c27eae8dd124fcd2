"""Listing files in an object store: as a stream, in pages of the server, with its own versions.

Nothing is a folder there: what lies below the fixed folder of a glob is listed, and names are
matched as those of local files are. A listing that breaks off in the middle is a failure, never a
shorter listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from dataplane.contract.globs import GLOB_CHARACTERS
from dataplane.contract.jobs import ConnectJob, ConnectorJob, ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.bounds import AT_A_TIME, ListingBounds
from dataplane.listing.external_sort import Record, sorted_unique
from dataplane.listing.file_columns import own_columns
from dataplane.listing.glob import BadGlob, base_folder, matcher
from dataplane.listing.listed_partitions import keys_for, listed_partitions
from dataplane.listing.page_buffer import Pages, StoredObject, stored_objects
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import FileReading, Seen, Stamp, Versions
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import (
    ALL_BYTES,
    BUFFER_BYTES,
    PAGE,
    Moved,
    StoreAccess,
    head,
    modified_ms,
    open_object,
    open_root,
    root_of,
    telling,
    uri_of,
    version_by,
)
from dataplane.storage.store_addresses import access_of, check_address
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import ObjectStore

THREADS = 16  # they wait for the server


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The prefix to list. Names are relative to `folder` (with its last slash, or empty); only
    objects under `below` are requested; `is_exact` where the path has no glob."""

    root: str
    path: str
    access: StoreAccess

    @staticmethod
    def of(job: ConnectorJob, location: str) -> StorePlace:
        root = root_of(location)
        return StorePlace(root, location.removeprefix(root).lstrip("/"), access_of(job))

    @property
    def store(self) -> ObjectStore:
        return open_root(self.root, self.access)

    @property
    def folder(self) -> str:
        return base_folder(f"/{self.path}")[1:]

    @property
    def is_exact(self) -> bool:
        return (
            not any(c in self.path for c in GLOB_CHARACTERS)
            and not self.path.endswith("/")
            and bool(self.path)
        )

    @property
    def below(self) -> str:
        return self.path if self.is_exact else self.folder


@contextmanager
def fingerprinted(
    job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
) -> Iterator[LocationFingerprint]:
    """All metadata that the server gives of a location, then the listing. Memory holds a few pages
    of the server, the buffer of the sort, and some thousand objects."""
    place = StorePlace.of(job, job["location"])
    places.check_object(place.root, place.below)
    check_address(place.access.endpoint)
    if place.is_exact and (meta := head(place.store, place.root, place.path)):
        yield LocationFingerprint(
            "", lambda: _partitions([_stored_object(meta)], place, job, cache, places)
        )
        return
    with Pages() as pages:
        for page in _pages(place):
            bounds.count(len(page))
            bounds.check_time()
            pages.add(page)
        yield LocationFingerprint(
            pages.text, lambda: _partitions(pages.objects(), place, job, cache, places)
        )


def _partitions(
    objects: Iterable[StoredObject],
    place: StorePlace,
    job: ListJob,
    cache: Versions,
    places: Places,
) -> Iterator[ListedPartition]:
    reading = FileReading(job["format"], job["options"])
    try:
        records = sorted_unique(_records(objects, place, job, places))
        yield from listed_partitions(_observed(records, place, reading, cache), job)
    except BadGlob as e:
        raise TaskFailure("bad-glob", f"{job['location']}: {e}") from e


def check(job: ConnectJob, places: Places) -> None:
    """Check that a place can be listed, and, to read from it, that its first object can be read.
    TaskFailure gives the reason."""
    place = StorePlace.of(job, job["place"])
    if job["writes"]:
        places.check_target(f"{place.root}/{place.path}")
    else:
        places.check_object(place.root, place.below)
        check_address(place.access.endpoint)
    meta = head(place.store, place.root, place.path) if place.is_exact else None
    first = (
        _stored_object(meta)
        if meta
        else next(chain.from_iterable(map(stored_objects, _pages(place))), None)
    )
    if job["writes"]:
        return
    if first:
        version = version_by(first.etag, first.size, first.modified_ms, place.access)
        open_object(
            place.store, _source(first.path, uri_of(place.root, first.path), first.size, 0, version)
        ).read(1)
    elif place.is_exact:
        raise _nothing(place)


# --- which there are ------------------------------------------------------------------------------


def _records(
    objects: Iterable[StoredObject], place: StorePlace, job: ListJob, places: Places
) -> Iterator[Record]:
    """Key, name, size, time and version of all objects that match."""
    is_found, key_of, folder = (
        matcher(place.path.removeprefix(place.folder)),
        keys_for(job),
        place.folder,
    )
    count = 0
    for stored in objects:
        name = stored.path.removeprefix(folder)
        if (
            stored.path.startswith(folder)
            and is_found(name)
            and (key := key_of(name))
            and _is_object(place, stored)
        ):
            count += 1
            places.check_object(place.root, stored.path)
            version = version_by(stored.etag, stored.size, stored.modified_ms, place.access)
            yield key, name, str(stored.size), str(stored.modified_ms), version
    if place.is_exact and not count:
        raise _nothing(place)


def _pages(place: StorePlace) -> Iterator[pa.RecordBatch]:
    store = place.store  # first of all: it may raise that the package is missing
    import obstore
    import pyarrow as pa

    with telling(uri_of(place.root, place.below)):
        for page in obstore.list(
            store, prefix=place.below or None, chunk_size=PAGE, return_arrow=True
        ):
            yield pa.record_batch(page)


def _stored_object(meta: Mapping[str, Any]) -> StoredObject:
    return StoredObject(meta["path"], meta["size"], modified_ms(meta), meta["e_tag"])


def _is_object(place: StorePlace, stored: StoredObject) -> bool:
    """Not what some tools put to stand for an empty folder, whose name ends in a slash that is not
    listed."""
    return stored.size > 0 or head(place.store, place.root, stored.path) is not None


def _nothing(place: StorePlace) -> TaskFailure:
    return TaskFailure("path-not-found", f"there is nothing at {uri_of(place.root, place.path)}")


# --- what they are --------------------------------------------------------------------------------


def _observed(
    records: Iterator[Record], place: StorePlace, reading: FileReading, cache: Versions
) -> Iterator[tuple[str, SourceObject]]:
    """Keys with the objects behind them, and the columns that these have."""
    with ThreadPoolExecutor(THREADS) as threads:
        while some := list(islice(records, AT_A_TIME)):
            objects = [_of_record(place, record) for record in some]
            columns = _columns(objects, place, reading, cache, threads)
            for (key, *_), source in zip(some, objects, strict=True):
                source["columns"] = columns[source["uri"]]
                yield key, source


def _of_record(place: StorePlace, record: Record) -> SourceObject:
    _, name, size, modified, version = record
    return _source(name, uri_of(place.root, place.folder + name), int(size), int(modified), version)


def _source(name: str, uri: str, size: int, modified: int, version: str) -> SourceObject:
    return {
        "name": name,
        "uri": uri,
        "size": size,
        "modified_ms": modified,
        "version": version,
        "columns": None,
    }


def _columns(
    objects: Iterable[SourceObject],
    place: StorePlace,
    reading: FileReading,
    cache: Versions,
    threads: ThreadPoolExecutor,
) -> dict[str, list[str] | None]:
    """By URI: remembered under the version, or read. An object that changes meanwhile gets None;
    its reader will detect the change."""
    by_uri = {o["uri"]: o for o in objects}
    cached = cache.unchanged(reading, {uri: _stamp(o) for uri, o in by_uri.items()})
    began_ns, fresh = cache.now_ns(), [o for uri, o in by_uri.items() if uri not in cached]
    read = {
        o["uri"]: observed
        for o, observed in zip(
            fresh, threads.map(lambda o: _observe(o, place, reading), fresh), strict=True
        )
        if observed
    }
    cache.keep(reading, [(uri, observed, began_ns) for uri, observed in read.items()])
    observed_all = {**cached, **read}
    return {uri: observed_all[uri].columns if uri in observed_all else None for uri in by_uri}


def _stamp(source: SourceObject) -> Stamp:
    """An etag distinguishes objects that look alike otherwise; a time does so where an object has
    been at rest for a while."""
    is_timed = source["version"].startswith("modified:")
    version_number = int.from_bytes(sha256(source["version"].encode()).digest()[:7], "big")
    return Stamp(
        source["size"], source["modified_ms"] * 1_000_000 if is_timed else 0, 0, version_number
    )


def _observe(source: SourceObject, place: StorePlace, reading: FileReading) -> Seen | None:
    buffer_bytes = ALL_BYTES if reading.format == "json" else BUFFER_BYTES
    try:
        with open_object(place.store, source, buffer_bytes) as file:
            columns = own_columns(file, source["uri"], reading.format, reading.options)
    except Moved:
        return None
    return Seen(_stamp(source), source["version"], columns)
