"""Names of the folders of partitions in a target of files, by the layout of the target.

    layout 1   place%3DNorth%2520America%2Fyear%3D2013      one folder, named after the encoded key
    layout 2   place=North%20America/year=2013              keys of plain columns, as Hive names them
               2013%2F07.csv                                any other key, in one folder; encoded once

A key of columns has a folder for each column, in which NULL and the empty text have names of their
own. Other keys that hold `=`, such as granules and buckets, are no values of a column, so their
folders must not look like that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dataplane.contract.jobs import WriteJob
from dataplane.contract.key_folders import EMPTY, NULL
from dataplane.contract.keys import encode_key
from dataplane.task_failures import TaskFailure

FIRST: Final = 1  # the layout of targets whose marker is of the first version
NEWEST: Final = 2
LONGEST: Final = 255
_ENCODED = re.compile(r"(?:[A-Za-z0-9._/=-]|%[0-9A-F]{2})+")
_AMBIGUOUS = ("%25", "%2F", "%3D")  # once `/` and `=` are encoded, too


class PartitionFolders:
    """Where an owner's target has its partitions. `goes_on`: it was there before; `layout`: as its
    marker says."""

    def __init__(self, job: WriteJob) -> None:
        self.owner: str = job["owner"]
        self.goes_on: bool = job.get("goes_on", False)
        self.by_columns: bool = job.get("by_columns", False)
        self.layout = NEWEST

    def folder_of(self, partition: str) -> str:
        return folder_of(partition, self.layout, by_columns=self.by_columns)


def folder_of(partition: str, layout: int, *, by_columns: bool) -> str:
    """The path of a partition's folder below the target. `by_columns`: keys are plain values of
    columns."""
    if layout == FIRST:
        folder = encode_key(partition)
    elif by_columns and _ENCODED.fullmatch(partition):
        folder = _of_columns(partition)
    else:
        folder = _of_key(partition)
    if not _can_be(folder):
        raise TaskFailure(
            "target-name-too-long",
            f"no folder can be named after the partition {partition[:50]}...",
        )
    return folder


def places_of(partition: str) -> Iterator[str]:
    """All folders that a partition may have had, by any layout."""
    folders = {encode_key(partition), _of_key(partition)}
    if _ENCODED.fullmatch(partition):
        folders.add(_of_columns(partition))
    yield from filter(_can_be, sorted(folders))


def _can_be(path: str) -> bool:
    return all(len(name) <= LONGEST for name in path.split("/"))


def _of_columns(key: str) -> str:
    return "/".join(map(_of_column, key.split("/")))


def _of_column(segment: str) -> str:
    """`name=text` as Hive has it. A text that is one of the two names is encoded a little further
    than it need be."""
    name, equals, text = segment.partition("=")
    if not equals:
        return f"{name}={NULL}"
    if text in (NULL, EMPTY):
        text = f"%5F{text[1:]}"
    return f"{name}={text or EMPTY}"


def _of_key(key: str) -> str:
    """The key with `/` and `=` encoded. A key that is not encoded, or would get the name of
    another, is encoded whole."""
    if not _ENCODED.fullmatch(key) or any(text in key for text in _AMBIGUOUS):
        return encode_key(key)
    name = key.replace("/", "%2F").replace("=", "%3D")
    return f"%{ord(name[0]):02X}{name[1:]}" if name[0] in "._" else name
