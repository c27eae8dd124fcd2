"""Partitions of a listing: the key of a file by its name, and what a partition says of its
objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import groupby
from operator import itemgetter

from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject, is_of_bytes, source_of
from dataplane.listing.grouping import grouped, key_for
from dataplane.listing.hive_partitions import with_folders
from dataplane.listing.patterns import full_matcher
from dataplane.task_failures import TaskFailure


def keys_for(job: ListJob) -> Callable[[str], str | None]:
    """A function from a file's name below the fixed folder to its partition key; None where `regex`
    excludes the file. TaskFailure for a name that has no key."""
    regex, key_of = (job.get("settings") or {}).get("regex"), key_for(job)
    is_chosen = full_matcher(regex) if regex else None

    def key_for_name(name: str) -> str | None:
        if is_chosen and not is_chosen(name):
            return None
        if not (key := key_of(name)):
            raise TaskFailure(
                "no-partition", f"the file {name} does not match partition: {job['partition']}"
            )
        return key

    return key_for_name


def listed_partitions(
    sources: Iterator[tuple[str, SourceObject]], job: ListJob
) -> Iterator[ListedPartition]:
    """The partitions of files with keys, in order of keys."""
    for key, group in groupby(with_folders(grouped(sources, job), job), itemgetter(0)):
        yield listed(key, [source for _, source in group], job.get("metadata", ()))


def listed(key: str, objects: list[SourceObject], metadata: Iterable[str]) -> ListedPartition:
    """A partition: `source` identifies its objects, `content` says how many they are, how large,
    and where they lie."""
    content = [len(objects), sum(o["size"] for o in objects), _places(objects)]
    return {
        "key": key,
        "source": source_of(objects, tuple(metadata)).hex(),
        "content": content,
        "objects": objects,
    }


def _places(objects: Iterable[SourceObject]) -> int:
    """64 bits of a hash over names, places and sizes; over times only where a reader has nothing
    better to go by."""
    places = (
        [o["name"], o["uri"], o["size"], None if is_of_bytes(o) else o["modified_ms"]]
        for o in objects
    )
    return int.from_bytes(
        sha256(b"headgate/places/1\n" + json.dumps(sorted(places)).encode()).digest()[:8], "big"
    )
