"""The keys of `connector: iceberg`: a table of Apache Iceberg as a source."""

from __future__ import annotations

from controlplane.core.blueprint import text_forms
from controlplane.core.blueprint.common_keys import (
    READ_CONNECTOR,
    REFRESH,
    SCHEMA,
    SCHEMA_CHANGE,
    section,
)
from controlplane.core.blueprint.delta import DELETES
from controlplane.core.blueprint.model import Read, Settings
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.storage import REGION, SECRET, STORAGE
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fault,
    Reading,
    Text,
    Whole,
    secret_fault,
)
from dataplane.contract.globs import GLOB_CHARACTERS

CATALOGUE = "iceberg:"  # begins the place of a table that a catalogue finds
NOTHING: Settings = ()
_URIS = ("https://", "http://", "sqlite:////", "postgresql://")


def _uri(text: str) -> Fault | None:
    if text.startswith("secret://"):
        return secret_fault(text)
    if not text.startswith(_URIS):
        hint = "https://host/iceberg, sqlite:////path/file.db or postgresql://host:5432/database"
        return Fault("invalid-value", f"{shown(text)} is no address of a catalogue", hint)
    path = text.removeprefix("sqlite:///")
    return text_forms.no_system_place(path) or text_forms.no_link_local(text)


def _oauth_uri(text: str) -> Fault | None:
    if not text.startswith(("https://", "http://")):
        hint = "write https://host/path"
        return Fault("invalid-value", f"{shown(text)} is no address of a web server", hint)
    return text_forms.no_link_local(text)


def _path(text: str) -> Fault | None:
    scheme = text.partition("://")[0] if "://" in text else "file"
    if scheme not in ("file", "s3", "gs", "abfs", "abfss"):
        hint = "name a local folder, or one such as s3://bucket/folder"
        return Fault("not-supported", f"no Iceberg tables are read from {shown(text)}", hint)
    if any(c in text for c in GLOB_CHARACTERS):
        message = f"{shown(text)} holds one of {' '.join(GLOB_CHARACTERS)}"
        return Fault("invalid-path", message, "name one table")
    return text_forms.no_system_place(text) or text_forms.source_path(text)


_table = text_forms.matching(r"[^./\s]+(\.[^./\s]+)+", "a table with its namespace: shop.orders")

PATH: Key[str | None] = Key(
    "path",
    Text((_path,)),
    None,
    "Folder of a table that has metadata/version-hint.text, or a file of metadata.",
    example="/data/events/metadata/v12.metadata.json",
)
TABLE: Key[str | None] = Key(
    "table", Text((_table,)), None, "The table in the catalogue.", example="shop.orders"
)
URI = Key(
    "uri",
    Text((_uri,)),
    "",
    "Address of a REST catalogue, or of a SQL catalogue in SQLite or PostgreSQL.",
    is_required=True,
    example="https://catalog.example/iceberg",
)
WAREHOUSE: Key[str | None] = Key(
    "warehouse", Text(), None, "The warehouse of a REST catalogue.", example="main"
)
TOKEN: Key[str | None] = Key(
    "token",
    Text((secret_fault,)),
    None,
    "secret://name/key, of REST.",
    example="secret://shop/token",
)
CLIENT_ID: Key[str | None] = Key(
    "client_id",
    SECRET,
    None,
    "The client that logs in to REST by OAuth2, or secret://name/key.",
    example="secret://shop/client",
)
CLIENT_SECRET: Key[str | None] = Key(
    "client_secret",
    SECRET,
    None,
    "secret://name/key, of the same client.",
    example="secret://shop/client_secret",
)
OAUTH_URI: Key[str | None] = Key(
    "oauth_uri",
    Text((_oauth_uri,)),
    None,
    "Address of the server that gives tokens; v1/oauth/tokens of the catalogue.",
    example="https://login.example/oauth/token",
)
SCOPE: Key[str | None] = Key(
    "scope", Text(), None, "The scope of a token; catalog.", example="PRINCIPAL_ROLE:ALL"
)
SIGNING: Key[str | None] = Key(
    "signing",
    Choice(("glue", "s3tables")),
    None,
    "The service of AWS whose requests are signed, with the keys of storage.",
)
NAME: Key[str | None] = Key(
    "name", Text(), None, "The name of a SQL catalogue; default.", example="lake"
)
USER: Key[str | None] = Key("user", Text(), None, "The user in PostgreSQL.", example="app")
PASSWORD: Key[str | None] = Key(
    "password", Text((secret_fault,)), None, "secret://name/key", example="secret://shop/password"
)
_OAUTH = (CLIENT_ID, CLIENT_SECRET, OAUTH_URI, SCOPE)
_AWS = (SIGNING, REGION)
_CATALOG = (URI, WAREHOUSE, TOKEN, *_OAUTH, *_AWS, NAME, USER, PASSWORD)


