"""The `list` kind of work: the files behind a read connector, with versions by content, grouped by
partition.

A listing is whole or it fails: nothing here may turn "could not look" into "is not there". Files in
folders are listed by `local_files`, objects in a store by `object_store_listing`, files of servers
by `http_listing` and `sftp_listing`, and members of archives, wherever these lie, by
`archive_listing`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from dataplane.contract.archives import MEMBERS
from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.source_objects import ListingResult
from dataplane.listing import local_files, object_store_listing, unchanged
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.unchanged import LocationFingerprint
from dataplane.listing.version_cache import Versions
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import is_http, is_remote, is_sftp


def list_files(
    job: ListJob, cache: Versions, place: Callable[[], Path] | None = None, lake: str = ""
) -> ListingResult:
    """The result of a `list` task. TaskFailure if anything at all cannot be read.

    Memory holds some thousand files at a time. A listing that is too large for a report becomes the
    file that `place` names; without one it is reported inline, however large. A listing that the
    control plane has already (`was`) is reported by its digest alone. Files in `lake` are never
    listed.
    """
    variant, bounds = _variant(job["location"]), ListingBounds.of(os.environ)
    places = Places.of(os.environ, lake)
    if MEMBERS not in (job.get("settings") or {}):
        with variant.fingerprinted(job, cache, places, bounds) as files:
            return unchanged.result(files, job, cache, place)

    from dataplane.listing import archive_listing

    archives = archive_listing.archives_job(job)
    with (
        variant.fingerprinted(archives, cache, places, bounds) as files,
        archive_listing.members_of(files, job, cache, bounds) as members,
    ):
        return unchanged.result(members, job, cache, place)


def check_folder(job: ConnectJob) -> None:
    """Whether a location can be looked at, or written to. TaskFailure says why not."""
    _variant(job["place"]).check(job, Places.of(os.environ))


class _Variant(Protocol):
    """How files of a kind of place are listed."""

    def fingerprinted(
        self, job: ListJob, cache: Versions, places: Places, bounds: ListingBounds
    ) -> AbstractContextManager[LocationFingerprint]: ...

    def check(self, job: ConnectJob, places: Places) -> None: ...


def _variant(location: str) -> _Variant:
    """Those of servers are imported where one is listed: most workers list none."""
    if is_http(location):
        from dataplane.listing import http_listing

        return http_listing
    if is_sftp(location):
        from dataplane.listing import sftp_listing

        return sftp_listing
    return object_store_listing if is_remote(location) else local_files
