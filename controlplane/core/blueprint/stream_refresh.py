"""The language of refreshing streams: `continuous`, a bound on latency, or as for other sources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.core.blueprint.section_keys import Key, Section
from controlplane.core.blueprint.value_kinds import (
    DURATION,
    JsonSchema,
    Reading,
    RefreshInterval,
    described,
    seconds,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Node, Scalar

CONTINUOUS_S = 1.0
SHORTEST_MS = 100
EXPECTED = f"a duration of at least {SHORTEST_MS}ms, such as 500ms, 2s or 1m"
_MILLISECONDS = re.compile(r"([0-9]{1,6})ms")
_INTERVAL = RefreshInterval()


class SourceRefresh(NamedTuple):
    """How often to list, in seconds; None: on request only. `within_s`: the source is looked at
    without a pause, and a new row is to be in the dataset so soon."""

    every_s: float | None
    within_s: float | None = None

    @staticmethod
    def within(bound_s: float) -> SourceRefresh:
        return SourceRefresh(bound_s, bound_s)


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """Seconds, written with their unit, which may be milliseconds."""

    def read(self, node: Node, reading: Reading) -> float:
        bound_s = _bound_s(node.text) if isinstance(node, Scalar) else None
        if bound_s is None:
            message = f"expected {EXPECTED}, found {described(node)}"
            raise reading.refuse(node, "invalid-duration", message)
        return bound_s

    def schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^({DURATION}|[0-9]{{3,6}}ms)$"}


def _bound_s(text: str) -> float | None:
    """None where the text is no duration, or too short."""
    match = _MILLISECONDS.fullmatch(text)
    if match is None:
        return seconds(text)
    return int(match[1]) / 1000 if int(match[1]) >= SHORTEST_MS else None


WITHIN = Key(
    "within",
    LatencyBound(),
    CONTINUOUS_S,
    "How soon a new row is to be in the dataset.",
    is_required=True,
    example="500ms",
)
BOUND = Section((WITHIN,))


@dataclass(frozen=True, slots=True)
class StreamRefresh:
    """How a stream is followed: an interval, `manual`, `continuous`, or a bound on latency."""

    def read(self, node: Node, reading: Reading) -> SourceRefresh:
        if isinstance(node, Scalar) and node.text == "continuous":
            return SourceRefresh.within(CONTINUOUS_S)
        if isinstance(node, Entries):
            return SourceRefresh.within(BOUND.read(node, reading)[WITHIN])
        return SourceRefresh(_INTERVAL.read(node, reading))

    def schema(self) -> JsonSchema:
        words = {"type": "string", "pattern": f"^({DURATION}|manual|continuous)$"}
        return {"anyOf": [words, BOUND.schema()]}
