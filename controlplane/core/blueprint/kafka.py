"""The keys of `connector: kafka`: a topic as a source, or as a copy.

Does not belong here: keys that connectors share.
"""

from __future__ import annotations

from controlplane.core.blueprint import checks
from controlplane.core.blueprint.kinds import Choice, ListOf, Options, Reading, Refresh, Text, Whole
from controlplane.core.blueprint.model import ParamValue, Read, Settings, Write
from controlplane.core.blueprint.sections import Fields, Key, Nested
from controlplane.core.blueprint.shared import FROM, NO_OPTIONS, READ_CONNECTOR, SCHEMA, WRITE_CONNECTOR, section

CONTINUOUS_S = 2.0
RAW = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, `partition` INT, offset BIGINT, "
    "timestamp TIMESTAMP"
)
ABOUT = (  # a message, beside its value
    "_key STRING, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _partition INT, _offset BIGINT, "
    "_timestamp TIMESTAMP"
)

SERVERS = Key(
    "servers",
    Text((checks.matching(r"[^\s,]+:[0-9]+(,[^\s,]+:[0-9]+)*", "host:port, or several with commas"),)),
    "",
    "Where to ask first: host:port,host:port",
    is_required=True,
)
TOPIC = Key(
    "topic",
    Text((checks.matching(r"[A-Za-z0-9._-]{1,249}", "the name of a topic"),)),
    "",
    "The topic to read.",
    is_required=True,
)
FORMAT = Key("format", Choice(("json", "raw"), ("avro",)), "json", "What values are: json, or raw bytes.")
SLICE = Key(
    "slice", Whole(1, 100_000_000), 500_000, "Offsets of one of the topic's partitions in one of the dataset's."
)
CLIENT = ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "ssl.ca.location")
OPTIONS = Key("options", Options(may_refer=True), NO_OPTIONS, f"How clients log in: {', '.join(CLIENT)}.")
REFRESH: Key[float | None] = Key(
    "refresh", Refresh(CONTINUOUS_S), 60.0, "How often to look: continuous, a duration such as 30s, or manual."
)


def _client(fields: Fields, reading: Reading) -> Settings:
    """Settings of the connection; they identify nothing."""
    for unknown in (name for name, _ in fields[OPTIONS] if name not in CLIENT):
        message = f"a client of Kafka is not told {unknown!r} here"
        reading.problems.add(fields.given((OPTIONS,))[0].place, "not-supported", message, f"one of {', '.join(CLIENT)}")
    return tuple((f"client.{name}", text) for name, text in fields[OPTIONS])


def _read(fields: Fields, reading: Reading) -> Read:
    schema, kind = fields[SCHEMA], fields[FORMAT]
    if kind == "json" and schema is None and "schema" not in fields.nodes:
        message = "messages have no columns of their own: declare those of their values"
        reading.problems.add(
            fields.place, "missing-key", f"the key 'schema' is missing; {message}", "schema: id INT, name STRING"
        )
    for misplaced in fields.given((SCHEMA,)) if kind == "raw" else ():
        reading.problems.add(
            misplaced.place, "conflicting-keys", "raw values have no columns", "remove it, or format: json"
        )
    settings: dict[str, ParamValue] = {
        "servers": fields[SERVERS],
        "topic": fields[TOPIC],
        "format": kind,
        "slice": fields[SLICE],
    }
    if schema is not None:
        settings["schema"] = schema
    return Read(
        connector="kafka",
        path=f"kafka://{fields[SERVERS]}/{fields[TOPIC]}",
        format="kafka",
        options=(("format", kind), *((("schema", schema),) if schema is not None else ())),
        schema=f"{schema}, {ABOUT}" if kind == "json" and schema is not None else RAW,
        refresh_s=fields[REFRESH],
        partition=None,
        metadata=(),
        on_bad_record="fail",
        schema_change="fail",
        deletes_max=1.0,
        settings=tuple(sorted((*settings.items(), *_client(fields, reading)))),
        is_growing=True,
    )


READ = Nested(section((READ_CONNECTOR, SERVERS, TOPIC, FORMAT, SCHEMA, OPTIONS, SLICE, REFRESH)), _read)

# --- write --------------------------------------------------------------------------------------

NO_COLUMNS: tuple[str, ...] = ()
TO_TOPIC = Key(
    "topic",
    Text((checks.matching(r"[A-Za-z0-9._-]{1,240}", "the name of a topic, of at most 240 characters"),)),
    "",
    "The topic to write to. It is made if there is none.",
    is_required=True,
)
TO_FORMAT = Key("format", Choice(("json",), ("avro", "raw")), "json", "What keys and values are: json.")
KEY = Key("key", ListOf(Text()), NO_COLUMNS, "Columns that name a row: the key of its message.", is_required=True)
PARTITIONS: Key[int | None] = Key(
    "partitions", Whole(1, 10_000), None, "Of a topic that has to be made. Else as many as the server gives it."
)


def _write(fields: Fields, reading: Reading) -> Write:
    if "key" in fields.nodes and not fields[KEY]:
        reading.problems.add(fields.place, "invalid-value", "'key' names no column", "key: [id]")
    own: Settings = (
        *_client(fields, reading),
        ("format", fields[TO_FORMAT]),
        ("key", fields[KEY]),
        ("partitions", fields[PARTITIONS]),
        ("servers", fields[SERVERS]),
        ("topic", fields[TO_TOPIC]),
    )
    return Write("kafka", fields[FROM], f"kafka://{fields[SERVERS]}/{fields[TO_TOPIC]}", "kafka", (), own)


WRITE = Nested(section((WRITE_CONNECTOR, FROM, SERVERS, TO_TOPIC, TO_FORMAT, KEY, PARTITIONS, OPTIONS)), _write)
