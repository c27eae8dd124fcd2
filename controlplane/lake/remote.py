"""The lake in an object store: S3, and by the same code GCS, Azure or memory, through obstore.

Conditional puts are the server's own; `check` proves at the start that it has them. Does not belong here: what the
objects mean.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote
from uuid import uuid4

from controlplane.core.errors import HeadgateError, NotFound
from controlplane.lake.paths import safe

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Backend

MARKER = "_headgate.json"  # an object that two conditional puts are tried on
PIECE_BYTES = 1 << 18
MISSING = ("", "BlobNotFound", "NoSuchKey", "NotFound")  # what else is answered with 404 is about something else
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


class LakeRefused(HeadgateError):
    """The object store does not serve as a lake, whatever is tried again."""

    code = "lake-refused"


class Refusal(OSError):
    """The object store said no, and will say so again: no bucket, wrong credentials."""


class RemoteObjects:
    """Objects in S3, GCS, Azure or memory, by obstore."""

    def __init__(self, uri: str, backend: Backend) -> None:
        self._uri = uri.rstrip("/")
        self._backend = backend

    @property
    def uri(self) -> str:
        return self._uri

    def check(self) -> None:
        """Raise LakeRefused unless this is a store that keeps the first of two puts. OSError if it cannot be asked."""
        try:
            self.put_if_absent(MARKER, b"{}")
            ignored = self.put_if_absent(MARKER, uuid4().bytes)
        except Refusal as e:
            raise LakeRefused(f"{self._uri}: {e}") from e
        if ignored:
            message = "the object store overwrites what a conditional put (If-None-Match: *) must leave alone"
            raise LakeRefused(f"{self._uri}: {message}, so commits to tables would be lost: take another server")

    def read(self, path: str) -> bytes:
        import obstore

        with _faults(path):
            return bytes(obstore.get(self._backend, safe(path)).bytes())

    def stream(self, path: str) -> Iterator[bytes]:
        import obstore

        with _faults(path):
            for piece in obstore.get(self._backend, safe(path)).stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """An answer may be lost and the put repeated: then what is there already is ours."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _faults(path):
            try:
                obstore.put(self._backend, safe(path), body, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return self.read(path) == body
            return True

    def sizes(self, prefix: str) -> dict[str, int]:
        import obstore

        with _faults(prefix):
            listed = obstore.list(self._backend, prefix=safe(prefix) if prefix else None)
            return {o["path"]: o["size"] for chunk in listed for o in chunk}

    def link(self, source: str, target: str) -> None:
        import obstore

        with _faults(source):
            obstore.copy(self._backend, safe(source), safe(target))

    def delete_prefix(self, prefix: str) -> None:
        sizes = self.sizes(safe(prefix))
        empty = [path for path, size in sizes.items() if not size] if self._uri.startswith("gs:") else []
        with _faults(prefix):
            self._delete([path for path in sizes if path not in empty])
            for path in empty:
                self._delete_empty(path)
            if self._uri.startswith("abfs"):  # what Hadoop put to stand for the folder
                self._delete([prefix])

    def _delete(self, paths: Sequence[str]) -> None:
        """Where one of them is not there, as after an answer that was lost, some stores leave others."""
        import obstore

        try:
            obstore.delete(self._backend, paths)
        except FileNotFoundError:
            for path in paths:
                with suppress(FileNotFoundError):
                    obstore.delete(self._backend, path)

    def _delete_empty(self, path: str) -> None:
        """An object, or what Hadoop put to stand for a folder: the name of that ends in a slash, which is not told."""
        import obstore

        try:
            obstore.delete(self._backend, path)
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                obstore.delete(_folder(f"{self._uri}/{path}", os.environ), "")

    def folders(self, prefix: str) -> Iterator[str]:
        import obstore

        with _faults(prefix):
            listed = obstore.list_with_delimiter(self._backend, prefix=safe(prefix) if prefix else None)
            return iter(sorted(p.rstrip("/").rpartition("/")[2] for p in listed["common_prefixes"]))


def open_remote(uri: str, environ: Mapping[str, str] = os.environ) -> RemoteObjects:
    """The store behind a URI that obstore knows. Requests are repeated for up to a minute, with growing pauses."""
    try:
        from obstore.store import from_url  # an extra, and slow to import
    except ModuleNotFoundError as e:
        raise LakeRefused(f"a lake at {uri} needs the package {e.name}: pip install 'headgate[s3]'") from None

    client = {"allow_http": not uri.startswith("s3") or _endpoint(environ).startswith("http://")}
    return RemoteObjects(uri, from_url(uri, client_options=client, retry_config=RETRY))  # type: ignore[call-overload]  # by scheme


def _folder(uri: str, environ: Mapping[str, str]) -> Backend:
    """A store whose empty path is the object `uri/` on Google Cloud Storage. obstore gives no name a slash at its end,
    but puts one after that of a bucket: so the last part stands for a bucket, and all before it is part of the server.
    """
    from obstore.store import GCSStore

    above, _, last = uri.removeprefix("gs://").rpartition("/")
    server = (environ.get("GOOGLE_BASE_URL") or GOOGLE).rstrip("/")
    options: ClientConfig = {"allow_http": True}
    return GCSStore(last, base_url=f"{server}/{quote(above)}", client_options=options, retry_config=RETRY)


def storage_options(uri: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What deltalake is to be told; all else it finds in the environment itself."""
    if uri.startswith("s3") and _endpoint(environ).startswith("http://"):
        return {"allow_http": "true"}
    return {}


def _endpoint(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""


@contextmanager
def _faults(path: str) -> Iterator[None]:
    """What is not there is NotFound, all else an OSError in words, without the request that led to it."""
    from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (FileNotFoundError, BaseError) as e:
        code, words = told(str(e))
        if code in NO_BUCKET:
            kind = "container" if code == "ContainerNotFound" else "bucket"
            raise Refusal(f"there is no such {kind}: make it, or correct HEADGATE_LAKE") from None
        is_missing = isinstance(e, FileNotFoundError | NotFoundError)
        if is_missing and code in MISSING:
            raise NotFound(f"no object {path}") from None
        if is_missing or code in REFUSING or isinstance(e, PermissionDeniedError | UnauthenticatedError):
            raise Refusal(f"the object store refuses the credentials ({words})") from None
        raise OSError(f"{path}: {words}") from None


def told(text: str) -> tuple[str, str]:
    """The server's code of an error, and what it says of it; else no code, and the first line of the client's words."""
    code, message = (re.search(f"<{name}>([^<]*)</{name}>", text) for name in ("Code", "Message"))
    if code:
        return code[1], f"{code[1]}: {message[1]}" if message else code[1]
    return "", text.strip().partition("\n")[0][:300]
