"""The language of `max_recompute`: how much of an input one changed partition of it may redo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.core.blueprint.model import RecomputeLimit, RereadExtent
from controlplane.core.blueprint.problems import BlueprintRefused
from controlplane.core.blueprint.section_keys import Key
from controlplane.core.blueprint.transforms import INPUT_DATASET
from controlplane.core.blueprint.value_kinds import (
    Choice,
    JsonSchema,
    Reading,
    as_text,
    entries_of,
)
from controlplane.core.blueprint.yaml_nodes import Node

_MOST: Choice[RereadExtent] = Choice(("partition", "key"))
NO_LIMITS: tuple[RecomputeLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class RecomputeLimits:
    """A mapping of input names to `partition` or `key`."""

    def read(self, node: Node, reading: Reading) -> tuple[RecomputeLimit, ...]:
        return tuple(self._limits(node, reading))

    def _limits(self, node: Node, reading: Reading) -> Iterator[RecomputeLimit]:
        entries = entries_of(node, reading, "a mapping of input names to partition or key").entries
        for key, most in entries:
            try:
                name = INPUT_DATASET.read(as_text(key), reading)
                yield RecomputeLimit(name, _MOST.read(most, reading), key.place)
            except BlueprintRefused:
                """The problem is noted; the other inputs are read all the same."""

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "propertyNames": INPUT_DATASET.schema(),
            "additionalProperties": _MOST.schema(),
        }


MAX_RECOMPUTE = Key(
    "max_recompute",
    RecomputeLimits(),
    NO_LIMITS,
    "How much of each input may be read again where one partition of it changes: partition or key.",
    example={"orders": "partition"},
)
