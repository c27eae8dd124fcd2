"""The `list` kind of work: the files behind a read connector, with versions by content, grouped by
partition.

A listing is whole or it fails: nothing here may turn "could not look" into "is not there". Files in
folders are listed by `local_files`, objects in a store by `object_store_listing`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from dataplane.contract.jobs import ConnectJob, ListJob
from dataplane.contract.source_objects import ListingResult
from dataplane.listing import local_files, object_store_listing, unchanged
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.version_cache import Versions
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import is_remote


def list_files(
    job: ListJob, cache: Versions, place: Callable[[], Path] | None = None, lake: str = ""
) -> ListingResult:
    """The result of a `list` task. TaskFailure if anything at all cannot be read.

    Memory holds some thousand files at a time. A listing that is too large for a report becomes the
    file that `place` names; without one it is reported inline, however large. A listing that the
    control plane has already (`was`) is reported by its digest alone. Files in `lake` are never
    listed.
    """
    variant = object_store_listing if is_remote(job["location"]) else local_files
    with variant.fingerprinted(
        job, cache, Places.of(os.environ, lake), ListingBounds.of(os.environ)
    ) as fingerprint:
        return unchanged.result(fingerprint, job, cache, place)


def check_folder(job: ConnectJob) -> None:
    """Whether a location can be looked at, or written to. TaskFailure says why not."""
    variant = object_store_listing if is_remote(job["place"]) else local_files
    variant.check(job, Places.of(os.environ))
