"""A look at the bytes of source files that Spark has read: still the listed ones, and text that can be decoded?

Spark puts a replacement character for what it cannot decode, and reads whatever is there. Does not belong here:
finding files, or their columns.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import unquote, urlsplit

from dataplane.contract import SourceObject, TaskError
from dataplane.failure import TaskFailure

_CHUNK = 1 << 20
_OPAQUE = (".deflate", ".lz4", ".snappy", ".zst", ".xz", ".zip")  # compressed in ways that we do not look into


def local_file(uri: str) -> str:
    """The path behind a `file:` URI or an absolute path."""
    if uri.startswith("/"):
        return uri
    parts = urlsplit(uri)
    if parts.scheme != "file":
        raise TaskFailure("not-supported", f"only local files can be read yet, not {uri}")
    return unquote(uri.removeprefix("file:").removeprefix("//"))


def is_unchanged(found: SourceObject) -> bool:
    """Whether a file's bytes still are those of its version. Versions that are no digest tell by size and time."""
    path = Path(local_file(found["uri"]))
    try:
        status = path.stat()
        if status.st_size != found["size"]:
            return False
        if not found["version"].startswith("sha256:"):
            return status.st_mtime_ns // 1_000_000 == found["modified_ms"]
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest() == found["version"]
    except (FileNotFoundError, NotADirectoryError):
        return False


def undecodable(found: SourceObject, encoding: str) -> TaskError | None:
    """The first place of a text file that its encoding does not allow."""
    path = local_file(found["uri"])
    if path.endswith(_OPAQUE):
        return None
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        return None  # Java knows it, or Spark will refuse it
    lines = 0
    with open(path, "rb") as file:
        try:
            for chunk in _chunks(_plain(file, path)):
                decoder.decode(chunk)
                lines += chunk.count(b"\n")
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as e:
            line = lines + e.object.count(b"\n", 0, e.start) + 1
            return _undecodable(path, encoding, line, e)
        except (EOFError, OSError, zlib.error):
            return None  # broken compression: Spark says so
    return None


def _plain(file: BinaryIO, path: str) -> BinaryIO:
    if path.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    return cast("BinaryIO", bz2.BZ2File(file)) if path.endswith(".bz2") else file


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _undecodable(path: str, encoding: str, line: int, error: UnicodeDecodeError) -> TaskError:
    return {
        "kind": "user",
        "condition": "MALFORMED_CHARACTER_CODING",
        "sqlstate": "22000",
        "message": f"{path}: line {line} is not {encoding}: {error.reason}",
        "file": path,
        "line": line,
        "column": None,
        "detail": str(error),
    }
