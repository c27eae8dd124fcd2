"""Partitions of source files that a listing has in memory a few at a time: those of servers, and
members of archives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.external_sort import Record, sorted_unique
from dataplane.listing.listed_partitions import keys_for, listed_partitions


def partitions_of(sources: Iterable[SourceObject], job: ListJob) -> Iterator[ListedPartition]:
    """The partitions of files in any order, sorted outside of memory. `regex` chooses among
    them."""
    return listed_partitions(map(_object, sorted_unique(_records(sources, job))), job)


def _records(sources: Iterable[SourceObject], job: ListJob) -> Iterator[Record]:
    key_of = keys_for(job)
    for source in sources:
        if key := key_of(source["name"]):
            yield key, source["name"], json.dumps(source)


def _object(record: Record) -> tuple[str, SourceObject]:
    key, _, source = record
    return key, json.loads(source)
