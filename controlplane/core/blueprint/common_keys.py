"""Keys that connectors have in common, and which connectors there are."""

from __future__ import annotations

from controlplane.core.blueprint.section_keys import Key, Nested, Section
from controlplane.core.blueprint.source_refresh import RefreshChoice, SourceRefresh
from controlplane.core.blueprint.transforms import DATASET
from controlplane.core.blueprint.value_kinds import (
    Choice,
    ColumnsText,
    Fraction,
    Options,
)
from dataplane.contract.jobs import OnBadRecord

READERS = Choice(("files", "delta", "iceberg", "jdbc", "kafka", "python", "dlt", "spark", "feed"))
WRITERS = Choice(("files", "delta", "jdbc", "kafka"), ("python",))
NO_OPTIONS: tuple[tuple[str, str], ...] = ()

READ_CONNECTOR = Key("connector", READERS, "files", "What is read.", is_required=True)
WRITE_CONNECTOR = Key("connector", WRITERS, "files", "What is written to.", is_required=True)
OPTIONS = Key(
    "options",
    Options(),
    NO_OPTIONS,
    "Options of Spark's reader or writer.",
    example={"header": True},
)
SCHEMA: Key[str | None] = Key(
    "schema",
    ColumnsText(),
    None,
    "Columns as DDL: year INT, name STRING. Else inferred.",
    example="year INT, name STRING",
)
REFRESH = Key(
    "refresh",
    RefreshChoice(),
    SourceRefresh(60.0),
    "How often to list: a duration such as 30s, a cron expression, on_demand, or manual.",
    written="1m",
    example="30s",
)
FOLDER_REFRESH = Key(
    "refresh",
    RefreshChoice(is_of_folders=True),
    SourceRefresh(60.0),
    "How often to list: a duration such as 30s, a cron expression, on_change, on_demand,"
    " or manual.",
    written="1m",
    example="30s",
)
SCHEMA_CHANGE = Key(
    "schema_change",
    Choice(("fail", "append", "sync")),
    "append",
    "How the schema follows the sources: fail, append or sync.",
)
ON_BAD_RECORD: Key[OnBadRecord] = Key(
    "on_bad_record",
    Choice(("fail", "drop", "quarantine")),
    "fail",
    "What a bad record leads to: fail, drop or quarantine.",
)
MAX = Key(
    "max",
    Fraction(),
    0.5,
    "Share of the objects that a listing may lose without confirmation.",
    example=0.9,
)
DELETES = Key(
    "deletes",
    Nested(Section((MAX,)), lambda f, _: f[MAX]),
    0.5,
    "When a loss of objects is held back.",
)
FROM = Key("from", DATASET, "", "The dataset to copy.", is_required=True, example="delays")


def section(keys: tuple[Key[object], ...], **options: tuple[str, ...]) -> Section:
    """The section of a connector."""
    return Section(keys, first="connector", may_hold_secrets=True, **options)
