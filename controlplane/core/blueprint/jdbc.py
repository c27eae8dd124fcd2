"""The keys of the connector `jdbc`: tables and queries of databases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from controlplane.core.blueprint.common_keys import (
    DELETES,
    FROM,
    NO_OPTIONS,
    READ_CONNECTOR,
    REFRESH,
    SCHEMA,
    SCHEMA_CHANGE,
    WRITE_CONNECTOR,
)
from controlplane.core.blueprint.model import Read, Settings, Write
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fault,
    Flag,
    JsonSchema,
    ListOf,
    Options,
    Reading,
    Text,
    secret_fault,
    wrong_type,
)
from controlplane.core.blueprint.yaml_nodes import Node, Scalar
from dataplane.contract.jdbc_options import (
    SCHEMES,
    WRITABLE,
    is_refused,
    refused_parameters,
)

NO_TEXTS: tuple[str, ...] = ()


def _url(text: str) -> Fault | None:
    if text.startswith("secret://"):
        return secret_fault(text)
    kind = text.removeprefix("jdbc:").partition(":")[0]
    if not text.startswith("jdbc:"):
        hint = "jdbc:postgresql://host:5432/database, or secret://name/key"
        return Fault("invalid-value", f"{shown(text)} is no JDBC URL", hint)
    if kind not in SCHEMES:
        message = f"there is no connector for databases of {shown(kind)}"
        return Fault("not-supported", message, f"use one of {', '.join(SCHEMES)}")
    return next(filter(None, map(_option, refused_parameters(text))), None)


def _written_url(text: str) -> Fault | None:
    """Also of a database that is only read; that of a secret is refused as it is written to."""
    kind = text.removeprefix("jdbc:").partition(":")[0]
    if kind in SCHEMES and kind not in WRITABLE:
        message = f"databases of {kind} are read and not written"
        return Fault("not-supported", message, f"use one of {', '.join(WRITABLE)}")
    return _url(text)


def _option(name: str) -> Fault | None:
    """A name of an option or of a parameter of the URL."""
    if not is_refused(name):
        return None
    message = f"{shown(name)} names a class or a file of the machine that connects"
    return Fault("not-supported", message, "leave it out: Headgate brings the driver")


def _not_empty(text: str) -> Fault | None:
    return None if text.strip() else Fault("invalid-value", "it is empty")


@dataclass(frozen=True, slots=True)
class Bound:
    """A value between two slices: a number or a text, kept as text."""

    def read(self, node: Node, reading: Reading) -> str:
        if not isinstance(node, Scalar) or isinstance(node.value, bool | None):
            raise wrong_type(node, "a number or a text", reading)
        return node.text

    def schema(self) -> JsonSchema:
        return {"type": ["string", "number"]}


NAMED = Text((_not_empty,))
URL = Key(
    "url",
    Text((_url,)),
    "",
    "A JDBC URL, or secret://name/key.",
    is_required=True,
    example="jdbc:postgresql://host:5432/shop",
)
OPTIONS = Key(
    "options",
    Options(may_refer=True, checks=(_option,)),
    NO_OPTIONS,
    "user, password, and options of Spark's JDBC reader.",
    example={"user": "app", "password": "secret://shop/password"},
)
TABLE: Key[str | None] = Key(
    "table",
    NAMED,
    None,
    "The table, perhaps with its schema: public.orders",
    example="public.orders",
)

# --- read ---------------------------------------------------------------------------------------

QUERY: Key[str | None] = Key(
    "query",
    NAMED,
    None,
    "A SELECT in the database's own SQL, in place of a table.",
    example="SELECT id, amount FROM orders",
)
COLUMN = Key(
    "column", NAMED, "", "The column by which rows are told apart.", is_required=True, example="id"
)
BOUNDS = Key(
    "bounds",
    ListOf(Bound()),
    NO_TEXTS,
    "Ascending values between slices. Without: a slice for each value.",
    example=[10, 20],
)
FULL = Key("full", Flag(), True, "All rows are one partition.")
NOTHING: Settings = ()
INCREMENTAL = Key(
    "incremental",
    Nested(Section((COLUMN,)), lambda f, _: (("by", "incremental"), ("column", f[COLUMN]))),
    NOTHING,
    "Each refresh adds one more partition: the rows whose column is greater than ever before.",
)
PARTITIONED = Key(
    "partitioned",
    Nested(
        Section((COLUMN, BOUNDS)),
        lambda f, _: (("by", "partitioned"), ("column", f[COLUMN]), ("bounds", f[BOUNDS])),
    ),
    NOTHING,
    "A partition for each slice of a column; changed ones are read again.",
)
READ_KEYS = (
    READ_CONNECTOR,
    URL,
    TABLE,
    QUERY,
    OPTIONS,
    FULL,
    INCREMENTAL,
    PARTITIONED,
    SCHEMA,
    REFRESH,
    SCHEMA_CHANGE,
    DELETES,
)


def _read(fields: Fields, reading: Reading) -> Read:
    for extra in fields.present((FULL, INCREMENTAL, PARTITIONED))[1:]:
        message = f"{extra.text!r} cannot stand beside another way of slicing"
        reading.problems.add(
            extra.place, "conflicting-keys", message, "give one of full, incremental, partitioned"
        )
    slicing = fields[INCREMENTAL] or fields[PARTITIONED] or (("by", "full"),)
    table, query = fields[TABLE], fields[QUERY]
    own: Settings = (("url", fields[URL]), ("table", table), ("query", query), *slicing)
    what = table or f"query {sha256((query or '').encode()).hexdigest()[:16]}"
    return Read(
        connector="jdbc",
        path=f"{fields[URL]} {what}",
        format="jdbc",
        options=fields[OPTIONS],
        schema=fields[SCHEMA],
        refresh_s=fields[REFRESH].every_s,
        cron=fields[REFRESH].cron,
        on_demand_s=fields[REFRESH].on_demand_s,
        schema_change=fields[SCHEMA_CHANGE],
        deletes_max=fields[DELETES],
        settings=tuple(sorted(own)),
        is_growing=bool(fields[INCREMENTAL]),
    )


READ = Nested(
    Section(READ_KEYS, one_of=("table", "query"), first="connector", may_hold_secrets=True),
    _read,
)

# --- write --------------------------------------------------------------------------------------

TO_URL = replace(URL, kind=Text((_written_url,)))
TO_TABLE = Key(
    "table",
    NAMED,
    "",
    "The table to write to: public.daily",
    is_required=True,
    example="public.orders",
)
MODE = Key(
    "mode",
    Choice(("replace", "upsert", "append")),
    "replace",
    "Whether rows of a partition are replaced, merged, or only appended.",
)
KEY = Key(
    "key",
    ListOf(NAMED),
    NO_TEXTS,
    "Columns that name a row, for upsert.",
    example=["day", "carrier"],
)
LAYOUT = Key(
    "schema_change",
    Choice(("fail", "alter", "recreate")),
    "fail",
    "What becomes of the table when the dataset's columns change.",
)
WRITE_KEYS = (WRITE_CONNECTOR, FROM, TO_URL, TO_TABLE, OPTIONS, MODE, KEY, LAYOUT)


def _write(fields: Fields, reading: Reading) -> Write:
    if (fields[MODE] == "upsert") != bool(fields[KEY]):
        message = "mode: upsert and key: [columns] go together"
        reading.problems.add(fields.place, "conflicting-keys", message, "give both, or neither")
    if fields[MODE] == "append" and fields[LAYOUT] == "recreate":
        message = "mode: append keeps all rows, and schema_change: recreate drops them"
        hint = "choose fail or alter, or another mode"
        reading.problems.add(fields.place, "conflicting-keys", message, hint)
    own: Settings = (
        ("key", fields[KEY]),
        ("mode", fields[MODE]),
        ("schema_change", fields[LAYOUT]),
        ("table", fields[TO_TABLE]),
        ("url", fields[TO_URL]),
    )
    place = f"{fields[TO_URL]} {fields[TO_TABLE]}"
    return Write("jdbc", fields[FROM], place, "jdbc", fields[OPTIONS], own)


WRITE = Nested(Section(WRITE_KEYS, first="connector", may_hold_secrets=True), _write)
