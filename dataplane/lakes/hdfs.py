"""A lake in HDFS, by hdfs-native: the addresses of a nameservice are found where Hadoop's own
clients find them.

A file is written under another name and renamed, which fails where there is one already.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit
from uuid import uuid4

from hdfs_native import Client, WriteOptions

from dataplane.lakes.lake_paths import TEMPORARY, safe
from dataplane.lakes.lake_protocol import PIECE_BYTES, NotInLake, Refused
from dataplane.lakes.range_file import BUFFER_BYTES, RangeFile

if TYPE_CHECKING:
    from hdfs_native import FileReader, FileStatus

# A minute, with growing pauses; three by default
SETTINGS = {"dfs.client.failover.max.attempts": "8"}
REFUSED = "AccessControlException"
NO_FOLDER = "is not a directory"  # the answer for a path below a file


class HdfsFiles:
    """Files below the path of a URI like `hdfs://namenode:8020/prefix`."""

    def __init__(self, uri: str, client: Client) -> None:
        self._uri = uri.rstrip("/")
        self._root = urlsplit(self._uri).path
        self._client = client

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> bytes:
        with _faults(path):
            return self._client.read(self._at(path)).read()

    def stream(self, path: str) -> Iterator[bytes]:
        with _faults(path):
            file = self._client.read(self._at(path))
            for start in range(0, file.size, PIECE_BYTES):
                yield file.read_range(start, min(PIECE_BYTES, file.size - start))

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        with _faults(path):
            file = self._client.read(self._at(path))
            last = min(end, file.size)
            for at in range(start, last, PIECE_BYTES):
                yield file.read_range(at, min(PIECE_BYTES, last - at))

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """The file, to be read in ranges. `size` is taken for its size."""
        with _faults(path):
            file = self._client.read(self._at(path))
        return io.BufferedReader(
            HdfsFile(file, path, file.size if size is None else size), BUFFER_BYTES
        )

    def size(self, path: str) -> int:
        """Bytes. NotInLake if there is none."""
        with _faults(path):
            return int(self._client.get_file_info(self._at(path)).length)

    def put_if_absent(self, path: str, body: bytes) -> bool:
        return self._put_first(path, iter([body])) or self.read(path) == body

    def put_file(self, path: str, local: Path) -> None:
        """Put a file of this machine, in place of one that is there."""
        with local.open("rb") as file:
            self._write(path, iter(partial(file.read, BUFFER_BYTES), b""), overwrite=True)

    def sizes(self, prefix: str) -> dict[str, int]:
        files = [file for file in self._listed(prefix) if not file.isdir]
        paths = ((file.path.removeprefix(f"{self._root}/"), file.length) for file in files)
        return {
            path: size for path, size in paths if not path.rpartition("/")[2].startswith(TEMPORARY)
        }

    def link(self, source: str, target: str) -> None:
        """A copy. A target of another size is FileExistsError."""
        size = self.size(source)
        if not self._put_first(target, self.stream(source)) and self.size(target) != size:
            raise FileExistsError(target)

    def move_folders(self, source: str, target: str, start: str) -> list[str]:
        """Move each folder directly below `source` whose name begins with `start` below `target`,
        in place of one of the same name there. Returns the names, in order."""
        with _faults(source):
            folder_names = [
                f.path.rpartition("/")[2]
                for f in self._client.list_status(self._at(source))
                if f.isdir
            ]
            names = sorted(name for name in folder_names if name.startswith(start))
            for name in names:
                place = self._at(f"{target}/{name}")
                self._client.delete(place, recursive=True)
                self._client.rename(self._at(f"{source}/{name}"), place)
        return names

    def delete(self, paths: Iterable[str]) -> None:
        """Folders that become empty go as well."""
        for path in paths:
            with _faults(path):
                self._client.delete(self._at(path))
                with suppress(OSError, RuntimeError):  # other files are in it
                    self._client.delete(self._at(path).rpartition("/")[0])

    def delete_folder(self, prefix: str) -> None:
        with _faults(prefix):
            self._client.delete(self._at(prefix), recursive=True)

    def folders(self, prefix: str) -> Iterator[str]:
        with _faults(prefix):
            try:
                folder_paths = [
                    f.path for f in self._client.list_status(self._folder(prefix)) if f.isdir
                ]
            except FileNotFoundError:
                folder_paths = []
        return iter(sorted(path.rpartition("/")[2] for path in folder_paths))

    def _listed(self, prefix: str) -> list[FileStatus]:
        """All that is below a folder; nothing if there is no such folder."""
        top = self._folder(prefix)
        with _faults(prefix):
            try:
                return list(self._client.list_status(top, recursive=True))
            except FileNotFoundError as e:
                if not self._is_there(top):
                    return []
                # A folder below it went meanwhile: others may be missing from the list
                raise OSError(str(e)) from e

    def _put_first(self, path: str, pieces: Iterator[bytes]) -> bool:
        """False if there is one already."""
        with _faults(path):
            if self._is_there(self._at(path)):
                return False
        try:
            self._write(path, pieces, overwrite=False)
        except FileExistsError:
            return False
        return True

    def _write(self, path: str, pieces: Iterator[bytes], *, overwrite: bool) -> None:
        target = self._at(path)
        temporary = f"{target.rpartition('/')[0]}/{TEMPORARY}{uuid4().hex}"
        with _faults(path):
            try:
                with self._client.create(
                    temporary, WriteOptions(overwrite=False, create_parent=True)
                ) as file:
                    for piece in pieces:
                        file.write(piece)
                self._client.rename(temporary, target, overwrite=overwrite)
            except BaseException:
                with suppress(OSError, RuntimeError):  # the first error is reported
                    self._client.delete(temporary)
                raise

    def _is_there(self, place: str) -> bool:
        try:
            self._client.get_file_info(place)
        except FileNotFoundError:
            return False
        return True

    def _at(self, path: str) -> str:
        return f"{self._root}/{safe(path)}"

    def _folder(self, prefix: str) -> str:
        return self._at(prefix) if prefix else self._root


class HdfsFile(RangeFile):
    """A file of the lake."""

    def __init__(self, file: FileReader, path: str, size: int) -> None:
        super().__init__(size)
        self._file, self.path = file, path

    def range(self, start: int, end: int) -> bytes:
        with _faults(self.path):
            return self._file.read_range(start, end - start)


def connect(uri: str) -> Client:
    """A client with the settings of HADOOP_CONF_DIR and the user of HADOOP_USER_NAME, or of a
    Kerberos ticket. Refused if they do not explain the name in the URI."""
    try:
        return Client(f"hdfs://{urlsplit(uri).netloc}", SETTINGS)
    except RuntimeError as e:
        raise Refused(f"{_words(e)}: correct HEADGATE_LAKE, or set HADOOP_CONF_DIR") from None


@contextmanager
def _faults(path: str) -> Iterator[None]:
    """Errors in words, as NotInLake, Refused or another OSError, without the server's stack."""
    try:
        yield
    except (FileExistsError, NotInLake, Refused):
        raise
    except (OSError, RuntimeError) as e:
        words = _words(e)
        if isinstance(e, FileNotFoundError) or NO_FOLDER in words:
            raise NotInLake(f"{path}: {words}") from None
        if REFUSED in str(e):
            raise Refused(f"HDFS refuses ({words})") from None
        raise OSError(f"{path}: {words}") from None


def _words(error: Exception) -> str:
    r"""`RPCError("<class>", "<words>\n\tat ...")` without class and stack, or the first line of
    what else it is."""
    text = str(error).partition("\\n")[0].partition("\n")[0]
    return text.rpartition('", "')[2].removesuffix('")').replace('\\"', '"')[:300]
