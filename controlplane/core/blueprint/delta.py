"""The keys of `connector: delta`: an external Delta table as a source, or as a copy."""

from __future__ import annotations

from controlplane.core.blueprint import text_forms
from controlplane.core.blueprint.common_keys import (
    FOLDER_REFRESH,
    FROM,
    READ_CONNECTOR,
    SCHEMA,
    SCHEMA_CHANGE,
    WRITE_CONNECTOR,
    section,
)
from controlplane.core.blueprint.model import Read, Settings, Write
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.source_refresh import report_unwatched
from controlplane.core.blueprint.storage import LINK_FILES
from controlplane.core.blueprint.value_kinds import Flag, Fraction, Reading, Text, Whole
from dataplane.contract.jobs import LINK

PATH = Key(
    "path",
    Text((text_forms.path, text_forms.no_glob, text_forms.no_system_place)),
    "",
    "Folder of the table.",
    is_required=True,
    example="/data/events",
)
VERSION: Key[int | None] = Key(
    "version",
    Whole(0, 2**53),
    None,
    "The one version to read, or with changes the first. Else the newest at each listing.",
    example=12,
)
CHANGES = Key(
    "changes",
    Flag(),
    False,
    "Whether to read the table's change data feed: rows with _change_type and _commit_version.",
)
FEED = "_change_type STRING, _commit_version BIGINT, _commit_timestamp TIMESTAMP"
# Who removes files from a table does so on purpose, and rewriting all of them is ordinary.
MAX = Key(
    "max",
    Fraction(),
    1.0,
    "Share of the files that a listing may lose without confirmation.",
    example=0.9,
)
DELETES = Key(
    "deletes",
    Nested(Section((MAX,)), lambda f, _: f[MAX]),
    1.0,
    "When a loss of files is held back.",
)


def _read(fields: Fields, reading: Reading) -> Read:
    report_unwatched(fields[FOLDER_REFRESH], fields[PATH], fields, reading)
    version, is_feed = fields[VERSION], fields[CHANGES]
    for loss in fields.present((DELETES, LINK_FILES)) if is_feed else ():
        message = f"{loss.text!r} cannot stand beside changes, which are only added"
        reading.problems.add(loss.place, "conflicting-keys", message, "remove it")
    schema = fields[SCHEMA]
    settings: Settings = ((LINK, True),) if fields[LINK_FILES] else ()
    if version is not None:
        settings = (*settings, ("start" if is_feed else "version", version))
    return Read(
        connector="delta",
        path=fields[PATH],
        format="delta",
        schema=f"{schema}, {FEED}" if is_feed and schema else schema,
        refresh_s=fields[FOLDER_REFRESH].every_s,
        cron=fields[FOLDER_REFRESH].cron,
        on_demand_s=fields[FOLDER_REFRESH].on_demand_s,
        within_s=fields[FOLDER_REFRESH].within_s,
        is_watched=fields[FOLDER_REFRESH].is_watched,
        schema_change=fields[SCHEMA_CHANGE],
        deletes_max=fields[DELETES],
        settings=(("changes", True), *settings) if is_feed else settings,
        is_growing=is_feed,
    )


READ = Nested(
    section(
        (
            READ_CONNECTOR,
            PATH,
            VERSION,
            CHANGES,
            LINK_FILES,
            SCHEMA,
            FOLDER_REFRESH,
            SCHEMA_CHANGE,
            DELETES,
        )
    ),
    _read,
)


def _write(fields: Fields, _: Reading) -> Write:
    return Write("delta", fields[FROM], fields[PATH], "delta", ())


WRITE = Nested(section((WRITE_CONNECTOR, FROM, PATH)), _write)
