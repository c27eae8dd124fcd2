"""The keys of `connector: kafka`: a topic as a source, or as a copy."""

from __future__ import annotations

from controlplane.core.blueprint import text_forms
from controlplane.core.blueprint.common_keys import (
    FROM,
    NO_OPTIONS,
    ON_BAD_RECORD,
    READ_CONNECTOR,
    SCHEMA,
    SCHEMA_CHANGE,
    WRITE_CONNECTOR,
    section,
)
from controlplane.core.blueprint.event_time import EVENT_TIME, KEPT, LATE
from controlplane.core.blueprint.model import Read, Settings, Write
from controlplane.core.blueprint.section_keys import Fields, Key, Nested
from controlplane.core.blueprint.source_refresh import SourceRefresh, StreamRefresh
from controlplane.core.blueprint.text_places import ParamValue
from controlplane.core.blueprint.value_kinds import (
    Choice,
    ListOf,
    Options,
    Reading,
    Text,
    Whole,
)

RAW = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, `partition` INT, offset BIGINT, "
    "timestamp TIMESTAMP"
)
ABOUT = (  # a message, beside its value
    "_key STRING, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _partition INT, _offset BIGINT, "
    "_timestamp TIMESTAMP"
)
EVENT = (  # of Debezium, beside its row
    "_op STRING, _lsn BIGINT, _source_file STRING, _source_pos BIGINT, _source_row INT, "
    "_source_time TIMESTAMP"
)

SERVERS = Key(
    "servers",
    Text(
        (
            text_forms.matching(
                r"[^\s,]+:[0-9]+(,[^\s,]+:[0-9]+)*", "host:port, or several with commas"
            ),
        )
    ),
    "",
    "Where to ask first: host:port,host:port",
    is_required=True,
    example="broker-1:9092,broker-2:9092",
)
TOPIC = Key(
    "topic",
    Text((text_forms.matching(r"[A-Za-z0-9._-]{1,249}", "the name of a topic"),)),
    "",
    "The topic to read.",
    is_required=True,
    example="orders",
)
FORMAT = Key(
    "format",
    Choice(("json", "avro", "debezium", "raw")),
    "json",
    "What values are: json, avro or debezium (events; avro with a registry), or raw bytes.",
)
REGISTRY: Key[str | None] = Key(
    "registry",
    Text(
        (
            text_forms.matching(r"https?://[^\s?#]+", "http://host:port of a schema registry"),
            text_forms.no_link_local,
        )
    ),
    None,
    "Where schemas of avro are: http://host:port",
    example="http://registry:8081",
)
SUBJECT: Key[str | None] = Key(
    "subject",
    Text((text_forms.matching(r"\S+", "the name of a subject"),)),
    None,
    "Under which name. Else <topic>-value.",
    example="orders-value",
)
SLICE = Key(
    "slice",
    Whole(1, 100_000_000),
    500_000,
    "Offsets of one of the topic's partitions in one of the dataset's.",
)
CLIENT = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
)
TO_REGISTRY = ("registry.username", "registry.password", "registry.ca.location")
OPTIONS = Key(
    "options",
    Options(may_refer=True),
    NO_OPTIONS,
    f"How clients log in: {', '.join(CLIENT)}.",
    example={"sasl.username": "app", "sasl.password": "secret://kafka/password"},
)
READ_OPTIONS = Key(
    "options",
    Options(may_refer=True),
    NO_OPTIONS,
    f"How clients log in: {', '.join((*CLIENT, *TO_REGISTRY))}.",
    example={"sasl.username": "app", "sasl.password": "secret://kafka/password"},
)
REFRESH = Key(
    "refresh",
    StreamRefresh(),
    SourceRefresh(60.0),
    "How often to look: continuous, {within: 500ms}, a duration, a cron expression, on_demand,"
    " or manual.",
    written="1m",
    example="30s",
)


def client_settings(fields: Fields, reading: Reading, names: tuple[str, ...]) -> Settings:
    """Settings of the connection; they identify nothing."""
    for unknown in (name for name, _ in fields[OPTIONS] if name not in names):
        message = f"a client of Kafka is not told {unknown!r} here"
        reading.problems.add(
            fields.present((OPTIONS,))[0].place,
            "not-supported",
            message,
            f"one of {', '.join(names)}",
        )
    return tuple((f"client.{name}", text) for name, text in fields[OPTIONS])


OF_FORMAT: dict[str, tuple[Key[object], ...]] = {  # keys that mean something for a format only
    "json": (SCHEMA, ON_BAD_RECORD),
    "avro": (SCHEMA, ON_BAD_RECORD, SCHEMA_CHANGE, REGISTRY, SUBJECT),
    "debezium": (SCHEMA, ON_BAD_RECORD, REGISTRY),
    "raw": (),
}