def _check_login(fields: Fields, reading: Reading) -> None:
    """A client of REST logs in in one way, which is given in full."""
    names = {key.name for key in _CATALOG if key.name in fields.nodes}
    oauth = names & {key.name for key in _OAUTH}
    aws = names & {key.name for key in _AWS}
    if oauth and not oauth >= {"client_id", "client_secret"}:
        message = "client_id and client_secret go together"
        reading.problems.add(fields.place, "missing-key", message, "give both")
    if aws and len(aws) < len(_AWS):
        message = "signing and region go together"
        reading.problems.add(fields.place, "missing-key", message, "give both")
    ways = [bool(oauth), bool(aws), "token" in names]
    if sum(ways) > 1:
        message = "token, client_id and signing are three ways to log in"
        reading.problems.add(fields.place, "conflicting-keys", message, "keep one of them")


def _catalog(fields: Fields, reading: Reading) -> Settings:
    _check_login(fields, reading)
    return tuple((f"catalog.{key.name}", fields[key]) for key in _CATALOG if fields[key])


CATALOG: Key[Settings] = Key(
    "catalog",
    Nested(Section(_CATALOG), _catalog),
    NOTHING,
    "The catalogue that finds the table.",
    example={"uri": "https://catalog.example/iceberg", "token": "secret://shop/token"},
)
REF: Key[str | None] = Key(
    "ref", Text(), None, "The branch or tag to read; main.", example="audited"
)
SNAPSHOT: Key[int | None] = Key(
    "snapshot", Whole(0, 2**63 - 1), None, "The one snapshot to read.", example=3051729675574597004
)


def _read(fields: Fields, reading: Reading) -> Read:
    is_named = TABLE.name in fields.nodes
    if is_named != (CATALOG.name in fields.nodes):
        missing, present = ("catalog", "table") if is_named else ("table", "catalog")
        message = f"the key {missing!r} is missing, which belongs to {present!r}"
        reading.problems.add(fields.place, "missing-key", message, "or give `path` alone")
    for extra in fields.present((REF,)) if SNAPSHOT.name in fields.nodes else ():
        message = "'ref' cannot stand beside 'snapshot'"
        reading.problems.add(extra.place, "conflicting-keys", message, "remove one of them")
    chosen = [(key.name, fields[key]) for key in (TABLE, REF, SNAPSHOT) if fields[key] is not None]
    return Read(
        connector="iceberg",
        path=fields[PATH] or f"{CATALOGUE}{fields[TABLE]}",
        format="iceberg",
        options=(),
        schema=fields[SCHEMA],
        refresh_s=fields[REFRESH].every_s,
        cron=fields[REFRESH].cron,
        partition=None,
        metadata=(),
        on_bad_record="fail",
        schema_change=fields[SCHEMA_CHANGE],
        deletes_max=fields[DELETES],
        settings=tuple(sorted((*chosen, *fields[CATALOG], *fields[STORAGE]))),
    )


READ = Nested(
    section(
        (
            READ_CONNECTOR,
            PATH,
            CATALOG,
            TABLE,
            REF,
            SNAPSHOT,
            STORAGE,
            SCHEMA,
            REFRESH,
            SCHEMA_CHANGE,
            DELETES,
        ),
        one_of=("path", "table"),
    ),
    _read,
)
