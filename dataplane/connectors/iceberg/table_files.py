"""The files of a table as pyiceberg opens them: at places that a source may have, and bounded.

A file of metadata may name a file anywhere, and its table may be another user's.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyiceberg.io import InputFile

from dataplane.connectors.iceberg.stored_files import GOOGLE_TOKEN, SAS_TOKEN, StoreFiles
from dataplane.contract.hosts import REFUSED
from dataplane.contract.jobs import ConnectorJob
from dataplane.secrets import LONGEST_LENT, remember_lent
from dataplane.storage.refused_places import Places
from dataplane.storage.service_hosts import leads_to_link_local
from dataplane.storage.source_stores import StoreAccess
from dataplane.storage.store_addresses import check_address, check_own_keys
from dataplane.task_failures import TaskFailure

TABLE_BYTES = 16 << 20  # of a table's metadata, unpacked: it takes 25 times as much to parse
MOST_VALUES = 1_000_000  # of a table's metadata: an object takes 60 times its two bytes
METADATA_BYTES = 64 << 20  # of a list of manifests, or of a manifest
MOST_BYTES = 4 << 30  # of all manifests that one listing opens
# Of what a catalogue says about the store, these reach the client. Others name classes to import
STORE_PROPERTIES = (
    "s3.endpoint",
    "s3.region",
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    GOOGLE_TOKEN,
)
LONGEST_REASON = 500  # characters of another library's words
KEY_PROPERTIES = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
_REGION = re.compile(r"[A-Za-z0-9_-]{1,50}")
# Arrow also takes `host:9000`, in which no check would see a host
_ENDPOINT = re.compile(r"https?://[^\s/?#@\\]+(?:/[^\s?#@\\]*)?")
# Arrow also takes other spellings of an address (`S3://`, a tab in the bucket), which would pass by
# the refused places
_IN_STORE = re.compile(
    r"(?:s3[an]?|gs|abfss?)://[^/?#\s\\]+/(?!(?:.*/)?\.{1,2}(?:/|$))[^\x00-\x1f\x7f]+"
)


class TableFiles(StoreFiles):
    """Opens files for reading. TaskFailure where nothing may be read, or too much would be."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(dict(properties))
        self._places = Places.of(os.environ)
        self._opened_bytes = 0

    def new_input(self, location: str) -> InputFile:  # type: ignore[override]  # as `StoreFiles`
        """A file of the table, of any kind."""
        self.check_place(location)
        return super().new_input(location)

    def new_metadata(self, location: str) -> InputFile:
        """A file of metadata, whose bytes count."""
        file = self.new_input(location)
        size = len(file)
        self._opened_bytes += size
        if size > METADATA_BYTES or self._opened_bytes > MOST_BYTES:
            raise _too_large(location)
        return file

    def metadata_text(self, location: str) -> str:
        """The text of a table's metadata, unpacked."""
        with self.new_metadata(location).open() as file:
            content = file.read(TABLE_BYTES + 1)
        if location.endswith(".gz.metadata.json"):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(TABLE_BYTES + 1)
        if len(content) > TABLE_BYTES:
            message = f"{location} makes more than {TABLE_BYTES >> 20} MiB of metadata"
            raise TaskFailure("listing-too-large", f"{message}: expire snapshots of the table")
        # Each value but the first follows one of these; those within texts count as well
        if sum(map(content.count, (b"{", b"[", b","))) > MOST_VALUES:
            message = f"{location} has more than {MOST_VALUES:,} values of metadata"
            raise TaskFailure("listing-too-large", f"{message}: expire snapshots of the table")
        return str(content, "utf-8")

    def check_place(self, location: str) -> None:
        """TaskFailure where nothing may be read: a refused place, or a store that is not known."""
        scheme, _, path = self.parse_location(location)
        if scheme == "file":
            self._places.check_source(path)
        elif _IN_STORE.fullmatch(location):
            self._places.check_source(location)
        else:
            message = f"{location}: files of Iceberg tables are read from local folders, and from"
            places = "s3://bucket/file, gs://bucket/file or abfss://container@account.../file"
            raise TaskFailure("not-supported", f"{message} {places}")


