"""The lake in HDFS, through hdfs-native: the addresses of a nameservice are found where Hadoop's own clients find them.

An object is written under another name and renamed, which fails where there is one already. Does not belong here: what
the objects mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from controlplane.core.errors import NotFound
from controlplane.lake.paths import TEMPORARY, safe
from controlplane.lake.remote import MARKER, PIECE_BYTES, LakeRefused, Refusal

if TYPE_CHECKING:
    from hdfs_native import Client

SETTINGS = {"dfs.client.failover.max.attempts": "8"}  # a minute, with growing pauses; three if nothing is said
REFUSED = "AccessControlException"
NO_FOLDER = "is not a directory"  # told as a refusal, of a path below a file


class HdfsObjects:
    """Objects as files below the path of a URI like `hdfs://namenode:8020/prefix`."""

    def __init__(self, uri: str, client: Client) -> None:
        self._uri = uri.rstrip("/")
        self._root = urlsplit(self._uri).path
        self._client = client

    @property
    def uri(self) -> str:
        return self._uri

    def check(self) -> None:
        """Raise LakeRefused unless one may write here. OSError if it cannot be asked."""
        try:
            self.put_if_absent(MARKER, b"{}")
        except Refusal as e:
            raise LakeRefused(f"{self._uri}: {e}") from e

    def read(self, path: str) -> bytes:
        with _faults(path):
            return self._client.read(self._at(path)).read()

    def stream(self, path: str) -> Iterator[bytes]:
        with _faults(path):
            file = self._client.read(self._at(path))
            for start in range(0, file.size, PIECE_BYTES):
                yield file.read_range(start, min(PIECE_BYTES, file.size - start))

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """An answer may be lost and the renaming repeated: then what is there already is ours."""
        return self._put(path, iter([body])) or self.read(path) == body

    def sizes(self, prefix: str) -> dict[str, int]:
        top = self._at(prefix) if prefix else self._root
        if self._size(top) is None:
            return {}
        with _faults(prefix):
            try:
                found = [f for f in self._client.list_status(top, recursive=True) if not f.isdir]
            except FileNotFoundError as e:  # a folder that went meanwhile: some of the others may be missing as well
                raise OSError(str(e)) from e
        paths = ((f.path.removeprefix(f"{self._root}/"), f.length) for f in found)
        return {path: size for path, size in paths if not path.rpartition("/")[2].startswith(TEMPORARY)}

    def link(self, source: str, target: str) -> None:
        """A copy. A target of another size is FileExistsError."""
        size = self._size(self._at(source))
        if size is None:
            raise NotFound(f"no object {source}")
        if not self._put(target, self.stream(source)) and self._size(self._at(target)) != size:
            raise FileExistsError(target)

    def delete_prefix(self, prefix: str) -> None:
        with _faults(prefix):
            self._client.delete(self._at(prefix), recursive=True)

    def folders(self, prefix: str) -> Iterator[str]:
        top = self._at(prefix) if prefix else self._root
        with _faults(prefix):
            try:
                found = [f.path for f in self._client.list_status(top) if f.isdir]
            except FileNotFoundError:
                found = []
        return iter(sorted(path.rpartition("/")[2] for path in found))

    def _put(self, path: str, pieces: Iterator[bytes]) -> bool:
        """False if there is one already."""
        from hdfs_native import WriteOptions

        target = self._at(path)
        temporary = f"{target.rpartition('/')[0]}/{TEMPORARY}{uuid4().hex}"
        with _faults(path):
            if self._size(target) is not None:
                return False
            try:
                with self._client.create(temporary, WriteOptions(overwrite=False, create_parent=True)) as file:
                    for piece in pieces:
                        file.write(piece)
                self._client.rename(temporary, target)
            except BaseException as e:
                with suppress(OSError, RuntimeError):  # what is told is what went wrong first
                    self._client.delete(temporary)
                if isinstance(e, FileExistsError):
                    return False
                raise
            return True

    def _size(self, place: str) -> int | None:
        with _faults(place):
            try:
                return int(self._client.get_file_info(place).length)
            except FileNotFoundError:
                return None

    def _at(self, path: str) -> str:
        return f"{self._root}/{safe(path)}"


def open_hdfs(uri: str) -> HdfsObjects:
    """The files behind an hdfs:// URI, with the settings of HADOOP_CONF_DIR and the user of HADOOP_USER_NAME, or of a
    Kerberos ticket."""
    try:
        from hdfs_native import Client  # an extra
    except ModuleNotFoundError as e:
        raise LakeRefused(f"a lake at {uri} needs the package {e.name}: pip install 'headgate[hdfs]'") from None
    parts = urlsplit(uri)
    try:
        return HdfsObjects(uri, Client(f"hdfs://{parts.netloc}", SETTINGS))
    except RuntimeError as e:
        raise LakeRefused(f"{uri}: {_words(e)}: correct HEADGATE_LAKE, or set HADOOP_CONF_DIR") from None


@contextmanager
def _faults(path: str) -> Iterator[None]:
    """What is not there is NotFound, all else an OSError in words, without the server's stack."""
    try:
        yield
    except (FileExistsError, Refusal):
        raise
    except FileNotFoundError:
        raise NotFound(f"no object {path}") from None
    except (OSError, RuntimeError) as e:
        words = _words(e)
        if NO_FOLDER in words:
            raise NotFound(f"no object {path}") from None
        if REFUSED in str(e):
            raise Refusal(f"HDFS refuses ({words})") from None
        raise OSError(f"{path}: {words}") from None


def _words(error: Exception) -> str:
    """`RPCError("<class>", "<words>\\n\\tat ...")` without class and stack, or the first line of what else it is."""
    text = str(error).partition("\\n")[0].partition("\n")[0]
    return text.rpartition('", "')[2].removesuffix('")').replace('\\"', '"')[:300]
