"""Object stores of source files: addresses, opening them, objects as files, error messages.

The read component declares address and credentials, else the environment has them. They are
independent of the lake's.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote, unquote

from dataplane.contract.hosts import BUCKET
from dataplane.contract.jobs import ConnectorJob
from dataplane.contract.source_objects import SourceObject
from dataplane.lakes.lake_addresses import endpoint_of
from dataplane.secrets import resolved_settings
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from obstore.store import ObjectStore

RETRY_S = 15.0  # then the task fails, and is tried again later
MOST_TRIES = 6
BUFFER_BYTES = 1 << 16  # a header or a footer mostly fits
ALL_BYTES = 1 << 23
FEW = 16  # objects that are requested one by one, at a time
PAGE = 1000  # objects that a server lists at a time
MOST_PASSED = 20  # of others for each that is looked for
PREFIX = "storage."
_REMOTE = re.compile(r"(s3|gs|abfss?)://")
_BUCKETS = ("s3", "gs")  # schemes of which only a bucket stands before the first slash
ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]+")  # the scheme and the bucket of a URI
_CODES = {
    "NoSuchBucket": "bucket-missing",
    "ContainerNotFound": "bucket-missing",
    "AccessDenied": "permission-denied",
    "AllAccessDisabled": "permission-denied",
    "AuthorizationPermissionMismatch": "permission-denied",
    "AuthenticationFailed": "credentials-refused",
    "AuthenticationRequired": "credentials-refused",
    "AuthorizationFailure": "credentials-refused",
    "InvalidAccessKeyId": "credentials-refused",
    "SignatureDoesNotMatch": "credentials-refused",
    "XAdminUserNotFound": "credentials-refused",  # a word of versitygw's
    "ExpiredToken": "credentials-refused",
    "InvalidToken": "credentials-refused",
    "PermanentRedirect": "wrong-region",
    "AuthorizationHeaderMalformed": "wrong-region",
    "IllegalLocationConstraintException": "wrong-region",
}


class Moved(TaskFailure):
    """An object differs from its listing."""

    def __init__(self, path: str) -> None:
        super().__init__("source-changed", f"{path} changed after it was listed", "infrastructure")


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Address and credentials of a store; an empty field is taken from the environment. Without a
    session token, keys do not expire. `bearer`: a token of Google, or a SAS token of Azure, as the
    catalogue of a table gives it."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""
    bearer: str = ""

    @staticmethod
    def declared(job: ConnectorJob) -> StoreAccess:
        """As a component declares it; `store_addresses.access_of` checks the address as well.
        TaskFailure for a secret without a value."""
        return StoreAccess(**resolved_settings(job, PREFIX))

    def __repr__(self) -> str:
        return f"Access({self.endpoint!r}, {self.region!r})"


def is_remote(location: str) -> bool:
    """Whether a location or URI is in an object store."""
    return _REMOTE.match(location) is not None


def is_http(location: str) -> bool:
    """Whether a location or URI is one of a web server."""
    return location.startswith(("http://", "https://"))


def is_sftp(location: str) -> bool:
    return location.startswith("sftp://")


def has_host(location: str) -> bool:
    """Whether a location or URI is on another machine: of a store or a server."""
    return is_remote(location) or is_http(location) or is_sftp(location)


def root_of(location: str) -> str:
    """The scheme and bucket: `s3://bucket`. TaskFailure for a bucket with a user or a port, which
    clients leave out: it would pass by the refused places."""
    root = ROOT.match(location)
    scheme, _, bucket = root[0].partition("://") if root else ("", "", "")
    if root is None or (scheme in _BUCKETS and not BUCKET.fullmatch(bucket)):
        raise TaskFailure(
            "bad-url", f"{location} names no bucket: write {scheme or 's3'}://bucket/path"
        )
    return root[0]


def uri_of(root: str, path: str) -> str:
    return f"{root}/{quote(path)}"


def path_of(uri: str) -> str:
    """The name of an object within its bucket."""
    return unquote(uri.removeprefix(root_of(uri)).removeprefix("/"))


@lru_cache(maxsize=16)
def open_root(root: str, access: StoreAccess) -> ObjectStore:
    """Open a bucket without a call to the server. TaskFailure where the package is missing or the
    URL is none."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError as e:
        raise TaskFailure(
            "missing-package", "object stores need: pip install 'headgate[s3]'", "infrastructure"
        ) from e
    options: dict[str, Any] = {}
    if root.startswith("s3:"):
        options = _of_s3(access)
    elif access.bearer:
        options = _by_bearer(root, access.bearer)
    retry = {"max_retries": MOST_TRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
    endpoint = access.endpoint or endpoint_of(os.environ)
    allows_http = not root.startswith("s3:") or endpoint.startswith("http://")
    client = {"allow_http": allows_http, "connect_timeout": "5s"}
    try:
        store = from_url(root, client_options=client, retry_config=retry, **options)  # type: ignore[call-overload]
    except (BaseError, ValueError) as e:
        raise TaskFailure("bad-url", f"{root}: {_first_line(str(e))}") from None
    return cast("ObjectStore", store)


def _of_s3(access: StoreAccess) -> dict[str, Any]:
    places = {"endpoint": access.endpoint.rstrip("/"), "region": access.region}
    options: dict[str, Any] = {"config": {name: value for name, value in places.items() if value}}
    if access.access_key_id:
        keys = {
            "access_key_id": access.access_key_id,
            "secret_access_key": access.secret_access_key,
            "token": access.session_token or None,
            "expires_at": None,
        }
        options["credential_provider"] = lambda: keys  # and nothing of those in the environment
    return options


def _by_bearer(root: str, bearer: str) -> dict[str, Any]:
    if root.startswith("gs:"):
        token = {"token": bearer, "expires_at": None}
        return {"credential_provider": lambda: token}
    return {"config": {"sas_token": bearer}}


@contextmanager
def telling(path: str) -> Iterator[None]:
    """Errors of a store as TaskFailures in words, without the request that led to them."""
    from obstore.exceptions import BaseError, PreconditionError

    try:
        yield
    except PreconditionError:
        raise Moved(path) from None
    except (FileNotFoundError, BaseError) as e:
        raise failure(path, e) from None


def failure(path: str, error: Exception) -> TaskFailure:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    from dataplane.lakes.object_store import in_words

    text = str(error)
    code, words = in_words(text)
    if code in _CODES:
        return TaskFailure(_CODES[code], f"{path}: {words}")
    match error:
        case FileNotFoundError():
            return Moved(path)
        case PermissionDeniedError() | UnauthenticatedError():
            return TaskFailure("permission-denied", f"{path}: {words}")
        case _ if "error sending request" in text or "error trying to connect" in text:
            return TaskFailure(
                "unreachable",
                f"{path}: the object store does not answer: {words}",
                "infrastructure",
            )
        case _:
            return TaskFailure("unreadable", f"{path}: {words}", "infrastructure")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]


