"""Where a table's metadata is: a path, an answer of a REST catalogue, or a row of a SQL catalogue.

https://iceberg.apache.org/rest-catalog-spec/ ; the table `iceberg_tables` of JdbcCatalog
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from dataplane.connectors.iceberg.answer_bytes import body_of
from dataplane.connectors.iceberg.catalogue_login import Login, login_of
from dataplane.connectors.iceberg.table_files import check_host, open_files
from dataplane.contract.jobs import ConnectorJob, ConnectorSettings, SourceJob
from dataplane.contract.schemas import Json
from dataplane.secrets import resolved
from dataplane.storage.http_files import opened
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure

HINT = "metadata/version-hint.text"
HINT_BYTES = 1000
SUFFIX = ".metadata.json"
# A reader says that it wants keys of the store, and not links
_DELEGATION = {"X-Iceberg-Access-Delegation": "vended-credentials"}
LONGEST_ROW = 1 << 20  # bytes
MOST_STEPS = 10_000_000  # of SQLite: the table may be a view that never ends
_SELECT = (
    "SELECT metadata_location FROM iceberg_tables"
    " WHERE catalog_name = {0} AND table_namespace = {0} AND table_name = {0}"
)


@dataclass(frozen=True, slots=True)
class MetadataAddress:
    """`location`: of a file of metadata. A REST catalogue gives the metadata itself, and what it
    says about the store."""

    location: str
    metadata: Json = None
    store: Mapping[str, str] | None = None


def table_address(job: ConnectorJob, place: str) -> MetadataAddress:
    """`place`: the path, where the component names no catalogue. TaskFailure where there is no such
    table."""
    settings = job.get("settings") or {}
    if "table" not in settings:
        return MetadataAddress(_metadata_path(job, place))
    uri = resolved(settings["catalog.uri"])
    if uri.startswith(("http://", "https://")):
        return _by_rest(job, uri.rstrip("/"))
    return MetadataAddress(_by_sql(settings, uri))


def _missing(table: str, where: str) -> TaskFailure:
    return TaskFailure("path-not-found", f"there is no Iceberg table {table} in {where}")


# --- a path -------------------------------------------------------------------------------------


def _metadata_path(job: ConnectorJob, place: str) -> str:
    """The file itself, or the one that a folder's hint names. Without a hint the newest file may be
    one that was never committed."""
    if place.endswith(SUFFIX):
        return place
    hint = f"{place.rstrip('/')}/{HINT}"
    try:
        with open_files(job, {}).new_input(hint).open() as file:
            text = file.read(HINT_BYTES).decode(errors="replace").strip()
    except FileNotFoundError as e:
        message = f"{place} has no {HINT}, which says what its newest metadata is"
        way_out = f"give a catalogue and `table`, or the path of a file {SUFFIX}"
        raise TaskFailure("path-not-found", f"{message}: {way_out}") from e
    name = text if text.endswith(SUFFIX) else f"v{text}{SUFFIX}"
    return f"{place.rstrip('/')}/metadata/{name}"


# --- REST ---------------------------------------------------------------------------------------


def _by_rest(job: ConnectorJob, uri: str) -> MetadataAddress:
    settings, login = job["settings"], login_of(job, uri)
    warehouse = settings.get("catalog.warehouse")
    query = f"?{urlencode({'warehouse': warehouse})}" if warehouse else ""
    config = _get(login, f"{uri}/v1/config{query}") or {}
    prefix = {**config.get("defaults", {}), **config.get("overrides", {})}.get("prefix", "")
    namespace, _, name = settings["table"].rpartition(".")
    path = f"namespaces/{quote(namespace.replace('.', chr(0x1F)), safe='')}"
    base = "/".join(filter(None, (uri, "v1", quote(str(prefix), safe="/%"))))
    answer = _get(login, f"{base}/{path}/tables/{quote(name, safe='')}")
    if answer is None:
        raise _missing(settings["table"], f"the catalogue {uri}")
    location = str(answer.get("metadata-location") or answer["metadata"]["location"])
    return MetadataAddress(location, answer["metadata"], _store(answer, location))


def _store(answer: Json, location: str) -> dict[str, str]:
    """What the catalogue says about the store: `config`, and the keys with the longest prefix."""
    credentials = [c for c in answer.get("storage-credentials") or () if _is_for(c, location)]
    nearest = sorted(credentials, key=lambda c: len(c["prefix"]))[-1:]
    keys: dict[str, str] = nearest[0]["config"] if nearest else {}
    return {**(answer.get("config") or {}), **keys}


def _is_for(credential: Json, location: str) -> bool:
    return location.startswith(credential["prefix"])


def _get(login: Login, uri: str) -> Json:
    """An answer of the catalogue; None for 404."""
    headers = {f"http.{name}": text for name, text in login(uri).items()}
    job: SourceJob = {"format": "", "options": {}, "timezone": "", "settings": headers}
    try:
        with opened(job, uri, _DELEGATION) as answer:
            is_there = answer.status_code == 200
            return json.loads(body_of(uri, answer)) if is_there else None
    except TaskFailure as e:
        if e.condition != "permission-denied":
            raise
        message = f"the catalogue refuses {uri}: give a login that may read the table"
        raise TaskFailure("permission-denied", message) from e


# --- SQL ----------------------------------------------------------------------------------------


def _by_sql(settings: ConnectorSettings, uri: str) -> str:
    namespace, _, name = settings["table"].rpartition(".")
    names = (settings.get("catalog.name", "default"), namespace, name)
    row = _row_of_sqlite(uri, names) if uri.startswith("sqlite:") else _row(settings, uri, names)
    if row is None or not row[0]:
        raise _missing(settings["table"], f"the SQL catalogue {names[0]}")
    return str(row[0])


def _row_of_sqlite(uri: str, names: tuple[str, ...]) -> tuple[str, ...] | None:
    path = uri.removeprefix("sqlite:///")
    Places.of(os.environ).check_source(path)
    try:
        address = f"file:{quote(path)}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=10)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_ROW)
            database.set_progress_handler(lambda: 1, MOST_STEPS)  # ends the query
            row: tuple[str, ...] | None = database.execute(_SELECT.format("?"), names).fetchone()
            return row
    except sqlite3.Error as e:
        message = f"the SQL catalogue {path} cannot be read: {e}"
        raise TaskFailure("unreadable", message, "infrastructure") from e


def _row(settings: ConnectorSettings, uri: str, names: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        import psycopg
    except ModuleNotFoundError as e:
        message = "a SQL catalogue in PostgreSQL needs: pip install 'headgate[postgresql]'"
        raise TaskFailure("missing-package", message, "infrastructure") from e
    parts, port = _parts_of_postgresql(settings, uri)
    check_host(uri)
    try:
        with psycopg.connect(
            host=parts.hostname,
            port=port,
            dbname=unquote(parts.path[1:]),
            user=resolved(settings.get("catalog.user", unquote(parts.username or ""))),
            password=resolved(settings.get("catalog.password", unquote(parts.password or ""))),
            connect_timeout=10,
        ) as connection:
            return connection.execute(_SELECT.format("%s"), names).fetchone()
    except psycopg.Error as e:
        message = f"the SQL catalogue at {parts.hostname} cannot be read: {e}"
        raise TaskFailure("database-error", message, "infrastructure") from e


def _parts_of_postgresql(settings: ConnectorSettings, uri: str) -> tuple[SplitResult, int]:
    """The address, and its port. An error names no part of it: it may be a secret, with a
    password."""
    try:
        parts = urlsplit(uri)
        port = parts.port or 5432
        is_one = parts.scheme == "postgresql" and not parts.query and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        written = settings["catalog.uri"]
        forms = "https://host/path, sqlite:////path/file.db or postgresql://host:5432/database"
        raise TaskFailure("bad-url", f"{written} is no catalogue of one of these forms: {forms}")
    return parts, port
