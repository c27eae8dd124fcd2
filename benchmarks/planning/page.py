"""The section 'Planning' of docs/performance.md, with its plots, from what is kept.

Does not belong here: measuring, targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.planning import peers, results
from benchmarks.planning.peers import PeerEntry, ratios
from benchmarks.planning.plot import Line, chart
from benchmarks.planning.results import Entry, Via
from benchmarks.planning.targets import (
    LARGE,
    SMALL,
    TARGETS,
    Miss,
    growth,
    misses,
    statements_allowed,
    unmeasured,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, GROWTH, BESIDE = (
    DOCS / "performance.md",
    DOCS / "planning-growth.svg",
    DOCS / "planning-peers.svg",
)
START, END = "<!-- planning -->", "<!-- /planning -->"
WAYS: tuple[tuple[str, Via], ...] = (
    ("sqlite", "process"),
    ("sqlite", "service"),
    ("postgresql", "process"),
    ("postgresql", "service"),
)
NUMBERS = "items | median | worst | SQL statements (allowed) | nodes read | peak MB | layers"
WORDS = {
    "S0": "nothing materialised: all is work",
    "S1": "nothing changed, new process",
    "S1/imports": "what its imports take, apart",
    "S2": "nothing changed, warm process",
    "S3": "one late partition of one root",
    "S4": "100 scattered partitions of one root",
    "S4/1000": "1,000 scattered partitions, over all roots",
    "S5/counted": "logic of one root changed, counted",
    "S5/full": "the same, handed over in full",
    "S5/sink": "logic of one sink changed",
    "S6": "a comment changed",
    "S7/holes": "a first build, the same 1 % of keys unfinished everywhere",
    "S7/scattered": "the same, another 1 % in each layer",
    "S7/second": "every second partition of one root, and of all below it, unfinished",
    "S8": "a branch is made, not the first of its process",
    "S8/plan": "S5 planned in it",
    "S9": "S5 computed, then reverted",
    "S10": "the same components in another dataflow",
    "S11": "a root's partition recomputed, rows equal",
    "S12": "all-to-one edge, one of N changed",
    "commit": "finished partitions taken in, one transaction",
    "one/1": "one dataset: one change",
    "one/1000": "one dataset: 1,000 scattered changes",
    "build": "store it all",
    "build/blueprints": "accept its blueprints",
}


def write(machine: str = "") -> None:
    """Without a machine's words those on the page stay: nothing was measured anew."""
    entries, others = results.load(), peers.load()
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    inside, _, after = rest.partition(END)
    told = machine or next(
        (line for line in inside.splitlines() if line.startswith("Measured ")), ""
    )
    if entries:
        GROWTH.write_text(_growth_chart(entries))
    if others:
        BESIDE.write_text(_peers_chart(entries, others))
    lines = "\n".join(_section(entries, others, told))
    PAGE.write_text(f"{before}{START}\n{lines}\n{END}{after}")


def _section(entries: Sequence[Entry], others: Sequence[PeerEntry], machine: str) -> Iterator[str]:
    yield machine
    yield ""
    yield "### Targets"
    yield from _target_table(entries)
    yield ""
    yield "### Missed"
    yield from _missed(misses(entries), unmeasured(entries))
    yield ""
    yield f"### {SMALL} components of {LARGE:,} partitions"
    yield from _large_table(entries)
    yield ""
    yield "### Growth"
    yield f"![seconds over partitions of each component]({GROWTH.name})"
    yield ""
    yield from _growth_table(entries)
    yield ""
    yield "### Larger graphs"
    yield from _others_table(entries)
    if others:
        yield ""
        yield "### Beside other planners"
        yield f"![seconds beside SQLMesh and Dagster]({BESIDE.name})"
        yield ""
        yield from _peers_table(entries, others)


# --- tables -----------------------------------------------------------------------------------------


def _target_table(entries: Sequence[Entry]) -> Iterator[str]:
    yield f"| what ({SMALL} components x {LARGE:,} unless said) | target | {' | '.join(map(', '.join, WAYS))} |"
    yield "|---|---|" + "---|" * len(WAYS)
    for target in TARGETS:
        limits = [
            f"{target.seconds:g} s" if target.seconds else "",
            f"{target.peak_mb:g} MB" if target.peak_mb else "",
        ]
        found = {(e["store"], e["via"]): e for e in entries if target.fits(e)}
        cells = [_against(found.get(w), target.seconds, target.peak_mb) for w in WAYS]
        yield f"| {target.scenario}: {target.words} | {', '.join(filter(None, limits))} | {' | '.join(cells)} |"


def _against(entry: Entry | None, seconds: float | None, peak_mb: float | None) -> str:
    """Bold where it is missed."""
    if entry is None:
        return ""
    parts = [
        _bold(_seconds(entry["median_s"]), seconds is not None and entry["median_s"] > seconds)
    ]
    if peak_mb is not None:
        parts.append(_bold(f"{entry['peak_mb']:.0f} MB", entry["peak_mb"] > peak_mb))
    return ", ".join(parts)


