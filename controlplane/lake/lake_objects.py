"""The lake as the control plane's object store, over the files that both planes share
(`dataplane.lakes`).

Adds the errors of this plane and the check at the start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

from controlplane.core.errors import HeadgateError, NotFound
from controlplane.ports.lake import ObjectStore
from dataplane.lakes import lake_opening
from dataplane.lakes.lake_addresses import is_plain_http, kind_of, local_root
from dataplane.lakes.lake_protocol import LakeFiles, MissingPackage, NotInLake, Refused
from dataplane.lakes.local_lake import LocalFiles

MARKER = "_headgate.json"  # an object that two conditional puts are tried on


class LakeRefused(HeadgateError):
    """The store cannot serve as a lake, and trying again does not help."""

    code = "lake-refused"


class LakeObjects:
    """The files of a lake as objects. An object that is missing is NotFound."""

    def __init__(self, files: LakeFiles) -> None:
        self._files = files

    @property
    def uri(self) -> str:
        return self._files.uri

    def read(self, path: str) -> bytes:
        with _not_found(path):
            return self._files.read(path)

    def stream(self, path: str) -> Iterator[bytes]:
        with _not_found(path):
            yield from self._files.stream(path)

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        with _not_found(path):
            yield from self._files.stream_range(path, start, end)

    def put_if_absent(self, path: str, body: bytes) -> bool:
        return self._files.put_if_absent(path, body)

    def sizes(self, prefix: str) -> dict[str, int]:
        with _not_found(prefix):
            return self._files.sizes(prefix)

    def link(self, source: str, target: str) -> None:
        with _not_found(source):
            self._files.link(source, target)

    def delete_prefix(self, prefix: str) -> None:
        self._files.delete_folder(prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        with _not_found(prefix):
            return self._files.folders(prefix)


class LocalObjects(LakeObjects):
    """Objects as files below `root`."""

    def __init__(self, root: Path) -> None:
        files = LocalFiles(root)
        super().__init__(files)
        self.root = files.root


def open_lake(uri: str) -> ObjectStore:
    """The store behind a local path, a file: URI, in HDFS (extra `hdfs`), or another that obstore
    knows (extra `s3`). LakeRefused if there can be none."""
    if kind_of(uri) == "local":
        return LocalObjects(local_root(uri))
    return LakeObjects(_opened(uri))


def check_lake(uri: str) -> None:
    """Raise LakeRefused for a place that cannot be a lake; OSError if it cannot be reached."""
    if kind_of(uri) == "local":
        _check_folder(local_root(uri))
    else:
        _check_store(_opened(uri))


def storage_options(uri: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Options for deltalake; it finds all else in the environment itself."""
    if uri.startswith("s3") and is_plain_http(environ):
        return {"allow_http": "true"}
    return {}


def _opened(uri: str) -> LakeFiles:
    try:
        return lake_opening.open_lake(uri)
    except MissingPackage as e:
        raise LakeRefused(str(e)) from None
    except Refused as e:
        raise LakeRefused(f"{uri}: {e}") from None


def _check_folder(root: Path) -> None:
    path = str(root.absolute())
    if "\\" in path or unquote(path) != path:
        message = (
            "no table can be written where a path holds a backslash or %20 (or any other escape)"
        )
        raise LakeRefused(f"{path}: {message}: take another folder")


def _check_store(files: LakeFiles) -> None:
    """It must take an object, and keep the first of two puts."""
    try:
        files.put_if_absent(MARKER, b"{}")
        is_overwritten = files.put_if_absent(MARKER, uuid4().bytes)
    except Refused as e:
        raise LakeRefused(f"{files.uri}: {e}") from e
    if is_overwritten:
        message = (
            "the object store overwrites what a conditional put (If-None-Match: *) must leave alone"
        )
        raise LakeRefused(
            f"{files.uri}: {message}, so commits to tables would be lost: take another server"
        )


@contextmanager
def _not_found(path: str) -> Iterator[None]:
    try:
        yield
    except NotInLake:
        raise NotFound(f"no object {path}") from None
