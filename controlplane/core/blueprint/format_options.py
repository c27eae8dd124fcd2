"""Options of formats that Spark does not read itself: the blueprint is where they are checked."""

from __future__ import annotations

from controlplane.core.blueprint.common_keys import OPTIONS
from controlplane.core.blueprint.section_keys import Fields
from controlplane.core.blueprint.value_kinds import Reading
from dataplane.contract.staged_formats import STAGED, staged_options


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
