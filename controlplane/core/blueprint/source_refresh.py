"""The language of refreshing sources: an interval, a cron expression, on demand of freshness goals,
on request only; and of streams also `continuous`, or a bound on latency."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.core import cron_times
from controlplane.core.blueprint.freshness import Duration
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.section_keys import Fields, Key, Section
from controlplane.core.blueprint.value_kinds import (
    DURATION,
    JsonSchema,
    Reading,
    described,
    seconds,
    text_of,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Node, Scalar

CONTINUOUS_S = 1.0
SHORTEST_MS = 100
EXPECTED = f"a duration of at least {SHORTEST_MS}ms, such as 500ms, 2s or 1m"
CRON = "cron:"
ON_CHANGE = "on_change"
UNNOTICED_S = 600.0  # until a change is seen whose notice was lost
_MILLISECONDS = re.compile(r"([0-9]{1,6})ms")
ON_DEMAND, ON_DEMAND_S = "on_demand", 60.0  # and the shortest interval by default
_CHOICES = 'a duration such as 30s, 5m, 1h or 1d, "cron: 0 6 * * *", on_demand, or manual'


class SourceRefresh(NamedTuple):
    """How often to list, in seconds; None: on request only, or by `cron`, an expression with five
    fields. `within_s`: the source is looked at without a pause, and a new row is to be in the
    dataset so soon. `is_watched`: a worker waits for changes of the folder, and `every_s` repairs
    lost notices. `on_demand_s`: freshness goals downstream say how often, at most every so many
    seconds."""

    every_s: float | None
    within_s: float | None = None
    cron: str | None = None
    is_watched: bool = False
    on_demand_s: float | None = None

    @staticmethod
    def within(bound_s: float) -> SourceRefresh:
        return SourceRefresh(bound_s, bound_s)


MIN_INTERVAL = Key(
    "min_interval",
    Duration(),
    ON_DEMAND_S,
    "As on_demand: the shortest time between two listings.",
    is_required=True,
    example="5m",
)
_DEMAND = Section((MIN_INTERVAL,))


def _on_demand(shortest_s: float | None) -> SourceRefresh:
    return SourceRefresh(None, on_demand_s=shortest_s)


@dataclass(frozen=True, slots=True)
class RefreshChoice:
    """How a source is followed: an interval, a cron expression, `on_demand`, `manual`, and of
    folders also `on_change`."""

    is_of_folders: bool = False

    def read(self, node: Node, reading: Reading) -> SourceRefresh:
        if isinstance(node, Entries) and node.get(MIN_INTERVAL.name) is not None:
            return _on_demand(_DEMAND.read(node, reading)[MIN_INTERVAL])
        text = node.text if isinstance(node, Scalar) else text_of(node, reading, _CHOICES)
        if text == "manual":
            return SourceRefresh(None)
        if text == ON_DEMAND:
            return _on_demand(ON_DEMAND_S)
        if text.startswith(CRON):
            return SourceRefresh(None, cron=_cron(text, node, reading))
        if text == ON_CHANGE:
            return self._on_change(node, reading)
        if text == "continuous":
            message = f"refresh {shown(text)} is for streams: connector kafka"
            raise reading.refuse(node, "not-supported", message, f"use {_CHOICES}")
        duration_s = seconds(text)
        if duration_s is None:
            raise reading.refuse(
                node, "invalid-duration", f"expected {_CHOICES}, found {described(node)}"
            )
        return SourceRefresh(duration_s)

    def _on_change(self, node: Node, reading: Reading) -> SourceRefresh:
        if not self.is_of_folders:
            message = (
                f"refresh {ON_CHANGE} needs a source that says when it changes: a local folder"
            )
            raise reading.refuse(node, "not-supported", message, f"use {_CHOICES}")
        return SourceRefresh(UNNOTICED_S, CONTINUOUS_S, is_watched=True)

    def schema(self) -> JsonSchema:
        watched = f"|{ON_CHANGE}" if self.is_of_folders else ""
        words = f"^({DURATION}|manual|{ON_DEMAND}|{CRON}.*{watched})$"
        return {"anyOf": [{"type": "string", "pattern": words}, _DEMAND.schema()]}


def report_unwatched(refresh: SourceRefresh, path: str, fields: Fields, reading: Reading) -> None:
    """A problem where `on_change` is for a place that gives no notice."""
    is_local = "://" not in path or path.startswith("file://")
    if not refresh.is_watched or is_local or "notices" in fields.nodes:
        return
    message = f"refresh {ON_CHANGE} needs a local folder, or `notices` of an object store"
    place = fields.nodes["refresh"][1].place
    reading.problems.add(place, "not-supported", message, f"use {_CHOICES}")


def _cron(text: str, node: Node, reading: Reading) -> str:
    expression = " ".join(text.removeprefix(CRON).split())
    fault = cron_times.fault(expression)
    if fault is not None:
        message = f"the cron expression {shown(expression)} {fault}"
        raise reading.refuse(node, "invalid-value", message, 'such as "cron: 0 6 * * 1-5"')
    return expression


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
_REFRESH = RefreshChoice()


@dataclass(frozen=True, slots=True)
class StreamRefresh:
    """How a stream is followed: as other sources, `continuous`, or a bound on latency."""

    def read(self, node: Node, reading: Reading) -> SourceRefresh:
        if isinstance(node, Scalar) and node.text == "continuous":
            return SourceRefresh.within(CONTINUOUS_S)
        if isinstance(node, Entries) and node.get(MIN_INTERVAL.name) is None:
            return SourceRefresh.within(BOUND.read(node, reading)[WITHIN])
        return _REFRESH.read(node, reading)

    def schema(self) -> JsonSchema:
        words = {"type": "string", "pattern": "^continuous$"}
        return {"anyOf": [*_REFRESH.schema()["anyOf"], words, BOUND.schema()]}
