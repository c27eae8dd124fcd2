"""The lake in HDFS, through hdfs-native: settings are found where Hadoop's own clients, and so Spark, find them.

What is put is written under another name and renamed. Does not belong here: how Spark finds its way there, which needs
nothing of ours.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from hdfs_native import Client, WriteOptions

from dataplane.contract.results import LABEL
from dataplane.storage.lake import PARQUET, TEMPORARY, fragment_folder
from dataplane.storage.range_file import RangeFile

if TYPE_CHECKING:
    from hdfs_native import FileReader

BUFFER_BYTES = 1 << 20
MOST_ASKED = 16  # files whose size is asked for one by one
SETTINGS = {"dfs.client.failover.max.attempts": "8"}  # a minute, with growing pauses; three if nothing is said


class HdfsLake:
    """`uri` is like `hdfs://namenode:8020/prefix`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        parts = urlsplit(self._uri)
        self._root = parts.path
        with _faults(self._uri):
            self._client = Client(f"hdfs://{parts.netloc}", SETTINGS)

    def place(self, path: str) -> str:
        return f"{self._uri}/{path}"

    def sizes(self, folder: str) -> dict[str, int]:
        with _faults(folder):
            try:
                found = list(self._client.list_status(self._at(folder), recursive=True))
            except FileNotFoundError:
                return {}
        sizes = {f.path.removeprefix(f"{self._root}/"): f.length for f in found if f.path.endswith(PARQUET)}
        return dict(sorted(sizes.items()))

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:
        total = 0
        for number, path in enumerate(paths):
            if total > enough or number == MOST_ASKED:
                return enough + 1
            total += self._size(path)
        return total

    def open(self, path: str, size: int | None = None) -> Any:
        with _faults(path):
            file = self._client.read(self._at(path))
        return io.BufferedReader(HdfsFile(file, path, file.size if size is None else size), BUFFER_BYTES)

    def fetch(self, path: str, to: Path) -> None:
        with self.open(path) as source, to.open("wb") as target:
            while piece := source.read(BUFFER_BYTES):
                target.write(piece)

    def footer(self, path: str, size: int) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet.read_metadata(self.open(path, size))

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """An answer may be lost and the put repeated, so that what is there already may be ours."""
        try:
            self._put(path, io.BytesIO(body), overwrite=False)
        except FileExistsError:
            with self.open(path) as file:
                return bool(file.read() == body)
        return True

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
            local = Path(folder) / path.rpartition("/")[2]
            yield local
            if local.is_file():
                with local.open("rb") as file:
                    self._put(path, file, overwrite=True)

    def begin(self, folder: str) -> str:  # noqa: ARG002  # Spark makes it
        return "errorifexists"

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:
        """Moved beside those of other jobs, which is a rename each."""
        labels: list[str] = []
        with _faults(job):
            for entry in list(self._client.list_status(self._at(job))):
                name = entry.path.rpartition("/")[2]
                if not entry.isdir or not name.startswith(f"{LABEL}="):
                    continue
                target = self._at(f"{prefix}/{name}")
                self._client.delete(target, recursive=True)  # of an earlier try of this same attempt
                self._client.rename(entry.path, target)
                labels.append(name.removeprefix(f"{LABEL}="))
        self.delete_folder(job)
        return {label: self.sizes(fragment_folder(prefix, label)) for label in sorted(labels)}

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with _faults(path):
                self._client.delete(self._at(path))
                with suppress(OSError, RuntimeError):  # of a fragment's folder, what is left is nothing
                    self._client.delete(self._at(path).rpartition("/")[0])

    def delete_folder(self, folder: str) -> None:
        with _faults(folder):
            self._client.delete(self._at(folder), recursive=True)

    def _put(self, path: str, source: IO[bytes], *, overwrite: bool) -> None:
        target = self._at(path)
        temporary = f"{target.rpartition('/')[0]}/{TEMPORARY}{uuid4().hex}"
        with _faults(path):
            try:
                with self._client.create(temporary, WriteOptions(overwrite=False, create_parent=True)) as file:
                    while piece := source.read(BUFFER_BYTES):
                        file.write(piece)
                self._client.rename(temporary, target, overwrite=overwrite)
            except BaseException:
                with suppress(OSError, RuntimeError):  # what is told is what went wrong first
                    self._client.delete(temporary)
                raise

    def _size(self, path: str) -> int:
        with _faults(path):
            return int(self._client.get_file_info(self._at(path)).length)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


class HdfsFile(RangeFile):
    """A file of the lake."""

    def __init__(self, file: FileReader, path: str, size: int) -> None:
        super().__init__(size)
        self._file, self.path = file, path

    def range(self, start: int, end: int) -> bytes:
        with _faults(self.path):
            return self._file.read_range(start, end - start)


@contextmanager
def _faults(path: str) -> Iterator[None]:
    """Errors in words, as OSError, without the server's stack."""
    try:
        yield
    except FileExistsError:
        raise
    except (OSError, RuntimeError) as e:
        raise OSError(f"{path}: {in_words(str(e))}") from None


def in_words(text: str) -> str:
    r"""`RPCError("<class>", "<words>\n\tat ...")` without class and stack, or the first line of what else it is."""
    words = text.partition("\\n")[0].partition("\n")[0].rpartition('", "')[2]
    return words.removesuffix('")').replace('\\"', '"')[:300]
