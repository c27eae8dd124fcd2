"""What a branch costs beside a main of 10,000 components: making it, reading through it, and a pass
of the loop.

    python benchmarks/branches.py [--stores sqlite,postgresql] [--components 100,10000] [--passes
    100,1000]
                                  [--runs 20] [--keep]

Main is materialised and at rest. For branches and reads, a hundred components have their rows
multiplied; for passes, all are real, which takes a minute for a thousand. Each call is made once
before it is timed; times of branches and of main alternate. `--keep` writes
benchmarks/results/branches.json. Does not belong here: how a call is counted
(planning.branch_costs), planning of edits in branches (S8/plan of planner).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.planning import ours
from benchmarks.planning.branch_costs import Beside, Cost
from benchmarks.planning.graph import Shape, ring
from benchmarks.planning.machine import machine
from benchmarks.planning.seed import Seeder
from benchmarks.planning.stores import Databases, open_databases

RESULTS = Path(__file__).parent / "results" / "branches.json"
PARTITIONS = 10
SEEDED = 100  # components that are real, where others have rows like theirs
FEW = 5  # reads of all states, which take half a second each
DEV = "dev"
Row = dict[str, str | float]


def main() -> None:
    asked = _arguments()
    # What was started is ended, and what was made is removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    found: list[Row] = []
    for store in asked.stores:
        with open_databases(store) as databases:
            for components in asked.components:
                found += _told(store, components, _multiplied(databases, components, asked.runs))
            for components in asked.passes:
                found += _told(store, components, _passes(databases, components, asked.runs))
    if asked.keep:
        _keep(found)


def _keep(found: Sequence[Row]) -> None:
    """In place of what was kept of the same."""
    on = machine()
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    kept = {_key(row): row for row in (*before, *({**row, "machine": on} for row in found))}
    RESULTS.write_text(json.dumps(list(kept.values()), indent=2) + "\n")


def _key(row: Row) -> tuple[object, ...]:
    return row["store"], row["components"], row["what"]


def _told(
    store: str, components: int, measured: Iterable[tuple[str, Sequence[Cost]]]
) -> Iterator[Row]:
    for what, costs in measured:
        row = {"store": store, "components": components, "what": what, **_row(costs)}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        yield row


@contextmanager
def _beside(databases: Databases, name: str, shape: Shape) -> Iterator[Beside]:
    url = databases.create(name)
    store = ours.open_counted(url)
    Seeder(store, shape).seed("done")
    store.close()
    found = Beside(url, shape)
    yield found
    found.close()


def _multiplied(
    databases: Databases, components: int, runs: int
) -> Iterator[tuple[str, Sequence[Cost]]]:
    name = f"multiplied_{components}"
    with _beside(databases, name, ring(SEEDED, PARTITIONS)) as beside:
        beside.multiply(components // SEEDED)
        databases.seal(name)
        yield "create", _made(beside, runs, pinned=False)
        yield "create --pin", _made(beside, runs, pinned=True)
        beside.create(DEV)
        for what, read in (
            ("one state", beside.head),
            ("all states", beside.heads),
            ("one text", beside.text),
        ):
            for branch in (ours.MAIN, DEV):
                read(branch)
            times = FEW if read == beside.heads else runs
            both = [(read(ours.MAIN), read(DEV)) for _ in range(times)]
            yield f"{what}, of main", [of_main for of_main, _ in both]
            yield f"{what}, of the branch", [of_branch for _, of_branch in both]


def _passes(
    databases: Databases, components: int, runs: int
) -> Iterator[tuple[str, Sequence[Cost]]]:
    name = f"passes_{components}"
    with _beside(databases, name, ring(components, PARTITIONS)) as beside:
        beside.one_pass()
        yield "pass without branches", _repeated(beside.one_pass, runs)
        beside.create(DEV)
        yield "first pass with it", [beside.one_pass()]
        yield "pass with it", _repeated(beside.one_pass, runs)


def _made(beside: Beside, runs: int, *, pinned: bool) -> list[Cost]:
    """Each is dropped again, so that no other one is there."""
    costs = []
    for number in range(runs + 1):
        costs.append(beside.create(f"branch{number}", pinned=pinned))
        beside.drop(f"branch{number}")
    return costs[1:]


def _repeated(call: Callable[[], Cost], runs: int) -> list[Cost]:
    return [call() for _ in range(runs)]


def _row(costs: Sequence[Cost]) -> Row:
    """Medians; of the time also the fastest and the slowest."""
    return {
        "median_ms": round(1000 * median(cost.seconds for cost in costs), 3),
        "best_ms": round(1000 * min(cost.seconds for cost in costs), 3),
        "worst_ms": round(1000 * max(cost.seconds for cost in costs), 3),
        "cpu_ms": round(1000 * median(cost.cpu_s for cost in costs), 3),
        "statements": median(cost.statements for cost in costs),
        "rows": median(cost.rows for cost in costs),
        "states": median(cost.states for cost in costs),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a branch costs.")
    parser.add_argument(
        "--stores", type=lambda text: text.split(","), default=["sqlite", "postgresql"]
    )
    parser.add_argument("--components", type=_numbers, default=[100, 10_000])
    parser.add_argument("--passes", type=_numbers, default=[100, 1000])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


if __name__ == "__main__":
    main()
