"""From costs to ratios, and to a table of them beside their targets.

Does not belong here: running anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from benchmarks.pages import where

Json: TypeAlias = Any
TITLES = {
    "first": "first run / script",
    "served": "one late file through a warm `serve` / script",
    "late": "one late file by a cold `run`, less an empty session / script",
    "nothing": "`run` with nothing to do, seconds",
}
TARGETS: Mapping[str, Mapping[str, float]] = {
    "month": {"first": 0.9, "served": 0.065, "late": 0.15, "nothing": 1.0},
    "day": {"first": 2.0, "served": 0.35, "late": 0.35, "nothing": 1.5},
}
REST = {"pss_mb": 120.0, "cpu_share": 0.005}


def summary(rounds: Sequence[Json], served: Sequence[Json], rest: Sequence[Json]) -> Json:
    """Median and worst of each ratio, of wall time and of CPU time; ratios are taken within a
    round."""
    measured = {
        name: {unit: _spread(_ratios(name, unit, rounds, served)) for unit in UNITS}
        for name in TITLES
    }
    return {**measured, "rest": _sums(rest) if rest else None}


def _sums(rest: Sequence[Json]) -> Json:
    """Of all processes of a service."""
    return {unit: sum(process[unit] for process in rest) for unit in REST}


UNITS = ("wall_s", "cpu_s")


def _ratios(name: str, unit: str, rounds: Sequence[Json], served: Sequence[Json]) -> list[float]:
    scripts = [r["handwritten"][unit] for r in rounds]
    match name:
        case "served":
            return [s[unit] / median(scripts) for s in served]
        case "late":
            return [
                (r["late"][unit] - r["empty_session"][unit]) / r["handwritten"][unit]
                for r in rounds
            ]
        case "nothing":
            return [r["nothing"][unit] for r in rounds]
        case _:
            return [r[name][unit] / r["handwritten"][unit] for r in rounds]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(values), 3), "worst": round(max(values), 3)}


def table(results: Sequence[Json]) -> list[str]:
    """Markdown."""
    return [
        "| files by | what | target | wall: median (worst) | CPU: median (worst) |",
        "|---|---|---|---|---|",
        *(line for r in results for line in _lines(r["by"], r["summary"])),
        *(line for r in results for line in _rest_lines(r["summary"]["rest"])),
        "",
        *(_told(r) for r in results),
    ]


def _told(result: Json) -> str:
    """When and where."""
    count = len(result["rounds"])
    return f"By {result['by']}: {result['at'][:10]}, commit {result['commit']}, {count} rounds; {where(result)}."


def _lines(by: str, found: Json) -> Iterator[str]:
    for name, title in TITLES.items():
        wall, cpu = (found[name][unit] for unit in UNITS)
        shown = (f"{v['median']:.2f} ({v['worst']:.2f})" for v in (wall, cpu))
        yield f"| {by} | {title} | {TARGETS[by][name]} | {' | '.join(shown)} |"


def _rest_lines(rest: Json) -> Iterator[str]:
    if rest:
        yield f"| | `serve` at rest, MB | {REST['pss_mb']:.0f} | {rest['pss_mb']:.0f} | |"
        yield f"| | `serve` at rest, share of a core | {REST['cpu_share']:.1%} | | {rest['cpu_share']:.2%} |"
