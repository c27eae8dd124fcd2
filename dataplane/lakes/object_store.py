"""A lake in an object store: S3, and by the same code Google Cloud Storage, Azure or memory,
through obstore.

Conditional puts are the server's own.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias
from urllib.parse import quote

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import GCSStore, from_url

from dataplane.lakes.lake_addresses import is_plain_http
from dataplane.lakes.lake_paths import safe
from dataplane.lakes.lake_protocol import PIECE_BYTES, NotInLake, Refused
from dataplane.lakes.range_file import BUFFER_BYTES, RangeFile

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Backend

Translation: TypeAlias = Callable[[str], AbstractContextManager[None]]

# Other codes of a 404 are about something else
MISSING = ("", "BlobNotFound", "NoSuchKey", "NotFound")
NO_BUCKET = ("ContainerNotFound", "NoSuchBucket")
REFUSING = (
    "AccessDenied",
    "AuthenticationFailed",
    "AuthenticationRequired",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
)
GOOGLE = "https://storage.googleapis.com"
RETRY: Final[RetryConfig] = {"max_retries": 10, "retry_timeout": timedelta(seconds=60)}


class ObjectStoreFiles:
    """Files are objects. `uri` names bucket and prefix, which `backend` leads to."""

    def __init__(self, uri: str, backend: Backend) -> None:
        self._uri = uri.rstrip("/")
        self._backend = backend

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> bytes:
        with faults(path):
            return bytes(obstore.get(self._backend, safe(path)).bytes())

    def stream(self, path: str) -> Iterator[bytes]:
        with faults(path):
            for piece in obstore.get(self._backend, safe(path)).stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        with faults(path):
            answer = obstore.get(self._backend, safe(path), options={"range": (start, end)})
            for piece in answer.stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """The file, to be read in ranges. A `size` that is known saves a request."""
        file_size = self.size(path) if size is None else size
        return io.BufferedReader(ObjectFile(self._backend, safe(path), file_size), BUFFER_BYTES)

    def size(self, path: str) -> int:
        """Bytes. NotInLake if there is none."""
        with faults(path):
            return obstore.head(self._backend, safe(path))["size"]

    def put_if_absent(self, path: str, body: bytes) -> bool:
        with faults(path):
            try:
                obstore.put(self._backend, safe(path), body, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return self.read(path) == body
            return True

    def put_file(self, path: str, local: Path) -> None:
        """Put a file of this machine, in place of one that is there."""
        with faults(path):
            obstore.put(self._backend, safe(path), local)

    def sizes(self, prefix: str) -> dict[str, int]:
        with faults(prefix):
            listed = obstore.list(self._backend, prefix=safe(prefix) if prefix else None)
            return {o["path"]: o["size"] for chunk in listed for o in chunk}

    def link(self, source: str, target: str) -> None:
        """A copy, made by the server."""
        with faults(source):
            obstore.copy(self._backend, safe(source), safe(target))

    def delete(self, paths: Iterable[str]) -> None:
        safe_paths = [safe(path) for path in paths]
        with faults(", ".join(safe_paths[:1])):
            self._delete(safe_paths)

    def delete_folder(self, prefix: str) -> None:
        sizes = self.sizes(safe(prefix))
        empty = (
            [path for path, size in sizes.items() if not size]
            if self._uri.startswith("gs:")
            else []
        )
        with faults(prefix):
            self._delete([path for path in sizes if path not in empty])
            for path in empty:
                self._delete_empty(path)
            if not sizes or self._uri.startswith("abfs"):
                # A file, or the object that Hadoop puts to stand for a folder
                self._delete([prefix])

    def folders(self, prefix: str) -> Iterator[str]:
        with faults(prefix):
            listed = obstore.list_with_delimiter(
                self._backend, prefix=safe(prefix) if prefix else None
            )
            return iter(sorted(p.rstrip("/").rpartition("/")[2] for p in listed["common_prefixes"]))

    def _delete(self, paths: Sequence[str]) -> None:
        """Where one of them is not there, as after an answer that was lost, some stores leave
        others."""
        try:
            obstore.delete(self._backend, paths)
        except FileNotFoundError:
            for path in paths:
                with suppress(FileNotFoundError):
                    obstore.delete(self._backend, path)

    def _delete_empty(self, path: str) -> None:
        """An empty object, or the one that Hadoop puts to stand for a folder: a listing leaves out
        the slash at the end of its name."""
        try:
            obstore.delete(self._backend, path)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                obstore.delete(_google_folder(f"{self._uri}/{path}", os.environ), "")


def connect(uri: str, environ: Mapping[str, str] = os.environ) -> Backend:
    """The store behind a URI. Region, endpoint and credentials are in the environment, by the usual
    names. Requests are repeated for up to a minute, with growing pauses: on 5xx, cut connections,
    no answer."""
    options: ClientConfig = {"allow_http": not uri.startswith("s3") or is_plain_http(environ)}
    return from_url(uri, client_options=options, retry_config=RETRY)


def _google_folder(uri: str, environ: Mapping[str, str]) -> Backend:
    """A store whose empty path is the object `uri/` on Google Cloud Storage. obstore gives no name
    a slash at its end, but puts one after that of a bucket: so the last part stands for a bucket,
    and all before it is part of the server.
    """
    above, _, last = uri.removeprefix("gs://").rpartition("/")
    server = (environ.get("GOOGLE_BASE_URL") or GOOGLE).rstrip("/")
    options: ClientConfig = {"allow_http": True}
    return GCSStore(
        last, base_url=f"{server}/{quote(above)}", client_options=options, retry_config=RETRY
    )


@contextmanager
def faults(path: str) -> Iterator[None]:
    """Errors in words, as NotInLake, Refused or another OSError. No part of a request, which may
    hold a key's name, is in them."""
    try:
        yield
    except (FileNotFoundError, BaseError) as e:
        code, words = in_words(str(e))
        if code in NO_BUCKET:
            kind = "container" if code == "ContainerNotFound" else "bucket"
            raise Refused(f"there is no such {kind}: make it, or correct HEADGATE_LAKE") from None
        is_missing = isinstance(e, FileNotFoundError | NotFoundError)
        if is_missing and code in MISSING:
            raise NotInLake(f"{path}: {words}") from None
        if (
            is_missing
            or code in REFUSING
            or isinstance(e, PermissionDeniedError | UnauthenticatedError)
        ):
            raise Refused(f"the object store refuses the credentials ({words})") from None
        raise OSError(f"{path}: {words}") from None


def in_words(text: str) -> tuple[str, str]:
    """The code that a server gives an error (empty: it gave none), and the error in words: the
    server's, else the first line of the client's."""
    code, message = (re.search(f"<{name}>([^<]*)</{name}>", text) for name in ("Code", "Message"))
    if code is None:
        return "", text.strip().partition("\n")[0][:300]
    return code[1], f"{code[1]}: {message[1]}" if message else code[1]


class ObjectFile(RangeFile):
    """An object as a file; with `version` only as long as that is its etag. `translation` makes
    errors of the store into those that readers see."""

    def __init__(
        self,
        store: Backend,
        path: str,
        size: int,
        version: str | None = None,
        translation: Translation = faults,
    ) -> None:
        super().__init__(size)
        self.path = path
        self._store, self._translation = store, translation
        self._options: GetOptions = {} if version is None else {"if_match": version}

    def range(self, start: int, end: int) -> bytes:
        with self._translation(self.path):
            options: GetOptions = {**self._options, "range": (start, end)}
            return bytes(obstore.get(self._store, self.path, options=options).bytes())
