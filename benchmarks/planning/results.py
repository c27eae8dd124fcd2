"""Results as they are kept: one entry for each scenario, store, way and size; and how they grow.

Does not belong here: running anything, targets, words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias, TypedDict

from benchmarks.planning.world import Found

Via: TypeAlias = Literal["process", "service"]
Key: TypeAlias = tuple[str, str, str, int, int]
FILE = Path(__file__).resolve().parents[1] / "results" / "planner.json"


class Entry(TypedDict):
    """Medians over runs, but for `worst_s` and `peak_mb`. `partitions` are those of each
    component."""

    scenario: str
    store: str
    via: Via
    components: int
    partitions: int
    items: int
    median_s: float
    worst_s: float
    statements: int
    nodes_read: int
    peak_mb: float
    layers: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """What was measured is void."""

    key: Key


def entry(
    scenario: str, store: str, via: Via, components: int, partitions: int, runs: Sequence[Found]
) -> Entry:
    return Entry(
        scenario=scenario,
        store=store,
        via=via,
        components=components,
        partitions=partitions,
        items=runs[0].items,
        median_s=round(median(run.seconds for run in runs), 6),
        worst_s=round(max(run.seconds for run in runs), 6),
        statements=int(median(run.statements for run in runs)),
        nodes_read=int(median(run.nodes_read for run in runs)),
        peak_mb=round(max(run.peak_mb for run in runs), 1),
        layers=runs[0].layers,
    )


def key(entry: Entry) -> Key:
    return (
        entry["scenario"],
        entry["store"],
        entry["via"],
        entry["components"],
        entry["partitions"],
    )


def load(file: Path = FILE) -> list[Entry]:
    return json.loads(file.read_text()) if file.exists() else []


def keep(new: Entry | Nothing, file: Path = FILE) -> None:
    """In the place of what has the same key."""
    entries = {key(e): e for e in load(file)}
    if isinstance(new, Nothing):
        entries.pop(new.key, None)
    else:
        entries[key(new)] = new
    file.parent.mkdir(exist_ok=True)
    file.write_text("[\n" + ",\n".join(json.dumps(entries[k]) for k in sorted(entries)) + "\n]\n")


def exponent(seconds: Mapping[int, float]) -> float | None:
    """The power of N that times grow with: the slope of the best line through them, both on
    logarithmic scales."""
    if len(seconds) < 2:
        return None
    xs, ys = [log(n) for n in seconds], [log(s) for s in seconds.values()]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
