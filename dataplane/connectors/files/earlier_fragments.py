"""Fragments parsed before the table of types existed: Spark read each file under the dataset's
types, not under its own.

A worker asks the footers once whether that gave the values of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dataplane.connectors.files.footers import footer_types
from dataplane.connectors.files.source_bytes import (
    are_unchanged,
    open_source,
    reported_path,
)
from dataplane.contract.claims import ParseTask
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import Misread
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.contract.types import FileType, TypeRefusal, in_words, refusal, was_read_exactly
from dataplane.storage.source_copies import local_file
from dataplane.storage.source_stores import BUFFER_BYTES, is_remote

MOST = 20  # columns that are reported of one task


def misread_columns(job: SourceJob, task: ParseTask) -> list[Misread]:
    """The columns of a task's files that may have been misread, at most MOST of them. TaskFailure
    where a footer cannot be read."""
    misread: list[Misread] = []
    for source in task["objects"]:
        path = reported_path(source)
        with open_source(job, source, BUFFER_BYTES) as file:
            types = footer_types(file, path, job["format"])
        misread += _misread(path, types, task["columns"])
        if len(misread) >= MOST:
            break
    return misread[:MOST]


def are_others(job: SourceJob, objects: Sequence[SourceObject]) -> bool:
    """Whether some objects are not those that were listed. Local files of the same size and time
    are not read."""
    return not are_unchanged(job, [o for o in objects if is_remote(o["uri"]) or not _is_of_then(o)])


def _is_of_then(source: SourceObject) -> bool:
    try:
        status = Path(local_file(source["uri"])).stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns // 1_000_000) == (
        source["size"],
        source["modified_ms"],
    )


def _misread(path: str, types: Mapping[str, FileType], schema: Schema) -> Iterator[Misread]:
    for column in schema["fields"]:
        name, kind = column["name"], column["type"]
        if name in types and not was_read_exactly(types[name], kind):
            place = refusal(name, types[name], kind) or TypeRefusal(name, types[name], kind)
            have, read = in_words(place.file), in_words(place.dataset)
            yield {"file": path, "column": place.name, "have": have, "read": read}
