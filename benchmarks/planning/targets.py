"""What planning is meant to cost, and where it costs more.

Does not belong here: measuring, words around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from benchmarks.planning.results import Entry, exponent

SMALL, LARGE = 100, 10_000
GROWTH = 0.1
GROWING = ("S2", "S3")  # what must not
MILLIONS = 100_000_000
SERVED = ("S1", "S2", "S3", "S10")


@dataclass(frozen=True, slots=True)
class Target:
    """For one scenario and size, on every store and way that it was measured: seconds (the median),
    and memory."""

    scenario: str
    words: str
    seconds: float | None
    peak_mb: float | None = None
    components: int = 100
    partitions: int = LARGE

    def fits(self, entry: Entry) -> bool:
        of = (entry["scenario"], entry["components"], entry["partitions"])
        return of == (self.scenario, self.components, self.partitions)


TARGETS = (
    Target("S1", "nothing changed, new process", 0.5),
    Target("S2", "nothing changed, warm", 0.01),
    Target("S3", "one late partition of one root", 0.05),
    Target("S4", "a hundred scattered ones", 0.5),
    Target("S5/counted", "logic of a root changed: counted", 0.05),
    Target("S5/full", "the same, handed over in full", 2.0),
    Target("S7/holes", "1 % holes everywhere", 1.0),
    Target("S7/second", "every second partition of one component", 1.0),
    Target("S8", "branch", 0.01),
    Target("S9", "revert", 0.05),
    Target("S10", "the same work in another dataflow", 0.2),
    Target("commit", "commit of 10,000 finished partitions", 1.0),
    Target("S2", "1,000 components: nothing changed, warm", 0.03, 1500, 1000),
    Target("S0", "1,000 components: nothing materialised", 15.0, 1500, 1000),
    Target("S2", "10,000 components: nothing changed, warm", 0.1, None, 10_000),
    Target("S3", "10,000 components: one late partition", 0.1, None, 10_000),
    Target("S4/1000", "10,000 components: a thousand scattered ones", 1.0, None, 10_000),
    Target("build", "10,000 components: building it all", 180.0, 2000, 10_000),
    Target("one/1", "one dataset of 100 million: one change", 0.02, 1000, 1, MILLIONS),
    Target("one/1000", "one dataset of 100 million: a thousand scattered", 1.0, 1000, 1, MILLIONS),
)


@dataclass(frozen=True, slots=True)
class Miss:
    """`measured` and `limit` in the same unit."""

    what: str
    measured: float
    limit: float
    unit: str


def misses(entries: Sequence[Entry]) -> list[Miss]:
    return [*_slow(entries), *_talkative(entries), *_growing(entries)]


def unmeasured(entries: Sequence[Entry]) -> Iterator[str]:
    """Targets that nothing was measured for, in a way in which something should be."""
    for target in TARGETS:
        stores = ("sqlite", "postgresql") if target.components == SMALL else ("sqlite",)
        vias = (
            ("process", "service")
            if target.components == SMALL and target.scenario in SERVED
            else ("process",)
        )
        found = {(e["store"], e["via"]) for e in entries if target.fits(e)}
        for store, via in product(stores, vias):
            if (store, via) not in found:
                yield f"{target.scenario} ({target.words}), {store}, {via}"


def _slow(entries: Iterable[Entry]) -> Iterator[Miss]:
    for entry in entries:
        for target in TARGETS:
            if target.fits(entry):
                what = f"{entry['scenario']} ({target.words}), {way(entry)}"
                if target.seconds is not None and entry["median_s"] > target.seconds:
                    yield Miss(what, entry["median_s"], target.seconds, "s")
                if target.peak_mb is not None and entry["peak_mb"] > target.peak_mb:
                    yield Miss(what, entry["peak_mb"], target.peak_mb, "MB")


def statements_allowed(entry: Entry) -> int:
    """Of any plan: ten, four for each layer that it touches, one for each 10,000 keys."""
    return 10 + 4 * entry["layers"] + entry["items"] // 10_000


def is_plan(entry: Entry) -> bool:
    """And nothing else: through the service, S10 also stores a revision, and wakes the loop."""
    if (entry["scenario"], entry["via"]) == ("S10", "service"):
        return False
    return entry["scenario"] not in ("S8", "commit", "S1/imports", "build", "build/blueprints")


def _talkative(entries: Iterable[Entry]) -> Iterator[Miss]:
    for entry in entries:
        allowed = statements_allowed(entry)
        if is_plan(entry) and entry["statements"] > allowed:
            size = f"{entry['components']:,} x {entry['partitions']:,}"
            yield Miss(
                f"{entry['scenario']}, {size}, {way(entry)}",
                entry["statements"],
                allowed,
                "statements",
            )


def _growing(entries: Sequence[Entry]) -> Iterator[Miss]:
    for scenario in GROWING:
        for store, via in sorted({(e["store"], e["via"]) for e in entries}):
            found = growth(entries, scenario, store, via)
            if found is not None and found > GROWTH:
                yield Miss(
                    f"{scenario}, {store}, {via}: growth with N", found, GROWTH, "as exponent"
                )


def growth(entries: Iterable[Entry], scenario: str, store: str, via: str) -> float | None:
    """The fitted exponent over N, on a hundred components."""
    wanted = (scenario, store, via, SMALL)
    of = (e for e in entries if (e["scenario"], e["store"], e["via"], e["components"]) == wanted)
    return exponent({e["partitions"]: e["median_s"] for e in of})


def way(entry: Entry) -> str:
    return f"{entry['store']}, {entry['via']}"
