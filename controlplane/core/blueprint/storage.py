"""Keys of `connector: files` beyond path and format: which files, at which address, whose
credentials, how grouped."""

from __future__ import annotations

import re2

from controlplane.core.blueprint.model import Settings
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_forms import matching, no_link_local
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fault,
    Flag,
    Reading,
    Text,
    Whole,
    secret_fault,
)
from dataplane.contract.jobs import LINK
from dataplane.contract.limits import REGEX_BYTES

LONGEST_REGEX = 1000
NOTHING: Settings = ()


def _regex(text: str) -> Fault | None:
    """RE2 matches each expression in time linear in the name; so it has no look-around and
    no `\\1`."""
    if not text or len(text) > LONGEST_REGEX:
        return Fault(
            "invalid-value",
            f"no regular expression: has to have from 1 to {LONGEST_REGEX} characters",
        )
    options = re2.Options()
    options.max_mem, options.log_errors = REGEX_BYTES, False
    try:
        re2.compile(text, options)
    except re2.error as e:
        return Fault(
            "invalid-value",
            f"no regular expression: {_words(e)}",
            "as of RE2: no (?=...), (?<...) and \\1",
        )
    except UnicodeEncodeError:
        return Fault(
            "invalid-value", "no regular expression: it holds a character that cannot be encoded"
        )
    return None


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _reference(text: str) -> Fault | None:
    """The fault of a reference; another check reports a literal, as a secret in plain text."""
    return secret_fault(text) if text.startswith("secret://") else None


REGEX: Key[str | None] = Key(
    "regex",
    Text((_regex,)),
    None,
    "Only files whose whole name below the fixed folder of the path it matches.",
    example="2[0-9]{3}-[0-9]{2}[.]csv",
)
HIVE_PARTITIONING: Key[bool | None] = Key(
    "hive_partitioning",
    Flag(),
    None,
    "Whether folders key=value below the fixed folder of the path are columns; if absent, true but for components of "
    "earlier versions.",
    example=False,
)
SECRET = Text((_reference,))  # a reference; a plain text where it is no secret
LINK_FILES: Key[bool] = Key(
    LINK,
    Flag(),
    False,
    "Whether Parquet files in the store of the lake become files of the lake as they are, where "
    "their columns and types are those of the dataset.",
    example=True,
)
ENDPOINT: Key[str | None] = Key(
    "endpoint",
    Text(
        (matching(r"https?://[^\s/?#@]+/?", "an address such as https://host:9000"), no_link_local)
    ),
    None,
    "Another server than the provider's own: https://host:9000",
    example="https://minio.example:9000",
)
REGION: Key[str | None] = Key(
    "region",
    Text((matching(r"[a-z0-9-]{1,50}", "the name of a region"),)),
    None,
    "Region of the bucket.",
    example="eu-central-1",
)
ACCESS_KEY: Key[str | None] = Key(
    "access_key_id", SECRET, None, "secret://name/key", example="secret://shop/id"
)
SECRET_KEY: Key[str | None] = Key(
    "secret_access_key", SECRET, None, "secret://name/key", example="secret://shop/key"
)
TOKEN: Key[str | None] = Key(
    "session_token",
    SECRET,
    None,
    "secret://name/key, for credentials that end.",
    example="secret://shop/session",
)


def _storage(fields: Fields, reading: Reading) -> Settings:
    keys = (ENDPOINT, REGION, ACCESS_KEY, SECRET_KEY, TOKEN)
    values = {key.name: value for key in keys if (value := fields[key]) is not None}
    names = {key.name for key in keys if key.name in fields.nodes}
    lone = "session_token" in names and "access_key_id" not in names
    if lone or ("access_key_id" in names) != ("secret_access_key" in names):
        message = "access_key_id and secret_access_key go together"
        reading.problems.add(
            fields.place,
            "missing-key",
            message,
            "give both, or neither for those of the environment",
        )
    return tuple(sorted((f"storage.{name}", value) for name, value in values.items()))


STORAGE: Key[Settings] = Key(
    "storage",
    Nested(Section((ENDPOINT, REGION, ACCESS_KEY, SECRET_KEY, TOKEN)), _storage),
    NOTHING,
    "Where an s3:// path is, and whose credentials are used; else as the environment says.",
)


GROUP_BYTES = 64 << 20
BY = Key(
    "by",
    Choice(("folder", "size")),
    "",
    "folder, or size: one after the other until they come to bytes.",
)
BYTES: Key[int | None] = Key(
    "bytes",
    Whole(1, 1 << 40),
    None,
    "What a group by size comes to, about; 64 MiB.",
    example=67108864,
)


def _group(fields: Fields, reading: Reading) -> Settings:
    if BY.name not in fields.nodes:
        reading.problems.add(
            fields.place,
            "missing-key",
            "the key 'by' is missing",
            "group: {by: folder}, or by: size",
        )
    for misplaced in fields.present((BYTES,)) if fields[BY] == "folder" else ():
        reading.problems.add(
            misplaced.place, "conflicting-keys", "folders have no limit", "remove it, or by: size"
        )
    by, size = ("group.by", fields[BY]), ("group.bytes", fields[BYTES] or GROUP_BYTES)
    return (by, size) if fields[BY] == "size" else (by,)


GROUP: Key[Settings] = Key(
    "group",
    Nested(Section((BY, BYTES)), _group),
    NOTHING,
    "Many small files as few partitions: {by: folder}, {by: size}.",
)


def stored(fields: Fields, path: str, reading: Reading) -> Settings:
    """What `storage` comes to; nothing where it is not given."""
    for misplaced in fields.present((STORAGE,)) if not path.startswith("s3://") else ():
        message = "'storage' belongs to paths of the form s3://bucket/..."
        hint = "workers and drivers find credentials of other stores in their environment"
        reading.problems.add(misplaced.place, "conflicting-keys", message, hint)
    return fields[STORAGE]


def report_link(fields: Fields, file_format: str, reading: Reading) -> None:
    """Report `link` of files that no fragment has."""
    for misplaced in fields.present((LINK_FILES,)) if file_format != "parquet" else ():
        message = "'link' belongs to files of format parquet"
        reading.problems.add(
            misplaced.place, "conflicting-keys", message, "the files of the lake are Parquet"
        )


def settings(fields: Fields, path: str, reading: Reading) -> Settings:
    """What these keys of a read come to; nothing where none is given."""
    for extra in fields.present((GROUP,)) if "partition" in fields.nodes else ():
        message = "'group' cannot stand beside 'partition'"
        reading.problems.add(
            extra.place, "conflicting-keys", message, "either says what a partition is"
        )
    regex = (("regex", fields[REGEX]),) if fields[REGEX] is not None else ()
    link = ((LINK, True),) if fields[LINK_FILES] else ()
    return tuple(sorted((*stored(fields, path, reading), *fields[GROUP], *regex, *link)))
