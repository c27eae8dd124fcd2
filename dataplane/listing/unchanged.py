"""Locations whose fingerprint is unchanged since their last listing: nothing of them is sorted,
written or sent.

The fingerprint is the object metadata in the store, before any object is opened. It counts only
together with the digest of the listing that the control plane has (`was` in a job): a listing that
was refused or held there is reported in full again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import ListedPartition, ListingResult
from dataplane.listing.file_columns import is_wide
from dataplane.listing.result_file import written_listing
from dataplane.listing.version_cache import Versions


@dataclass(frozen=True, slots=True)
class LocationFingerprint:
    """`text` is equal for two looks at a location only if the listings after them are; empty where
    that is open."""

    text: str
    partitions: Callable[[], Iterator[ListedPartition]]


def result(
    look: LocationFingerprint, job: ListJob, cache: Versions, place: Callable[[], Path] | None
) -> ListingResult:
    """The listing; without its partitions where the control plane has them already (`was` is its
    digest)."""
    way = _way(job)
    cached: ListingResult | None = (
        cache.listing(way, look.text) if look.text and "was" in job else None
    )
    if cached is not None and cached["digest"] == job["was"]:
        return cached
    listing = written_listing(look.partitions(), job, place)
    if look.text:
        cache.keep_listing(
            way, look.text, {k: v for k, v in listing.items() if k not in ("partitions", "file")}
        )
    return listing


def _way(job: ListJob) -> str:
    """Where and how it is listed. Another number in the tag forgets all, when listings are to come
    out otherwise."""
    request = {
        name: job.get(name)
        for name in ("location", "format", "options", "partition", "metadata", "settings")
    }
    tag = "listed/2" if is_wide(job["options"]) else "listed/1"
    return digest(tag, asked=json.dumps(request, sort_keys=True)).hex()
