"""The language of results that outlive the code or the moment that made them: `volatile` and `pin`
of a component."""

from __future__ import annotations

import re
from dataclasses import dataclass

from controlplane.core.blueprint.model import PythonTransform, SqlTransform
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.recompute_limits import MAX_RECOMPUTE
from controlplane.core.blueprint.section_keys import Fields, Key
from controlplane.core.blueprint.value_kinds import Fault, JsonSchema, Reading, Text, text_of
from controlplane.core.blueprint.yaml_nodes import Node, Scalar

PERIODS = ("daily", "hourly")
DIGEST = "[0-9a-f]{64}"


@dataclass(frozen=True, slots=True)
class Lifetime:
    """`true`, or how often results are computed again."""

    def read(self, node: Node, reading: Reading) -> str:
        if isinstance(node, Scalar) and node.value is True:
            return "true"
        text = text_of(node, reading, "true, daily or hourly")
        if text in PERIODS:
            return text
        raise reading.refuse(
            node, "invalid-value", f"expected true, daily or hourly, found {shown(text)}"
        )

    def schema(self) -> JsonSchema:
        return {"enum": [True, *PERIODS]}


def _logic_id(text: str) -> Fault | None:
    if re.fullmatch(DIGEST, text):
        return None
    return Fault(
        "invalid-value",
        f"{shown(text)} is no logic id",
        "64 hexadecimal digits, as `headgate why` shows them",
    )


VOLATILE = Key(
    "volatile",
    Lifetime(),
    "",
    "Results are frozen and never shared; or made again each day or hour.",
)
PIN = Key(
    "pin",
    Text((_logic_id,), f"^{DIGEST}$", "a logic id"),
    "",
    "A logic id to keep although the code changes.",
    example="5b1f0c" + "0" * 58,
)


def report_misplaced(fields: Fields, body: object, reading: Reading) -> None:
    """Only transforms can be volatile or pinned, or have inputs."""
    if isinstance(body, SqlTransform | PythonTransform):
        return
    for key in fields.present((VOLATILE, PIN, MAX_RECOMPUTE)):
        message = f"{key.text!r} belongs to transforms"
        reading.problems.add(key.place, "conflicting-keys", message, "remove it")
