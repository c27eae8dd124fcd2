"""Run events as OpenLineage has them (https://openlineage.io/spec/2-0-2/OpenLineage.json), limited
to the parts that we send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

EventType: TypeAlias = Literal["START", "COMPLETE", "FAIL"]
Facets: TypeAlias = Mapping[str, Mapping[str, object]]
"""By name. Each has `_producer` and `_schemaURL`."""


class OpenLineageRun(TypedDict):
    runId: str
    facets: Facets


class OpenLineageJob(TypedDict):
    namespace: str
    name: str
    facets: Facets


class OpenLineageDataset(TypedDict):
    namespace: str
    name: str
    facets: Facets


class RunEvent(TypedDict):
    eventType: EventType
    eventTime: str
    run: OpenLineageRun
    job: OpenLineageJob
    inputs: list[OpenLineageDataset]
    outputs: list[OpenLineageDataset]
    producer: str
    schemaURL: str
