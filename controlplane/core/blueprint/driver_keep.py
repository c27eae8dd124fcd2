"""The language of `drivers`: for how long a dataflow's drivers stay without work."""

from __future__ import annotations

from typing import cast

from controlplane.core.blueprint.freshness import Duration
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.value_kinds import Choice, Reading
from controlplane.core.model.scaling import USUAL_KEEP, DriverKeep, Keep

KEEP = Key(
    "keep",
    Choice(("warm", "idle", "cold")),
    "idle",
    "Without work: warm: one driver stays; idle: drivers end after a time; cold: they end.",
)
IDLE: Key[float | None] = Key(
    "idle", Duration(), None, "Time without work. Else the setting of the service.", example="10m"
)


def _read(fields: Fields, reading: Reading) -> DriverKeep:
    keep = cast("Keep", fields[KEEP])
    for idle in fields.present((IDLE,)) if keep != "idle" else ():
        message = f"drivers that are kept {keep} have no time without work"
        reading.problems.add(idle.place, "conflicting-keys", message, "keep: idle")
    return DriverKeep(keep, fields[IDLE])


DRIVERS = Key(
    "drivers",
    Nested(Section((KEEP, IDLE)), _read),
    USUAL_KEEP,
    "How long drivers stay without work.",
    example={"keep": "warm"},
)
