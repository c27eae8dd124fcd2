"""Many small files as few partitions: by folder, or one after the other until they come to a limit.

Groups are stable: where one ends is for the name and size of the file there to say, with any other
there is. So one file more, or less, changes its own group, or splits it, or joins it with the next;
all others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

from dataplane.contract.jobs import ListJob
from dataplane.contract.keys import encode_segment, key_of
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import SourceObject

MOST_FILES = 1000  # that a group mostly has at most: each costs something, however small it is
LARGEST = 4  # times the limit, at which a group ends in any case
TOP = "."  # the key of files that are in no folder


def key_for(job: ListJob) -> Callable[[str], str | None]:
    """A function from a file's name below the fixed folder to its partition key; None where it has
    none."""
    if _settings(job).get("group.by") == "folder":
        return _folder
    template = job.get("partition")
    return lambda name: key_of(name, template)


def grouped(
    sources: Iterator[tuple[str, SourceObject]], job: ListJob
) -> Iterator[tuple[str, SourceObject]]:
    """Files with keys, in their order, under the keys of their groups: of each the key of its first
    file."""
    settings = _settings(job)
    return (
        _by_size(sources, settings["group.bytes"])
        if settings.get("group.by") == "size"
        else sources
    )


def _settings(job: ListJob) -> Mapping[str, Json]:
    return job.get("settings") or {}


def _folder(name: str) -> str:
    folder, _, _ = name.rpartition("/")
    return "/".join(map(encode_segment, folder.split("/"))) if folder else TOP


def _by_size(
    sources: Iterable[tuple[str, SourceObject]], limit: int
) -> Iterator[tuple[str, SourceObject]]:
    first, weight = "", 0
    for key, source in sources:
        if weight == 0:
            first = key
        own = max(source["size"], limit // MOST_FILES, 1)
        weight += own
        yield first, source
        if _is_last(key, own, limit) or weight >= LARGEST * limit:
            weight = 0


def _is_last(key: str, weight: int, limit: int) -> bool:
    """In `weight` of `limit` cases: groups come to about the limit, on average."""
    drawn = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    return drawn * limit < weight << 64
