"""States of datasets, and those that are being built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controlplane.core.model.event_times import EventTimes
from dataplane.contract.schemas import Schema

Cause: TypeAlias = Literal[
    "logic", "input", "schema", "missing", "removed", "period", "retry", "forced", "sync", "lost",
    "rollback", "resume", "imported",
]  # fmt: skip


# End names of inputs: trees of hidden datasets
KEYS, PAIRS, PARTS, PARTED = "/keys", "/pairs", "/parts", "/parted"
CLOSED = "/closed"  # the keys that a watermark has closed
# Stands for the code of a state some of whose files are gone: all of it is looked at again
LOST = bytes(32)


@dataclass(frozen=True, slots=True)
class Consumed:
    """One input as a state was built from it.

    `times`: of a listing, the newest event times in its slices. `watermark_us`: of a dataset, up to
    which time its rows were complete, in microseconds since 1970.
    """

    dataset: str
    root: bytes
    schema: bytes  # schema id
    times: EventTimes | None = None
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A settled state of a dataset. `seq` counts all states, `generation` those that changed what
    readers see.

    `cut` maps source datasets (`flow.name`) to the listing roots reflected here.
    """

    branch: str
    dataset: str
    seq: int
    generation: int
    logic: bytes
    inputs: Mapping[str, Consumed]
    root: bytes
    schema: Schema
    cut: Mapping[str, bytes]
    partitions: int
    rows: int
    cause: Cause
    revision: int
    at: float
    # Digest of this logic and of all logic upstream: inputs of other code are never mixed
    lineage: bytes


@dataclass(frozen=True, slots=True)
class PartialState:
    """A dataset that is being built in windows: `root` holds the finished partitions for these
    inputs; the rest are its holes.

    `lineage` and `cut` are those of the finished state; `inputs` are the roots (perhaps half-built,
    too) consumed so far.
    """

    branch: str
    dataset: str
    lineage: bytes
    inputs: Mapping[str, Consumed]
    root: bytes
    schema: Schema | None
    cut: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """What a run under way reads: it is finished on that, not on what comes meanwhile.

    `states` are those of the inputs, by slot (their `seq`). A read component has none: it reads the
    listing whose root stands in its `cut`.
    """

    branch: str
    dataset: str
    lineage: bytes
    states: Mapping[str, int]
    cut: Mapping[str, bytes]
