"""The lake as the data plane uses it: its files as Spark and Arrow find them, and folders that jobs
write.

Folders of fragments are fresh for each job and their names are ours, so nothing here overwrites.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from dataplane.lakes.lake_addresses import kind_of, local_root
from dataplane.lakes.lake_opening import open_hdfs, open_object_store
from dataplane.lakes.lake_protocol import MissingPackage
from dataplane.lakes.local_lake import LocalFiles
from dataplane.storage.job_folders import settle_by_moving
from dataplane.storage.remote_lake import HdfsLake, RemoteLake
from dataplane.storage.source_copies import local_file
from dataplane.storage.source_stores import has_host
from dataplane.task_failures import TaskFailure

READABLE: Final = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
WRITABLE: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class Lake(Protocol):
    """Safe to use from many threads. A fault of the storage is an OSError that may be tried
    again."""

    def place(self, path: str) -> str:
        """The same path as Spark knows it."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path -> bytes of all files below a folder; none if there is no such folder."""

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:
        """Bytes of some files; it may stop counting beyond `enough`."""

    def open(self, path: str, size: int | None = None) -> Any:
        """The file as a source that pyarrow reads from. A `size` that is known may save a
        request."""

    def fetch(self, path: str, to: Path) -> None:
        """Copy a file to this machine."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """False, and nothing is changed, if there is another one. It appears whole or not at
        all."""

    def new_file(self, path: str) -> AbstractContextManager[Path]:
        """Where to write a file that is to be in the lake once the block is left; none need be
        written."""

    def take_source(self, uri: str, size: int, path: str) -> bool:
        """Have the bytes of a source file under a path of the lake without a read of its rows.
        Later changes of the source change nothing in the lake. False, and nothing is there, where
        the file does not lie in the same store."""

    def begin(self, folder: str) -> str:
        """Make ready for a job of Spark that writes into a folder of its own; the save mode for
        it."""

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:
        """Files that a job wrote below `<job>/_fragment=<label>`, with sizes, by label, at their
        last places."""

    def delete(self, paths: Iterable[str]) -> None:
        """Files; those that are not there are fine."""

    def delete_folder(self, prefix: str) -> None:
        """A folder with all in it; none is fine."""


def open_lake(uri: str) -> Lake:
    """The lake behind a local path or `file:` URI, in HDFS, or behind any other URI that obstore
    knows."""
    try:
        match kind_of(uri):
            case "local":
                return LocalLake(local_root(uri))
            case "hdfs":
                return HdfsLake(open_hdfs(uri))
            case "object-store":
                return RemoteLake(open_object_store(uri))
    except MissingPackage as e:
        raise TaskFailure("missing-package", str(e), "infrastructure") from e


class LocalLake(LocalFiles):
    """Files below a folder, which Spark and Arrow read by their paths."""

    def place(self, path: str) -> str:
        return os.path.join(self.root, path)  # asked for each file, several times

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:  # noqa: ARG002  # asking costs next to nothing
        return sum((self.root / path).stat().st_size for path in paths)

    def open(self, path: str, size: int | None = None) -> str:  # noqa: ARG002
        return self.place(path)

    def fetch(self, path: str, to: Path) -> None:
        shutil.copyfile(self.root / path, to)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        yield self.root / path

    def take_source(self, uri: str, size: int, path: str) -> bool:
        """A hard link, if all users may read the file and none but root may write it. Else a copy
        by the kernel, which shares the blocks on Btrfs and XFS: a link would change with the
        file."""
        if has_host(uri):
            return False
        origin, target = Path(local_file(uri)).resolve(), self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not _is_linked(origin, target):
            _copy_blocks(origin, target, size)
        return True

    def begin(self, folder: str) -> str:  # noqa: ARG002  # Spark makes it
        return "errorifexists"

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:
        return settle_by_moving(self, job, prefix)

    def delete_folder(self, prefix: str) -> None:
        """Files that cannot be deleted now are left to the sweep of orphans."""
        shutil.rmtree(self.root / prefix, ignore_errors=True)


def _is_linked(origin: Path, target: Path) -> bool:
    """Link a file that is only read. The mode is that of the link: the origin may be changed, or
    replaced, between a look at it and the link."""
    if not _is_only_read(origin):
        return False
    try:
        os.link(origin, target)
    except OSError:  # another device, a file of another user, or the target is there
        return False
    if _is_only_read(target):
        return True
    target.unlink()
    return False


def _is_only_read(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) and mode & (READABLE | WRITABLE) == READABLE


def _copy_blocks(origin: Path, target: Path, size: int) -> None:
    """Copy the first `size` bytes into a new file. `copy_file_range` shares blocks where the file
    system can."""
    with origin.open("rb") as source, target.open("xb") as file:
        left = size
        while left and (copied := os.copy_file_range(source.fileno(), file.fileno(), left)):
            left -= copied
        os.fsync(file.fileno())