def open_object(
    store: ObjectStore, source: SourceObject, buffer_bytes: int = BUFFER_BYTES
) -> BinaryIO:
    """A listed object as a file. Reading it raises Moved once it differs from its listing."""
    path, etag = path_of(source["uri"]), etag_of(source["version"])
    return open_path(store, path, source["size"], etag, buffer_bytes)


def open_path(
    store: ObjectStore, path: str, size: int, etag: str | None, buffer_bytes: int = BUFFER_BYTES
) -> BinaryIO:
    """An object as a file. Reading it raises Moved once it has another etag."""
    from dataplane.lakes.object_store import ObjectFile

    return io.BufferedReader(ObjectFile(store, path, size, etag, telling), buffer_bytes)


# --- versions -------------------------------------------------------------------------------------


def version_of(meta: Mapping[str, Any], access: StoreAccess) -> str:
    """The version of an object: it changes if and only if the object may have. With a declared
    address, of that address only."""
    return version_by(meta["e_tag"], meta["size"], modified_ms(meta), access)


def version_by(etag: str | None, size: int, modified: int, access: StoreAccess) -> str:
    where = f"@{access.endpoint.rstrip('/')}" if access.endpoint else ""
    return f"etag:{etag} {size}{where}" if etag else f"modified:{modified} {size}{where}"


def etag_of(version: str) -> str | None:
    etag = re.match(r"etag:(.*) \d+(?:@\S*)?$", version)
    return etag[1] if etag else None


def modified_ms(meta: Mapping[str, Any]) -> int:
    seconds: float = meta["last_modified"].timestamp()
    return round(seconds * 1000)


def modified_by(microseconds: int) -> int:
    """As `modified_ms`, of a time as a number: in the same steps, so that halves come out the
    same."""
    return round(microseconds / 1_000_000 * 1000)


def moved(access: StoreAccess, objects: Sequence[SourceObject]) -> frozenset[str]:
    """URIs of those objects, all of one bucket, that differ from their listing. Many are checked by
    listing their folders."""
    if not objects:
        return frozenset()
    root = root_of(objects[0]["uri"])
    store, by_path = open_root(root, access), {path_of(o["uri"]): o for o in objects}
    metas = _listed_again(store, root, sorted(by_path)) if len(by_path) > FEW else {}
    rest = [path for path in by_path if path not in metas]
    with ThreadPoolExecutor(FEW) as threads:
        metas |= dict(
            zip(rest, threads.map(lambda path: head(store, root, path), rest), strict=True)
        )
    return frozenset(
        o["uri"] for path, o in by_path.items() if not is_as_listed(metas[path], o, access)
    )


def is_as_listed(meta: Mapping[str, Any] | None, source: SourceObject, access: StoreAccess) -> bool:
    """Azure gives an etag without quotation marks in a listing, and with them when one object is
    requested."""
    return meta is not None and version_of(meta, access).replace('"', "") == source[
        "version"
    ].replace('"', "")


def head(store: ObjectStore, root: str, path: str) -> Mapping[str, Any] | None:
    """The metadata that a server gives of one object; None where it is not there."""
    import obstore

    with telling(uri_of(root, path)):
        try:
            return obstore.head(store, path)
        except FileNotFoundError:
            return None


def _listed_again(
    store: ObjectStore, root: str, paths: Sequence[str]
) -> dict[str, Mapping[str, Any] | None]:
    """Those that a listing comes upon before it has passed too many others."""
    import obstore

    paths_left, metas, passed = set(paths), dict[str, Mapping[str, Any] | None](), 0
    folder = os.path.commonpath([paths[0], paths[-1]])
    with telling(uri_of(root, folder)):
        for page in obstore.list(
            store, prefix=folder or None, offset=paths[0][:-1], chunk_size=PAGE
        ):
            metas |= {meta["path"]: meta for meta in page if meta["path"] in paths_left}
            passed += len(page)
            if page[-1]["path"] >= paths[-1] or passed > MOST_PASSED * (len(metas) + PAGE):
                break
    return metas
