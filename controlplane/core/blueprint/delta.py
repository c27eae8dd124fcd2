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
from controlplane.core.blueprint.model import Read, Write
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.source_refresh import report_unwatched
from controlplane.core.blueprint.value_kinds import Fraction, Reading, Text, Whole

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
    "The one version to read. Else the newest, whenever it is listed.",
    example=12,
)
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
    version = fields[VERSION]
    return Read(
        connector="delta",
        path=fields[PATH],
        format="delta",
        options=(),
        schema=fields[SCHEMA],
        refresh_s=fields[FOLDER_REFRESH].every_s,
        cron=fields[FOLDER_REFRESH].cron,
        within_s=fields[FOLDER_REFRESH].within_s,
        is_watched=fields[FOLDER_REFRESH].is_watched,
        partition=None,
        metadata=(),
        on_bad_record="fail",
        schema_change=fields[SCHEMA_CHANGE],
        deletes_max=fields[DELETES],
        settings=() if version is None else (("version", version),),
    )


READ = Nested(
    section((READ_CONNECTOR, PATH, VERSION, SCHEMA, FOLDER_REFRESH, SCHEMA_CHANGE, DELETES)), _read
)


def _write(fields: Fields, _: Reading) -> Write:
    return Write("delta", fields[FROM], fields[PATH], "delta", ())


WRITE = Nested(section((WRITE_CONNECTOR, FROM, PATH)), _write)
