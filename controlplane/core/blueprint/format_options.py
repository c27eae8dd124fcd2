"""Options of formats that Spark does not read itself: the blueprint is where they are checked."""

from __future__ import annotations

from controlplane.core.blueprint.common_keys import ON_BAD_RECORD, OPTIONS
from controlplane.core.blueprint.section_keys import Fields
from controlplane.core.blueprint.value_kinds import Reading
from dataplane.contract.staged_formats import STAGED, staged_options

OF_RECORDS = ("csv", "json", *STAGED)  # formats of which Spark shows a bad record


def report_quarantine(fields: Fields, format: str, reading: Reading) -> None:
    """Report `on_bad_record: quarantine` of a format without records that could be shown."""
    if fields[ON_BAD_RECORD] != "quarantine" or format in OF_RECORDS:
        return
    message = f"{format} has no single bad record: a damaged file fails"
    hint = f"on_bad_record: fail, or one of the formats {', '.join(OF_RECORDS)}"
    [key] = fields.present((ON_BAD_RECORD,))
    reading.problems.add(key.place, "conflicting-keys", message, hint)


def report_options(fields: Fields, format: str, reading: Reading) -> None:
    """Report an option that such a format does not have, or lacks."""
    if format not in STAGED:
        return
    try:
        staged_options(format, dict(fields[OPTIONS]))
    except ValueError as e:
        place = (
            fields.nodes[OPTIONS.name][0].place if OPTIONS.name in fields.nodes else fields.place
        )
        reading.problems.add(place, "invalid-value", str(e), "docs/files.md has the options")