def _too_large(location: str) -> TaskFailure:
    message = f"{location} has more than {METADATA_BYTES >> 20} MiB, or more than"
    message = f"{message} {MOST_BYTES >> 30} GiB with the table's other files of metadata"
    return TaskFailure("listing-too-large", f"{message}: expire snapshots, or compact")


class MetadataFiles:
    """The same files to a planner, which opens metadata alone."""

    def __init__(self, files: TableFiles) -> None:
        self._files, self.properties = files, files.properties

    def new_input(self, location: str) -> InputFile:
        return self._files.new_metadata(location)


def open_files(job: ConnectorJob, vended: Mapping[str, str]) -> TableFiles:
    """`vended`: what the catalogue says about the store; the component's `storage` comes first."""
    access = StoreAccess.declared(job)
    declared = {
        "s3.endpoint": access.endpoint,
        "s3.region": access.region,
        "s3.access-key-id": access.access_key_id,
        "s3.secret-access-key": access.secret_access_key,
        "s3.session-token": access.session_token,
    }
    properties = _store_properties(vended)
    if access.access_key_id:  # a token of other keys would make these invalid
        properties = {n: text for n, text in properties.items() if n not in KEY_PROPERTIES}
    properties |= {name: text for name, text in declared.items() if text}
    endpoint = properties.get("s3.endpoint", "")
    check_address(endpoint)
    if "s3.access-key-id" not in properties:
        check_own_keys(endpoint)
    check_host(endpoint)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return TableFiles({"s3.region": region, **properties})


def _store_properties(vended: Mapping[str, str]) -> dict[str, str]:
    """The properties of a store that are used, by a catalogue. Its keys are hidden from now on.
    TaskFailure for a region that is no name, which becomes a part of the host, and for an endpoint
    that is no address."""
    properties = {name: str(vended[name]) for name in STORE_PROPERTIES if vended.get(name)}
    sas_tokens = {
        name: str(text)
        for name, text in vended.items()
        if name == SAS_TOKEN or name.startswith(f"{SAS_TOKEN}.")
    }
    properties |= sas_tokens
    for name in ("s3.secret-access-key", "s3.session-token", GOOGLE_TOKEN, *sas_tokens):
        _hide(name, properties.get(name, ""))
    if not _REGION.fullmatch(properties.get("s3.region", "none")):
        raise TaskFailure("unreadable", "the catalogue gives an s3.region that is no name")
    if not _ENDPOINT.fullmatch(properties.get("s3.endpoint", "https://host")):
        message = "the catalogue gives an s3.endpoint that is no address such as https://host:9000"
        raise TaskFailure("unreadable", message)
    return properties


def _hide(name: str, key: str) -> None:
    """A key of the catalogue. TaskFailure for one that no store takes."""
    if len(key) > LONGEST_LENT:
        raise TaskFailure("unreadable", f"the catalogue gives a {name} that is too long")
    remember_lent(key)


def check_host(url: str) -> None:
    """TaskFailure for an address that leads to a link-local host."""
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name and leads_to_link_local(name):
        raise TaskFailure("place-refused", f"{name} {REFUSED}: name the host of a service")


@contextmanager
def table_errors(name: str) -> Iterator[None]:
    """Errors of pyiceberg and of Arrow about a table, as TaskFailures that say what to do."""
    try:
        yield
    except TaskFailure:
        raise
    except FileNotFoundError as e:
        message = f"a file of the Iceberg table {name} is not there: {e}"
        hint = "its snapshot may have been expired; the table is listed again"
        raise TaskFailure("unreadable", f"{message}; {hint}", "infrastructure") from e
    except MemoryError as e:
        message = f"the metadata of the Iceberg table {name} does not fit into memory"
        raise TaskFailure("listing-too-large", f"{message}: expire snapshots, or compact") from e
    except Exception as e:  # damaged Avro and JSON end in errors of many classes
        reason = " ".join(f"{type(e).__name__}: {e}".split())[:LONGEST_REASON]
        message = f"the Iceberg table {name} cannot be read: {reason}"
        raise TaskFailure("unreadable", message, "infrastructure") from e
