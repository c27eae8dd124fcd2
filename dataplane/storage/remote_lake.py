"""Lakes on other machines: files are written here and then put, and read in ranges."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dataplane.storage.job_folders import settle_by_moving, settle_in_place
from dataplane.storage.source_stores import ROOT, StoreAccess, open_root, path_of, telling

if TYPE_CHECKING:
    from dataplane.lakes.hdfs import HdfsFiles
    from dataplane.lakes.object_store import ObjectStoreFiles

START_MARK = "_begun"
MOST_COPIED = 5 << 30  # by one request of S3 (CopyObject)
MOST_REQUESTED = 16  # files whose size is requested one by one


class RemoteLake:
    """In an object store. Files of a job stay in its folder, since to rename is to copy in most of
    them."""

    def __init__(self, files: ObjectStoreFiles | HdfsFiles) -> None:
        self._files = files

    def place(self, path: str) -> str:
        return f"{re.sub('^s3:', 's3a:', self._files.uri)}/{path}"

    def sizes(self, prefix: str) -> dict[str, int]:
        return self._files.sizes(prefix)

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:
        total = 0
        for number, path in enumerate(paths):
            if total > enough or number == MOST_REQUESTED:
                return enough + 1
            total += self._files.size(path)
        return total

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return self._files.open(path, size)

    def fetch(self, path: str, to: Path) -> None:
        with to.open("wb") as file:
            for piece in self._files.stream(path):
                file.write(piece)

    def put_if_absent(self, path: str, body: bytes) -> bool:
        return self._files.put_if_absent(path, body)

    def take_source(self, uri: str, size: int, path: str) -> bool:
        """A copy that the server makes, within one bucket and up to MOST_COPIED bytes."""
        root = ROOT.match(self._files.uri)
        if root is None or not uri.startswith(f"{root[0]}/") or size > MOST_COPIED:
            return False
        import obstore

        store = open_root(root[0], StoreAccess())
        folder = self._files.uri.removeprefix(root[0]).strip("/")
        with telling(uri):
            obstore.copy(store, path_of(uri), f"{folder}/{path}".lstrip("/"))
        return True

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
            local = Path(folder) / path.rpartition("/")[2]
            yield local
            if local.is_file():
                self._files.put_file(path, local)

    def delete(self, paths: Iterable[str]) -> None:
        self._files.delete(paths)

    def delete_folder(self, prefix: str) -> None:
        self._files.delete_folder(prefix)

    def begin(self, folder: str) -> str:
        """With something in it S3A puts no object for the folder itself, `<folder>/`, which only
        S3A could delete."""
        self._files.put_if_absent(f"{folder}/{START_MARK}", b"")
        return "append"

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:  # noqa: ARG002
        return settle_in_place(self._files, job)


class HdfsLake(RemoteLake):
    """In HDFS. Files of a job are moved, as on a local disk."""

    def __init__(self, files: HdfsFiles) -> None:
        super().__init__(files)
        self._movable = files

    def begin(self, folder: str) -> str:  # noqa: ARG002  # Spark makes it
        return "errorifexists"

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:
        return settle_by_moving(self._movable, job, prefix)