def _report(fields: Fields, reading: Reading) -> None:
    """Keys that the format needs, or that mean nothing for it."""
    kind, problems = fields[FORMAT], reading.problems
    allowed = OF_FORMAT["avro" if _has_registry(fields) else kind]
    if kind in ("json", "debezium") and not _has_registry(fields) and not fields.present((SCHEMA,)):
        message = "the key 'schema' is missing; messages have no columns of their own: declare those of their values"
        problems.add(fields.place, "missing-key", message, "schema: id INT, name STRING")
    if kind == "avro" and not fields.present((REGISTRY,)):
        problems.add(
            fields.place,
            "missing-key",
            "the key 'registry' is missing",
            "registry: http://host:port",
        )
    if fields[LATE] != LATE.default and (kind == "raw" or fields[EVENT_TIME] is None):
        message = f"late: {fields[LATE]} needs the key 'event_time', and values that are not raw"
        hint = "event_time: {column: at, delay: 10m}"
        problems.add(fields.present((LATE,))[0].place, "conflicting-keys", message, hint)
    for extra in fields.present(k for k in OF_FORMAT["avro"] if k not in allowed):
        message = f"{extra.text!r} says nothing of {kind} values"
        hint = f"remove it, or format: {' or '.join(f for f, keys in OF_FORMAT.items() if extra.text in _names(keys))}"
        problems.add(extra.place, "conflicting-keys", message, hint)


def _has_registry(fields: Fields) -> bool:
    """Whether values are Avro."""
    is_of_debezium = fields[FORMAT] == "debezium" and bool(fields.present((REGISTRY,)))
    return fields[FORMAT] == "avro" or is_of_debezium


def _names(keys: tuple[Key[object], ...]) -> tuple[str, ...]:
    return tuple(k.name for k in keys)


def _read(fields: Fields, reading: Reading) -> Read:
    _report(fields, reading)
    schema, kind = fields[SCHEMA], fields[FORMAT]
    values: dict[str, str] = {"format": kind}
    if _has_registry(fields):
        values |= {
            "registry": fields[REGISTRY] or "",
            "subject": fields[SUBJECT] or f"{fields[TOPIC]}-value",
        }
    if schema is not None:
        values["schema"] = schema
    settings: dict[str, ParamValue] = {
        **values,
        "servers": fields[SERVERS],
        "topic": fields[TOPIC],
        "slice": fields[SLICE],
    }
    return Read(
        connector="kafka",
        path=f"kafka://{fields[SERVERS]}/{fields[TOPIC]}",
        format="kafka",
        options=tuple(sorted(values.items())),
        schema=_columns(kind, schema),
        refresh_s=fields[REFRESH].every_s,
        within_s=fields[REFRESH].within_s,
        cron=fields[REFRESH].cron,
        on_demand_s=fields[REFRESH].on_demand_s,
        partition=None,
        metadata=(),
        on_bad_record=fields[ON_BAD_RECORD],
        schema_change=fields[SCHEMA_CHANGE] if _has_registry(fields) else "fail",
        deletes_max=1.0,
        settings=tuple(
            sorted((*settings.items(), *client_settings(fields, reading, (*CLIENT, *TO_REGISTRY))))
        ),
        is_growing=True,
        event_time=fields[EVENT_TIME],
        keeps_late_rows=fields[LATE] == KEPT,
    )


def _columns(kind: str, declared: str | None) -> str | None:
    """All that a message gives; None where the registry says so."""
    if kind == "raw":
        return RAW
    if declared is None:
        return RAW if kind == "json" else None
    return f"{declared}, {EVENT}, {ABOUT}" if kind == "debezium" else f"{declared}, {ABOUT}"


READ_KEYS = (
    READ_CONNECTOR,
    SERVERS,
    TOPIC,
    FORMAT,
    REGISTRY,
    SUBJECT,
    SCHEMA,
    READ_OPTIONS,
    SLICE,
    REFRESH,
    ON_BAD_RECORD,
    SCHEMA_CHANGE,
    EVENT_TIME,
    LATE,
)
READ = Nested(section(READ_KEYS), _read)

# --- write --------------------------------------------------------------------------------------

NO_COLUMNS: tuple[str, ...] = ()
TO_TOPIC = Key(
    "topic",
    Text(
        (
            text_forms.matching(
                r"[A-Za-z0-9._-]{1,240}", "the name of a topic, of at most 240 characters"
            ),
        )
    ),
    "",
    "The topic to write to. It is made if there is none.",
    is_required=True,
    example="orders",
)
TO_FORMAT = Key(
    "format", Choice(("json",), ("avro", "raw")), "json", "What keys and values are: json."
)
KEY = Key(
    "key",
    ListOf(Text()),
    NO_COLUMNS,
    "Columns that name a row: the key of its message.",
    is_required=True,
    example=["day", "carrier"],
)
PARTITIONS: Key[int | None] = Key(
    "partitions",
    Whole(1, 10_000),
    None,
    "Of a topic that has to be made. Else as many as the server gives it.",
    example=12,
)


def _write(fields: Fields, reading: Reading) -> Write:
    if "key" in fields.nodes and not fields[KEY]:
        reading.problems.add(fields.place, "invalid-value", "'key' names no column", "key: [id]")
    own: Settings = (
        *client_settings(fields, reading, CLIENT),
        ("format", fields[TO_FORMAT]),
        ("key", fields[KEY]),
        ("partitions", fields[PARTITIONS]),
        ("servers", fields[SERVERS]),
        ("topic", fields[TO_TOPIC]),
    )
    return Write(
        "kafka", fields[FROM], f"kafka://{fields[SERVERS]}/{fields[TO_TOPIC]}", "kafka", (), own
    )


WRITE = Nested(
    section((WRITE_CONNECTOR, FROM, SERVERS, TO_TOPIC, TO_FORMAT, KEY, PARTITIONS, OPTIONS)), _write
)
