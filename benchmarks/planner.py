"""How long it takes to tell what work is to be done, on graphs of up to a hundred million
partitions.

    python benchmarks/planner.py [--stores sqlite,postgresql] [--partitions 100,1000,10000] [--runs
    5] [--peers] python benchmarks/planner.py --huge python benchmarks/planner.py --page

Keeps results in benchmarks/results/planner.json and writes the section of docs/performance.md. Ends
with 1 if any run came to other work than there is. Does not belong here: how anything is measured
(planning).
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.planning import page, peers, remote, results
from benchmarks.planning.graph import Shape, ring
from benchmarks.planning.huge import measure_huge
from benchmarks.planning.machine import machine
from benchmarks.planning.results import Entry, Nothing
from benchmarks.planning.runs import Bench
from benchmarks.planning.scenarios import EVERY
from benchmarks.planning.stores import Databases, open_databases

COMPONENTS, WIDE_COMPONENTS, FEWEST = 100, 1000, 100
# What is measured on a thousand components too
WIDE = ("S0", "S1", "S2", "S3", "S5/counted", "S5/full")
ALONE = ("one/1", "one/1000")
EVERYTHING = [scenario.name for scenario in EVERY if scenario.name not in ("S4/1000", *ALONE)]


def main() -> None:
    asked = _arguments()
    # What was started is ended, and what was made is removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if asked.page:
        page.write()
    elif not _measure(asked):
        sys.exit(1)


def _measure(asked: argparse.Namespace) -> bool:
    """All that is asked for, kept as it comes, so that an interruption loses little; False if any
    of it is void."""
    is_kept, is_sound = asked.scale == 1, True
    for entry in _huge(asked) if asked.huge else _stores(asked):
        is_sound &= not isinstance(entry, Nothing)
        if is_kept:
            results.keep(entry)
    if asked.peers:
        for found in peers.measure(
            [(COMPONENTS, partitions) for partitions in asked.partitions], asked.runs
        ):
            peers.keep(found)
        peers.say_ratios(results.load())
    if is_kept:
        page.write(machine())
    return is_sound


def _huge(asked: argparse.Namespace) -> Iterator[Entry | Nothing]:
    for store in asked.stores:
        yield from measure_huge(store, asked.runs, asked.scratch, asked.scale)


def _stores(asked: argparse.Namespace) -> Iterator[Entry | Nothing]:
    for store in asked.stores:
        with open_databases(store) as databases:
            for partitions in asked.partitions:
                yield from _measured(
                    asked, databases, ring(COMPONENTS, partitions), EVERYTHING, remote.NAMES
                )
                yield from _measured(asked, databases, ring(1, partitions), ALONE, ())
            if FEWEST in asked.partitions:
                yield from _measured(asked, databases, ring(WIDE_COMPONENTS, FEWEST), WIDE, ())


def _measured(
    asked: argparse.Namespace,
    databases: Databases,
    shape: Shape,
    names: Sequence[str],
    served: Sequence[str],
) -> Iterator[Entry | Nothing]:
    wanted, services = (
        [n for n in of if asked.scenarios is None or n in asked.scenarios] for of in (names, served)
    )
    bench = Bench(databases, shape, asked.runs)
    try:
        yield from bench.measure(wanted, services)
    finally:
        bench.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How long planning takes.")
    parser.add_argument("--stores", type=_texts, default=["sqlite", "postgresql"])
    parser.add_argument(
        "--partitions", type=lambda t: [int(n) for n in t.split(",")], default=[100, 1000, 10_000]
    )
    parser.add_argument("--scenarios", type=_texts, help="only these: S3,S5/full (all)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--peers", action="store_true", help="SQLMesh and Dagster too, in environments of their own"
    )
    parser.add_argument(
        "--huge", action="store_true", help="10 and 100 million partitions, and nothing else"
    )
    parser.add_argument(
        "--scale", type=int, default=1, help="with --huge: so many times fewer partitions, not kept"
    )
    parser.add_argument(
        "--scratch",
        type=Path,
        help="with --huge: the folder for gigabytes of SQLite (the system's)",
    )
    parser.add_argument(
        "--page", action="store_true", help="write docs/performance.md anew from what is kept"
    )
    return parser.parse_args()


def _texts(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