def _bold(text: str, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text


def _missed(missed: Iterable[Miss], absent: Iterable[str]) -> Iterator[str]:
    lines = [
        f"- {m.what}: {m.measured:.4g} {m.unit} where {m.limit:g} is meant ({m.measured / m.limit:.2g} times)"
        for m in missed
    ]
    lines += [f"- {what}: not measured, or void" for what in absent]
    yield from lines or ["None."]


def _large_table(entries: Iterable[Entry]) -> Iterator[str]:
    yield f"| scenario | store | via | {NUMBERS} |"
    yield "|---|---|---|" + "---|" * NUMBERS.count("|") + "---|"
    for e in _ordered(e for e in entries if e["components"] == SMALL and e["partitions"] == LARGE):
        yield f"| {_named(e)} | {e['store']} | {e['via']} {_numbers(e)}"


def _others_table(entries: Iterable[Entry]) -> Iterator[str]:
    yield f"| scenario | components x partitions | store | {NUMBERS} |"
    yield "|---|---|---|" + "---|" * NUMBERS.count("|") + "---|"
    for e in _ordered(e for e in entries if e["components"] != SMALL):
        yield f"| {_named(e)} | {e['components']:,} x {e['partitions']:,} | {e['store']} {_numbers(e)}"


def _numbers(e: Entry) -> str:
    return (
        f"| {e['items']:,} | {_seconds(e['median_s'])} | {_seconds(e['worst_s'])} "
        f"| {e['statements']} ({statements_allowed(e)}) | {e['nodes_read']:,} | {e['peak_mb']:.0f} | {e['layers']} |"
    )


def _named(e: Entry) -> str:
    return f"{e['scenario']}: {WORDS[e['scenario']]}"


def _ordered(entries: Iterable[Entry]) -> list[Entry]:
    names = list(WORDS)
    return sorted(
        entries,
        key=lambda e: (
            e["components"],
            e["partitions"],
            names.index(e["scenario"]),
            e["store"],
            e["via"],
        ),
    )


def _growth_table(entries: Sequence[Entry]) -> Iterator[str]:
    """Fitted exponents over the numbers of partitions that were measured."""
    sizes = sorted({e["partitions"] for e in entries if e["components"] == SMALL})
    yield f"The power of N that the median grows with, fitted over N = {', '.join(f'{n:,}' for n in sizes)}:"
    yield ""
    yield f"| scenario | {' | '.join(map(', '.join, WAYS))} |"
    yield "|---|" + "---|" * len(WAYS)
    for name, words in WORDS.items():
        found = [growth(entries, name, *w) for w in WAYS]
        if any(f is not None for f in found):
            yield f"| {name}: {words} | {' | '.join('' if f is None else f'{f:.2f}' for f in found)} |"


def _peers_table(entries: Sequence[Entry], others: Sequence[PeerEntry]) -> Iterator[str]:
    yield "Ours is the call in the process on SQLite. A ratio above 1 says how many times longer the other takes."
    yield ""
    yield "| scenario | components x partitions | other | items | its median | ours | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for peer, ours, ratio in ratios(entries, others):
        size = f"{peer['components']:,} x {peer['partitions']:,}"
        yield (
            f"| {peer['scenario']}: {WORDS[peer['scenario']]} | {size} | {peer['peer']} | {peer['items']:,} "
            f"| {_seconds(peer['median_s'])} | {_seconds(ours['median_s'])} | {ratio:,.1f} |"
        )


def _seconds(value: float) -> str:
    return f"{value:,.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"


# --- plots ------------------------------------------------------------------------------------------


def _points(entries: Iterable[Entry], scenario: str, store: str, via: str) -> dict[float, float]:
    wanted = (scenario, store, via, SMALL)
    of = (e for e in entries if (e["scenario"], e["store"], e["via"], e["components"]) == wanted)
    return {e["partitions"]: e["median_s"] for e in of}


def _growth_chart(entries: Sequence[Entry]) -> str:
    lines = []
    for color, name in enumerate(("S2", "S3", "S5/counted", "S5/full")):
        for dashes, store in enumerate(("sqlite", "postgresql")):
            lines.append(
                Line(f"{name}, {store}", _points(entries, name, store, "process"), color, dashes)
            )
    return _chart(f"Planning {SMALL} components, in the process", lines)


def _peers_chart(entries: Sequence[Entry], others: Sequence[PeerEntry]) -> str:
    lines = []
    for color, name in enumerate(("S2", "S3", "S5/full")):
        lines.append(Line(f"{name}, Headgate", _points(entries, name, "sqlite", "process"), color))
        for dashes, peer in enumerate(peers.PEERS, 1):
            of = [
                p
                for p in others
                if (p["peer"], p["scenario"], p["components"]) == (peer, name, SMALL)
            ]
            lines.append(
                Line(f"{name}, {peer}", {p["partitions"]: p["median_s"] for p in of}, color, dashes)
            )
    return _chart(f"Deciding about {SMALL} components", lines)


def _chart(title: str, lines: Sequence[Line]) -> str:
    return chart(
        title, "partitions of each component", "median", [line for line in lines if line.points]
    )
