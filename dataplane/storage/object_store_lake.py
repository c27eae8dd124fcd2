"""The lake in an object store, by obstore. Conditional puts are the server's own.

What a job wrote stays in the job's own folder, since to rename is to copy in most of them. Does not belong here: how
Spark finds its way to the store (hadoop).
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import GCSStore, from_url

from dataplane.spark.s3a import endpoint_of
from dataplane.storage.lake import PARQUET, by_label
from dataplane.storage.range_file import RangeFile

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Backend

Telling: TypeAlias = Callable[[str], AbstractContextManager[None]]

TAIL_BYTES = 1 << 16  # of a Parquet file, in which its footer surely ends and mostly begins
BUFFER_BYTES = 1 << 20
GOOGLE = "https://storage.googleapis.com"
RETRY: Final[RetryConfig] = {"max_retries": 10, "retry_timeout": timedelta(seconds=60)}
BEGUN = "_begun"
MOST_ASKED = 16  # files whose size is asked for one by one


class RemoteLake:
    """`uri` names bucket and prefix; region, endpoint and credentials are in the environment, by the usual names."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._store = open_store(self._uri, os.environ)

    def place(self, path: str) -> str:
        return f"{re.sub('^s3:', 's3a:', self._uri)}/{path}"

    def sizes(self, folder: str) -> dict[str, int]:
        with faults(folder):
            found = [o for chunk in obstore.list(self._store, prefix=folder) for o in chunk]
        return {o["path"]: o["size"] for o in sorted(found, key=_path) if o["path"].endswith(PARQUET)}

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:
        total = 0
        for number, path in enumerate(paths):
            if total > enough or number == MOST_ASKED:
                return enough + 1
            with faults(path):
                total += obstore.head(self._store, path)["size"]
        return total

    def open(self, path: str, size: int | None = None) -> Any:
        with faults(path):
            size = obstore.head(self._store, path)["size"] if size is None else size
        return io.BufferedReader(ObjectFile(self._store, path, size), BUFFER_BYTES)

    def fetch(self, path: str, to: Path) -> None:
        with faults(path), to.open("wb") as file:
            for piece in obstore.get(self._store, path).stream(min_chunk_size=BUFFER_BYTES):
                file.write(piece)

    def footer(self, path: str, size: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet

        tail = self._tail(path, size, TAIL_BYTES)
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        if needed > len(tail):
            tail = self._tail(path, size, needed)
        return pyarrow.parquet.read_metadata(pa.BufferReader(tail))

    def _tail(self, path: str, size: int, length: int) -> bytes:
        with faults(path):
            return bytes(obstore.get_range(self._store, path, start=max(0, size - length), end=size))

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """An answer may be lost and the put repeated, so that what is there already may be ours."""
        with faults(path):
            try:
                obstore.put(self._store, path, body, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return bytes(obstore.get(self._store, path).bytes()) == body
            return True

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="headgate-") as folder:
            file = Path(folder) / path.rpartition("/")[2]
            yield file
            if file.is_file():
                with faults(path):
                    obstore.put(self._store, path, file)

    def begin(self, folder: str) -> str:
        """With something in it S3A puts no object for the folder itself, `<folder>/`, which only S3A could delete."""
        self.put_if_absent(f"{folder}/{BEGUN}", b"")
        return "append"

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:  # noqa: ARG002
        return by_label(self.sizes(job))

    def delete(self, paths: Iterable[str]) -> None:
        gone = list(paths)
        with faults(", ".join(gone[:1])):
            self._delete(gone)

    def delete_folder(self, folder: str) -> None:
        with faults(folder):
            sizes = {o["path"]: o["size"] for chunk in obstore.list(self._store, prefix=folder) for o in chunk}
            empty = [path for path, size in sizes.items() if not size] if self._uri.startswith("gs:") else []
            self._delete([path for path in sizes if path not in empty])
            for path in empty:
                self._delete_empty(path)
            if self._uri.startswith("abfs"):  # what Hadoop put to stand for the folder
                self._delete([folder])

    def _delete(self, paths: Sequence[str]) -> None:
        """Where one of them is not there, as after an answer that was lost, some stores leave others."""
        try:
            obstore.delete(self._store, paths)
        except FileNotFoundError:
            for path in paths:
                with suppress(FileNotFoundError):
                    obstore.delete(self._store, path)

    def _delete_empty(self, path: str) -> None:
        """An object, or what Hadoop put to stand for a folder: the name of that ends in a slash, which is not told."""
        try:
            obstore.delete(self._store, path)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                obstore.delete(_folder(f"{self._uri}/{path}", os.environ), "")


def _path(found: Mapping[str, Any]) -> str:
    return str(found["path"])


def open_store(uri: str, environ: Mapping[str, str]) -> Backend:
    """Retries with growing pauses for up to a minute: 5xx, connections cut, no answer."""
    client = {"allow_http": not uri.startswith("s3") or endpoint_of(environ).startswith("http://")}
    found: Backend = from_url(uri, client_options=client, retry_config=RETRY)  # type: ignore[call-overload]  # by scheme
    return found


def _folder(uri: str, environ: Mapping[str, str]) -> Backend:
    """A store whose empty path is the object `uri/` on Google Cloud Storage. obstore gives no name a slash at its end,
    but puts one after that of a bucket: so the last part stands for a bucket, and all before it is part of the server.
    """
    above, _, last = uri.removeprefix("gs://").rpartition("/")
    server = (environ.get("GOOGLE_BASE_URL") or GOOGLE).rstrip("/")
    options: ClientConfig = {"allow_http": True}
    return GCSStore(last, base_url=f"{server}/{quote(above)}", client_options=options, retry_config=RETRY)


@contextmanager
def faults(path: str) -> Iterator[None]:
    """Errors of the store in words, as OSError. No part of a request, which may hold a key's name, is in them."""
    try:
        yield
    except (FileNotFoundError, BaseError) as e:
        raise OSError(f"{path}: {in_words(str(e))}") from None


def in_words(text: str) -> str:
    """What a server says of an error, else the first line of what the client says."""
    return told(text)[1]


def told(text: str) -> tuple[str, str]:
    """The code that a server gives an error (empty: it gave none), and the error in words."""
    code, message = (re.search(f"<{name}>([^<]*)</{name}>", text) for name in ("Code", "Message"))
    if code is None:
        return "", text.strip().partition("\n")[0][:300]
    return code[1], f"{code[1]}: {message[1]}" if message else code[1]


class ObjectFile(RangeFile):
    """An object as a file; with `version` only as long as that is its etag. `telling` makes errors of the store into
    those that readers see."""

    def __init__(self, store: Backend, path: str, size: int, version: str | None = None, telling: Telling = faults):
        super().__init__(size)
        self.path = path
        self._store, self._telling = store, telling
        self._options: GetOptions = {} if version is None else {"if_match": version}

    def range(self, start: int, end: int) -> bytes:
        with self._telling(self.path):
            asked: GetOptions = {**self._options, "range": (start, end)}
            return bytes(obstore.get(self._store, self.path, options=asked).bytes())
