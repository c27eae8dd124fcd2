"""A look at the bytes of source files that Spark has read: still the listed ones, and text that can
be decoded, with one JSON value in a line?

Spark replaces bytes that it cannot decode, skips values, and reads a file even if it has changed.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from dataplane.connectors.files.number_search import NumberSearch
from dataplane.connectors.files.reader_options import users_options
from dataplane.connectors.files.skipped_json import ValueLook
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import TaskError, task_error
from dataplane.contract.source_objects import SourceObject
from dataplane.listing.encodings import codec_of, is_swapped, is_wide
from dataplane.storage.source_copies import local_file, place_of
from dataplane.storage.source_stores import (
    ALL_BYTES,
    is_remote,
    moved,
    open_object,
    open_root,
    root_of,
)
from dataplane.storage.store_addresses import access_of
from dataplane.task_failures import TaskFailure, error_of

DOUBTFUL_NUMBERS = "doubtful numbers"
_CHUNK = 1 << 20
# Compressed in ways that we do not look into
_OPAQUE = (".deflate", ".lz4", ".snappy", ".zst", ".xz", ".zip")


def open_source(job: SourceJob, source: SourceObject, buffer_bytes: int = ALL_BYTES) -> BinaryIO:
    """A source file of a job's as bytes, wherever it lies."""
    if is_remote(source["uri"]):
        return open_object(open_root(root_of(source["uri"]), access_of(job)), source, buffer_bytes)
    return open(local_file(source["uri"]), "rb")


def reported_path(source: SourceObject) -> str:
    """A source file's place as users know it."""
    return place_of(source["uri"])


def one_of(objects: Sequence[SourceObject]) -> str:
    """A task's file as users know it, or one of several."""
    first = reported_path(objects[0])
    return first if len(objects) == 1 else f"{first} or one of {len(objects) - 1} files beside it"


def are_unchanged(job: SourceJob, objects: Sequence[SourceObject]) -> bool:
    """Whether all source files of a task still are those that were listed."""
    if objects and is_remote(objects[0]["uri"]):
        return not moved(access_of(job), objects)
    return all(map(is_unchanged, objects))


def is_unchanged(source: SourceObject) -> bool:
    """Whether a file's bytes still are those of its version. Where the version is no digest, size
    and time decide."""
    path = Path(local_file(source["uri"]))
    try:
        status = path.stat()
        if status.st_size != source["size"]:
            return False
        if not source["version"].startswith("sha256:"):
            return status.st_mtime_ns // 1_000_000 == source["modified_ms"]
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest() == source["version"]
    except (FileNotFoundError, NotADirectoryError):
        return False


def misread(
    job: SourceJob, source: SourceObject, encoding: str, *, number_types: Collection[str] = ()
) -> TaskError | str | None:
    """The first place of a text file that its encoding does not allow; or where values are that
    Spark passes over. DOUBTFUL_NUMBERS where the file may have numbers that `number_types` do not
    hold; in JSON, that DOUBLE does not."""
    path, options = reported_path(source), users_options(job["options"])
    look = _look_of(job["format"], options, number_types)
    unseen = DOUBTFUL_NUMBERS if number_types else None
    if path.endswith(_OPAQUE):
        return unseen
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        return unseen  # Java knows it, or Spark will refuse it
    chunks = 0
    with open_source(job, source) as file:
        try:
            for chunk in _chunks(plain(file, path)):
                if not chunks and is_wide(encoding):
                    if is_swapped(encoding, chunk):
                        return _swapped(path, encoding)
                    decoder = codecs.getincrementaldecoder(codec_of(encoding, chunk))()
                text = decoder.decode(chunk)
                chunks += 1
                if look:
                    look.see(text)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as e:
            line = _lines_in(job, source, chunks, e) + 1
            return _undecodable(path, encoding, line, e)
        except EOFError:
            return _cut_short(path) if path.endswith(".bz2") and source["size"] else unseen
        except (OSError, zlib.error):
            return unseen  # broken compression: Spark says so
    if isinstance(look, ValueLook) and look.is_doubtful:
        with open_source(job, source) as file:
            if error := look.passed_over(plain(file, path), path, encoding):
                return error
    return DOUBTFUL_NUMBERS if look and look.has_doubtful_numbers() else None


def _look_of(
    format: str, options: Mapping[str, str], number_types: Collection[str]
) -> ValueLook | NumberSearch | None:
    if format == "json":
        return ValueLook(options, bool(number_types))
    if format == "csv" and number_types:
        return NumberSearch(options, "double" in number_types)
    return None


def _lines_in(job: SourceJob, source: SourceObject, chunks: int, error: UnicodeDecodeError) -> int:
    """Line breaks before an error in the chunk after so many: to count them takes longer than to
    decode, and nearly all files are text."""
    before = error.object[: error.start]
    with open_source(job, source) as file:
        some = islice(_chunks(plain(file, reported_path(source))), chunks)
        if not error.encoding.startswith(("utf-16", "utf-32")):
            return sum(chunk.count(b"\n") for chunk in some) + before.count(b"\n")
        decoder = codecs.getincrementaldecoder(error.encoding)("replace")
        return sum(decoder.decode(chunk).count("\n") for chunk in (*some, before))


def plain(file: BinaryIO, path: str) -> BinaryIO:
    """The content of a file, decompressed as its name says."""
    if path.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    return cast("BinaryIO", bz2.BZ2File(file)) if path.endswith(".bz2") else file


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _cut_short(path: str) -> TaskError:
    """Spark says so, too, except where a file ends between two blocks."""
    message = f"{path} ends in the middle: it was not written, or copied, to its end"
    return error_of(TaskFailure("file-cut-short", message, file=path))


def _swapped(path: str, encoding: str) -> TaskError:
    """Text that would be read as other characters."""
    hint = f"write `encoding: {encoding.upper()}LE`, or save the file with a mark"
    message = f"{path} has no byte order mark, and is little-endian, where {encoding} is big-endian: {hint}"
    return error_of(TaskFailure("MALFORMED_CHARACTER_CODING", message, file=path))


def _undecodable(path: str, encoding: str, line: int, error: UnicodeDecodeError) -> TaskError:
    message = f"{path}: line {line} is not {encoding}: {error.reason}"
    record = task_error("user", "MALFORMED_CHARACTER_CODING", message)
    return {**record, "sqlstate": "22000", "file": path, "line": line, "detail": str(error)}
