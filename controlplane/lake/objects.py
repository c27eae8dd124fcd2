"""The lake as an object store: local folders here, everything else in `remote`.

Does not belong here: what the objects mean; Delta logs (the publisher writes those).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from controlplane.core.errors import NotFound
from controlplane.lake.hdfs import HdfsObjects, open_hdfs
from controlplane.lake.paths import TEMPORARY, safe
from controlplane.lake.remote import LakeRefused, RemoteObjects, open_remote
from controlplane.ports.lake import ObjectStore

PIECE_BYTES = 1 << 18


def open_lake(uri: str) -> ObjectStore:
    """The store behind a local path, a file: URI, in HDFS (extra `hdfs`), or what obstore knows (extra `s3`)."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return LocalObjects(Path(unquote(parts.path)))
    if "://" not in uri:
        return LocalObjects(Path(uri))
    if parts.scheme == "hdfs":
        return open_hdfs(uri)
    return open_remote(uri)


def check_lake(uri: str) -> None:
    """Raise LakeRefused for what cannot be a lake; OSError if it cannot be asked."""
    match open_lake(uri):
        case RemoteObjects() | HdfsObjects() as lake:
            lake.check()
        case LocalObjects(root=root) if "\\" in str(root) or unquote(str(root)) != str(root):
            message = "no table can be written where a path holds a backslash or %20 (or any other escape)"
            raise LakeRefused(f"{root}: {message}: take another folder")


def _opened(path: Path) -> BinaryIO:
    """A file to be read. Anything else of its name is none: opening a FIFO would wait for who writes to it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise NotFound(f"no object {path}") from e
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotFound(f"no file: {path}")
    return open(descriptor, "rb")


class LocalObjects:
    """Objects as files below `root`. Objects appear by `link`, so that a reader never sees a part of one."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def read(self, path: str) -> bytes:
        with _opened(self._at(path)) as file:
            return file.read()

    def stream(self, path: str) -> Iterator[bytes]:
        with _opened(self._at(path)) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def put_if_absent(self, path: str, body: bytes) -> bool:
        target = self._at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{TEMPORARY}{uuid4().hex}")
        try:
            _write_synced(temporary, body)
            os.link(temporary, target)
        except FileExistsError:
            return target.read_bytes() == body
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return True

    def sizes(self, prefix: str) -> dict[str, int]:
        top = self._folder(prefix)
        return dict(_walk(top, f"{prefix}/" if prefix else "")) if top.is_dir() else {}

    def link(self, source: str, target: str) -> None:
        """Hard link, or a copy where the file system has none. A target of another size is FileExistsError."""
        old, new = self._at(source), self._at(target)
        if not old.is_file():
            raise NotFound(f"no object {source}")
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old, new)
        except FileExistsError:
            if old.stat().st_size != new.stat().st_size:
                raise
        except OSError:  # other device, no hard links, too many of them
            self.put_if_absent(target, old.read_bytes())

    def delete_prefix(self, prefix: str) -> None:
        target = self._at(prefix)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def folders(self, prefix: str) -> Iterator[str]:
        top = self._folder(prefix)
        return iter(sorted(e.name for e in os.scandir(top) if e.is_dir())) if top.is_dir() else iter(())

    def _at(self, path: str) -> Path:
        return self.root / safe(path)

    def _folder(self, prefix: str) -> Path:
        return self._at(prefix) if prefix else self.root


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
            elif not entry.name.startswith(TEMPORARY):
                yield prefix + entry.name, entry.stat().st_size


def _write_synced(path: Path, body: bytes) -> None:
    with path.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
