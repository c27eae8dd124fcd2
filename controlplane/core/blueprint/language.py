"""The blueprint language: the tables of keys, and how each section becomes a value of the model."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import NamedTuple, cast

from controlplane.core.blueprint import feed, text_forms
from controlplane.core.blueprint.cdc import CDC
from controlplane.core.blueprint.common_keys import (
    DELETES,
    FOLDER_REFRESH,
    FROM,
    ON_BAD_RECORD,
    OPTIONS,
    READ_CONNECTOR,
    SCHEMA,
    SCHEMA_CHANGE,
    WRITE_CONNECTOR,
)
from controlplane.core.blueprint.connectors import READS, WRITES, by_connector
from controlplane.core.blueprint.distinct_rows import DISTINCT
from controlplane.core.blueprint.driver_keep import DRIVERS
from controlplane.core.blueprint.expectations import EXPECT, with_records
from controlplane.core.blueprint.format_options import report_options, report_quarantine
from controlplane.core.blueprint.freshness import FRESHNESS, report_freshness
from controlplane.core.blueprint.lasting import PIN, VOLATILE, report_misplaced
from controlplane.core.blueprint.model import Component, Read, Retention, SparkSettings, Write
from controlplane.core.blueprint.notify import NOTIFY
from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.recompute_limits import MAX_RECOMPUTE
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.server_keys import HEADERS, MEMBERS, SFTP, server_settings
from controlplane.core.blueprint.shared_parts import SHARED
from controlplane.core.blueprint.source_refresh import report_unwatched
from controlplane.core.blueprint.storage import (
    GROUP,
    HIVE_PARTITIONING,
    LINK_FILES,
    REGEX,
    STORAGE,
    report_link,
    settings,
    stored,
)
from controlplane.core.blueprint.store_notices import NOTICES, notice_settings
from controlplane.core.blueprint.transform_tests import TESTS
from controlplane.core.blueprint.transforms import NAME, TRANSFORM
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Flag,
    JsonSchema,
    ListOf,
    Reading,
    Text,
    Whole,
    as_text,
    entries_of,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Node, Scalar, holds_broken
from controlplane.core.model.tasks import Size
from dataplane.contract.profiles import Mode as ProfileMode

ANY = Text()
NO_TEXTS: tuple[str, ...] = ()


# --- read ---------------------------------------------------------------------------------------

PATH = Key(
    "path",
    Text((text_forms.source_path, text_forms.glob, text_forms.no_system_place)),
    "",
    "Path or URI with a glob: data/*.csv",
    is_required=True,
    example="data/flights/*.csv",
)
FORMAT = Key(
    "format",
    Choice(("csv", "json", "parquet", "orc", "avro", "xlsx", "fixed", "xml", "text", "binary")),
    "csv",
    "Format of the files.",
    is_required=True,
)
PARTITION: Key[str | None] = Key(
    "partition",
    Text((text_forms.partition,)),
    None,
    "Which part of a name is the key: {month}.csv",
    example="{month}.csv",
)
METADATA = Key(
    "metadata",
    ListOf(Choice(("name", "modified"))),
    NO_TEXTS,
    "Columns to add about the source object.",
    example=["name"],
)
READ_KEYS = (
    READ_CONNECTOR,
    PATH,
    FORMAT,
    OPTIONS,
    SCHEMA,
    FOLDER_REFRESH,
    PARTITION,
    METADATA,
    ON_BAD_RECORD,
    SCHEMA_CHANGE,
    DELETES,
    REGEX,
    HIVE_PARTITIONING,
    LINK_FILES,
    GROUP,
    STORAGE,
    MEMBERS,
    HEADERS,
    SFTP,
    NOTICES,
)


def _read(fields: Fields, reading: Reading) -> Read:
    report_unwatched(fields[FOLDER_REFRESH], fields[PATH], fields, reading)
    report_options(fields, fields[FORMAT], reading)
    report_quarantine(fields, fields[FORMAT], reading)
    report_link(fields, fields[FORMAT], reading)
    is_watched = fields[FOLDER_REFRESH].is_watched
    notices = notice_settings(fields, fields[PATH], is_watched=is_watched, reading=reading)
    return Read(
        connector=fields[READ_CONNECTOR],
        path=fields[PATH],
        format=fields[FORMAT],
        options=fields[OPTIONS],
        schema=fields[SCHEMA],
        refresh_s=fields[FOLDER_REFRESH].every_s,
        cron=fields[FOLDER_REFRESH].cron,
        on_demand_s=fields[FOLDER_REFRESH].on_demand_s,
        within_s=fields[FOLDER_REFRESH].within_s,
        is_watched=is_watched,
        partition=fields[PARTITION],
        metadata=fields[METADATA],
        on_bad_record=fields[ON_BAD_RECORD],
        schema_change=fields[SCHEMA_CHANGE],
        deletes_max=fields[DELETES],
        settings=tuple(
            sorted(
                (
                    *settings(fields, fields[PATH], reading),
                    *server_settings(fields, fields[PATH], reading),
                    *notices,
                )
            )
        ),
        hive_partitioning=fields[HIVE_PARTITIONING],
    )


# --- write --------------------------------------------------------------------------------------

TO_PATH = Key(
    "path",
    Text(
        (
            text_forms.no_server,
            text_forms.source_path,
            text_forms.no_glob,
            text_forms.no_system_place,
        )
    ),
    "",
    "Folder to write to.",
    is_required=True,
    example="out/delays",
)
TO_FORMAT = Key(
    "format", Choice(("csv", "json", "parquet")), "csv", "Format of the files.", is_required=True
)
WRITE_KEYS = (WRITE_CONNECTOR, FROM, TO_PATH, TO_FORMAT, OPTIONS, STORAGE)


def _write(fields: Fields, reading: Reading) -> Write:
    own = stored(fields, fields[TO_PATH], reading)
    return Write(
        fields[WRITE_CONNECTOR],
        fields[FROM],
        fields[TO_PATH],
        fields[TO_FORMAT],
        fields[OPTIONS],
        own,
    )


# --- components ---------------------------------------------------------------------------------

GENERATIONS = Key("generations", Whole(1, 1_000_000), 30, "Old generations to keep.")
DAYS = Key("days", Whole(0, 36_500), 30, "Days for which old generations are kept.")

READ_SECTIONS = by_connector(READS, READ_KEYS, _read)
WRITE_SECTIONS = by_connector(WRITES, WRITE_KEYS, _write)
READ: Key[Read | None] = Key(
    "read",
    READ_SECTIONS,
    None,
    "A source.",
    example={"connector": "files", "path": "data/*.csv", "format": "csv"},
)
TRANSFORM_KEY = Key("transform", TRANSFORM, None, "A dataset computed from others.")
WRITE: Key[Write | None] = Key(
    "write",
    WRITE_SECTIONS,
    None,
    "A copy.",
    example={"connector": "files", "from": "delays", "path": "out", "format": "csv"},
)
COMPONENT_DESCRIPTION = Key(
    "description", ANY, "", "What it is, in words.", example="Flights out of New York"
)
OWNER = Key("owner", ANY, "", "Who answers for it.", example="team-revenue")
TAGS = Key("tags", ListOf(ANY), NO_TEXTS, "Words to find it by.", example=["finance", "daily"])
PAUSED = Key("paused", Flag(), False, "Whether no new work is started.")
PRIORITY = Key("priority", Whole(-1000, 1000), 0, "Work of higher priority is started first.")
RETENTION = Key(
    "retention",
    Nested(Section((GENERATIONS, DAYS)), lambda f, _: Retention(f[GENERATIONS], f[DAYS])),
    Retention(),
    "Which old generations are kept, by the limit that keeps more.",
)
RESOURCES = Key(
    "resources",
    Choice(("small", "standard", "large")),
    "standard",
    "How large a Spark task may be.",
)
SORT_BY = Key(
    "sort_by",
    ListOf(ANY),
    NO_TEXTS,
    "Columns by which rows are sorted within fragments.",
    example=["day", "carrier"],
)
PROFILE = Key(
    "profile",
    Choice(("full", "basic", "off")),
    "full",
    "What is kept of each partition's columns: basic is NULLs, least and greatest values; full also a sample of rows.",
)
PUBLISH = Key(
    "publish", Choice(("whole",), ("progressive",)), "whole", "When readers see new partitions."
)
APPEND_ONLY = Key(
    "append_only",
    Flag(),
    False,
    "Whether generations only add partitions, so that streams of other engines can follow the table.",
)
COMPONENT = Section(
    (
        READ,
        TRANSFORM_KEY,
        CDC,
        DISTINCT,
        WRITE,
        COMPONENT_DESCRIPTION,
        OWNER,
        TAGS,
        PAUSED,
        PRIORITY,
        RETENTION,
        RESOURCES,
        PUBLISH,
        APPEND_ONLY,
        EXPECT,
        FRESHNESS,
        MAX_RECOMPUTE,
        VOLATILE,
        PIN,
        SORT_BY,
        PROFILE,
        TESTS,
    ),
    one_of=("read", "transform", "cdc", "distinct", "write"),
)


def _component(key: Scalar, node: Node, reading: Reading) -> Component | None:
    fields = COMPONENT.read(node, reading)
    body = fields[READ] or fields[TRANSFORM_KEY] or fields[WRITE]
    if body is None:
        return None
    if isinstance(body, Write):
        body = _placed(body, fields.nodes[WRITE.name][1])
    for expect in fields.present((EXPECT,)) if isinstance(body, Write) else ():
        message = "a write component makes no dataset of which anything could be expected"
        reading.problems.add(
            expect.place, "conflicting-keys", message, "expect it of the dataset that is written"
        )
    report_freshness(fields, body, reading)
    report_misplaced(fields, body, reading)
    feed.report_misplaced(fields, body, reading)
    for sort in fields.present((SORT_BY,)) if isinstance(body, Write) else ():
        message = "a write component has no fragments whose rows could be sorted"
        reading.problems.add(
            sort.place, "conflicting-keys", message, "sort the dataset that is written"
        )
    for profile in fields.present((PROFILE,)) if isinstance(body, Write) else ():
        message = "a write component has no fragments of which a profile could be kept"
        reading.problems.add(
            profile.place, "conflicting-keys", message, "say it of the dataset that is written"
        )
    for append_only in fields.present((APPEND_ONLY,)) if isinstance(body, Write) else ():
        message = "a write component has no table that streams could follow"
        reading.problems.add(
            append_only.place, "conflicting-keys", message, "say it of the dataset that is written"
        )
    for tests in fields.present((TESTS,)) if isinstance(body, Read | Write) else ():
        message = "only transforms have tests"
        reading.problems.add(
            tests.place, "conflicting-keys", message, "test the transform that reads this dataset"
        )
    return Component(
        name=key.text,
        place=key.place,
        body=body,
        description=fields[COMPONENT_DESCRIPTION],
        owner=fields[OWNER],
        tags=fields[TAGS],
        paused=fields[PAUSED],
        priority=fields[PRIORITY],
        resources=cast("Size", fields[RESOURCES]),
        retention=fields[RETENTION],
        expect=with_records(fields[EXPECT], body, key.place, reading),
        freshness_s=fields[FRESHNESS],
        max_recompute=fields[MAX_RECOMPUTE],
        volatile=fields[VOLATILE],
        pin=fields[PIN],
        append_only=fields[APPEND_ONLY],
        profile=cast("ProfileMode", fields[PROFILE]),
        sort_by=fields[SORT_BY],
        sort_places=fields.item_places(SORT_BY),
        tests=fields[TESTS],
        use=reading.uses.get(key.text),
    )


def _placed(write: Write, node: Node) -> Write:
    """With the place of the dataset that it copies."""
    source = node.get(FROM.name) if isinstance(node, Entries) else None
    return dataclasses.replace(write, source_place=source.place) if source else write


class DeclaredComponents(NamedTuple):
    """Components that have a body, and the names of all that have problems of their own."""

    components: tuple[Component, ...]
    unsound: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Components:
    """Components by name, in the order of the file."""

    def read(self, node: Node, reading: Reading) -> DeclaredComponents:
        entries = entries_of(node, reading, "a mapping of names to components").entries
        _report_clashes([key for key, _ in entries], reading)
        components: list[Component] = []
        unsound: set[str] = set()
        for key, value in entries:
            before = reading.problems.noted
            component = _named(key, value, reading)
            if component is not None:
                components.append(component)
            is_broken = bool(reading.problems) and holds_broken(value)
            if component is None or reading.problems.noted > before or is_broken:
                unsound.add(key.text)
        return DeclaredComponents(tuple(components), frozenset(unsound))

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "propertyNames": NAME.schema(),
            "additionalProperties": COMPONENT.schema(),
        }


def _named(key: Scalar, node: Node, reading: Reading) -> Component | None:
    """A component. Its name and its inside are both checked, also where one is wrong."""
    with contextlib.suppress(BlueprintRefused):
        NAME.read(as_text(key), reading)
    reading = reading.within(key.text)
    try:
        return _component(key, node, reading)
    except BlueprintRefused:
        return None


def _report_clashes(keys: list[Scalar], reading: Reading) -> None:
    first_keys: dict[str, Scalar] = {}
    for key in keys:
        other = first_keys.setdefault(key.text.lower(), key)
        if other is not key:
            message = f"{shown(key.text)} and {shown(other.text)} differ in case only"
            reading.problems.add(
                key.place, "name-clash", message, "datasets are found without regard to case"
            )


# --- dataflow -----------------------------------------------------------------------------------

ANSI = Key("ansi", Flag(), True, "Whether bad casts and overflows are errors.")
CASE_SENSITIVE = Key(
    "case_sensitive", Flag(), False, "Whether column names are told apart by case."
)

DATAFLOW = Key("dataflow", NAME, "", "The dataflow's name.", is_required=True, example="flights")
DESCRIPTION = Key(
    "description", ANY, "", "What it is, in words.", example="Flights out of New York"
)
ZONE = Text(
    (text_forms.matching(text_forms.TIMEZONE, "a time zone such as UTC or Europe/Berlin"),),
    f"^({text_forms.TIMEZONE})$",
)
TIMEZONE = Key("timezone", ZONE, "UTC", "Time zone of Spark's sessions.", example="Europe/Berlin")
SPARK = Key(
    "spark",
    Nested(Section((ANSI, CASE_SENSITIVE)), lambda f, _: SparkSettings(f[ANSI], f[CASE_SENSITIVE])),
    SparkSettings(),
    "Spark settings that belong to the logic.",
)
NO_COMPONENTS = DeclaredComponents((), frozenset())
COMPONENTS = Key(
    "components",
    Components(),
    NO_COMPONENTS,
    "Reads, transforms and writes by name.",
    is_required=True,
    example={"delays": {"transform": {"sql": "SELECT 1 AS n"}}},
)
BLUEPRINT = Section((DATAFLOW, DESCRIPTION, TIMEZONE, SPARK, *SHARED, DRIVERS, NOTIFY, COMPONENTS))
