"""The language of freshness: how old the newest data of a dataset may be."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.blueprint.model import Write
from controlplane.core.blueprint.section_keys import Fields, Key
from controlplane.core.blueprint.value_kinds import (
    DURATION,
    JsonSchema,
    Reading,
    described,
    seconds,
    text_of,
)
from controlplane.core.blueprint.yaml_nodes import Node, Scalar

WANTED = "a duration such as 30m, 26h or 7d"


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, written with their unit."""

    def read(self, node: Node, reading: Reading) -> float:
        text = node.text if isinstance(node, Scalar) else text_of(node, reading, WANTED)
        duration_s = seconds(text)
        if duration_s is None:
            raise reading.refuse(
                node, "invalid-duration", f"expected {WANTED}, found {described(node)}"
            )
        return duration_s

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^{DURATION}$"}


FRESHNESS: Key[float | None] = Key(
    "freshness",
    Duration(),
    None,
    "How old the newest data may be before the dataset is overdue.",
    example="26h",
)


def report_freshness(fields: Fields, body: object, reading: Reading) -> None:
    """A copy has no data of its own."""
    for key in fields.present((FRESHNESS,)) if isinstance(body, Write) else ():
        message = "a write component makes no dataset whose data could be late"
        reading.problems.add(
            key.place, "conflicting-keys", message, "expect it of the dataset that is written"
        )
